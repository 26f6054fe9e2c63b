"""AWS as moto plays it, in this process. What moto does not know is answered on the wire, so botocore reads it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from moto import mock_aws

from artiway.platform import aws


@pytest.fixture(scope="package", autouse=True)
def _clients() -> Iterator[None]:
    """Clients of moto alone, made once: reading the description of a service is most of a test's time."""
    _forget_clients()
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("AWS_ENDPOINT_URL", raising=False)
        environment.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        yield
    _forget_clients()


@pytest.fixture(autouse=True)
def _cloud() -> Iterator[None]:
    """An empty account."""
    with mock_aws():
        yield


def _forget_clients() -> None:
    aws.client.cache_clear()
    aws._session.cache_clear()


class Body(BytesIO):
    """The part of urllib3's response that botocore reads."""

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture
def answer() -> Iterator[Callable[..., list[AWSRequest]]]:
    """Has a client get this answer to each request of the test. Returns the requests, as they are made."""
    with contextlib.ExitStack() as undo:

        def prepare(client: Any, status: int, code: str = "", body: bytes | None = None) -> list[AWSRequest]:
            requests: list[AWSRequest] = []
            content = json.dumps({"__type": code, "message": "no"}).encode() if body is None else body

            def respond(request: AWSRequest, **_: object) -> AWSResponse:
                requests.append(request)
                headers = {"x-amzn-errortype": code} if code else {}
                return AWSResponse(request.url, status, headers, Body(content))

            client.meta.events.register_first("before-send", respond)
            undo.callback(client.meta.events.unregister, "before-send", respond)
            return requests

        yield prepare
