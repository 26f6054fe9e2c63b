"""WeChat Pay's notifications of payments and refunds. Public: WeChat's signature authenticates them."""

from __future__ import annotations

import json

from aws_lambda_powertools.event_handler import Response

from artiway import bootstrap
from artiway.errors import ArtiwayError
from artiway.payments.model import Answer
from artiway.platform import http
from artiway.platform.logs import Logger

logger = Logger("wechat")
# WeChat may call the API directly: an address in an old order stays valid, and no rule of the web ACL loses a payment.
api = http.Api("wechat", origin=None)
handler = api.handler


@api.post("/wechat/pay/notify", public=True, raw=True, status=204, errors=[401])
def receive_payment() -> Response[str]:
    """A payment. WeChat sends it again after any answer but 204."""
    return _received()


@api.post("/wechat/refund/notify", public=True, raw=True, status=204, errors=[401])
def receive_refund() -> Response[str]:
    """A change of a refund."""
    return _received()


def _received() -> Response[str]:
    try:
        answer = bootstrap.callbacks().receive(api.event.get("headers", {}), api.raw_body)
    except ArtiwayError as error:
        logger.warning("callback not accepted", code=error.code)
        return _fail(503, "try again")
    except Exception:
        logger.exception("callback failed")
        return _fail(500, "try again")
    match answer:
        case Answer.DONE:
            return Response(status_code=204, content_type="application/json", body="")
        case Answer.NOT_FROM_WECHAT:
            return _fail(401, "the signature is not valid")
        case Answer.UNREADABLE:
            return _fail(500, "the resource cannot be opened")


def _fail(status: int, message: str) -> Response[str]:
    """The answer in WeChat's format."""
    body = json.dumps({"code": "FAIL", "message": message})
    return Response(status_code=status, content_type="application/json", body=body)
