"""Messages to WebSockets through `@connections`. A socket is gone, or refuses for now, or there is a fault."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from artiway.platform import aws
from artiway.push.model import ConnectionGone, NotPosted
from artiway.push.repository import ApiGatewaySockets

ENDPOINT = "https://abc123.execute-api.eu-central-1.amazonaws.com/live"


@pytest.fixture
def sockets():
    return ApiGatewaySockets(ENDPOINT)


@pytest.fixture
def api(sockets):
    return aws.client("apigatewaymanagementapi", ENDPOINT, retries=0)


def test_message_is_posted_once_as_json(sockets, api, answer):
    requests = answer(api, 200, body=b"")
    sockets.post("conn=", {"type": "progress", "text": "图"})
    (request,) = requests
    assert request.url.endswith("/live/@connections/conn%3D")
    assert json.loads(request.body) == {"type": "progress", "text": "图"}


@pytest.mark.parametrize(("status", "code"), [(410, "GoneException"), (400, "BadRequestException")])
def test_socket_that_has_closed_is_gone(sockets, api, answer, status, code):
    answer(api, status, code)
    with pytest.raises(ConnectionGone):
        sockets.post("conn", {})


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, "LimitExceededException"),
        (429, "ThrottlingException"),
        (429, "TooManyRequestsException"),
        (403, "ForbiddenException"),
    ],
)
def test_socket_that_is_throttled_was_not_posted(sockets, api, answer, status, code):
    requests = answer(api, status, code)
    with pytest.raises(NotPosted):
        sockets.post("conn", {})
    assert len(requests) == 1


def test_fault_of_api_gateway_leaves_doubt(sockets, api, answer):
    requests = answer(api, 500, "InternalServerError")
    with pytest.raises(ClientError, match="InternalServerError"):
        sockets.post("conn", {})
    assert len(requests) == 1


def test_socket_that_has_closed_closes_again(sockets, api, answer):
    answer(api, 410, "GoneException")
    sockets.close("conn")


def test_close_that_is_throttled_raises(sockets, api, answer):
    answer(api, 429, "LimitExceededException")
    with pytest.raises(ClientError, match="LimitExceededException"):
        sockets.close("conn")
