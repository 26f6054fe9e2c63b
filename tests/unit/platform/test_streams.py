"""Routes that stream: the same checks as other routes, before the first byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from artiway.errors import NotFound, Unauthenticated
from artiway.platform.http import Admission, Identity
from artiway.platform.origin import Origin
from artiway.platform.streaming import Context, Prelude
from artiway.platform.streams import StreamApi

SECRET = "s" * 40
EVENT = json.loads((Path(__file__).parents[3] / "events/events.resume.json").read_text())
CONTEXT = Context("r1", "arn", deadline_ms=10**15)
IDENTITY = Identity(UUID(int=1), UUID(int=2), frozenset({"task.read"}))


class Check:
    """Admits a caller whose authorizer found an identity."""

    def __init__(self) -> None:
        self.failures = 0
        self.requests: list[Any] = []

    def admit(self, request: Any) -> Admission:
        self.requests.append(request)
        if "error" in request.found:
            raise Unauthenticated("the token is not valid", code=request.found["error"])
        return Admission(IDENTITY)

    def count_failure(self, *, is_counted: bool) -> None:
        self.failures += 1

    def once(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a stream has no idempotency key")


@pytest.fixture
def check() -> Check:
    return Check()


@pytest.fixture
def closed() -> list[str]:
    return []


@pytest.fixture
def api(check: Check, closed: list[str]) -> StreamApi:
    hashes = hashlib.sha256(SECRET.encode()).hexdigest()
    found = {"Bearer eyJ": {"tenantId": str(UUID(int=1))}}
    made = StreamApi(
        "tasks",
        origin=lambda: Origin(hashes),
        access_check=lambda: check,
        authorizer=lambda: lambda text: found.get(text, {"error": "AUTH_401_TOKEN_INVALID"}),
    )

    @made.get("/tasks/<task_id>/events", permission="task.read")
    def events(task_id: str) -> Iterator[str]:
        if task_id == "unknown":
            raise NotFound("there is no such task")
        if task_id == "broken":
            raise RuntimeError("a bug")
        try:
            yield f"{task_id} {made.last_event_id} {made.identity.user_id.int}"
            yield "字"
        finally:
            closed.append(task_id)

    @made.get("/others/<task_id>/events", permission="ops.read")
    def others(task_id: str) -> Iterator[str]:
        yield task_id

    return made


def event(task_id: str = "t1", headers: Mapping[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    sent = {**EVENT["headers"], "X-Origin-Verify": SECRET, **(headers or {})}
    return {**EVENT, "headers": sent, "pathParameters": {"task_id": task_id}, **changes}


def answered(api: StreamApi, asked: dict[str, Any]) -> tuple[Prelude, bytes]:
    prelude, *parts = api.stream(asked, CONTEXT)
    assert isinstance(prelude, Prelude)
    return prelude, b"".join(bytes(part) for part in parts)


def refused(api: StreamApi, asked: dict[str, Any]) -> tuple[int, str]:
    prelude, body = answered(api, asked)
    assert prelude.headers["content-type"] == "application/json"
    found = json.loads(body)
    assert found["requestId"] == prelude.headers["x-request-id"] == EVENT["requestContext"]["requestId"]
    return prelude.status, found["code"]


def test_stream_begins_with_status_and_headers(api: StreamApi, closed: list[str]) -> None:
    prelude, body = answered(api, event())
    assert prelude.status == 200
    assert prelude.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert prelude.headers["cache-control"] == "no-store"
    assert body.decode() == "t1 3-2 2字"
    assert closed == ["t1"]


def test_signed_keys_see_the_request_as_sent(api: StreamApi, check: Check) -> None:
    answered(api, event(multiValueQueryStringParameters={"a": ["1", "2 3"]}))
    (request,) = check.requests
    assert (request.method, request.target) == ("GET", EVENT["path"] + "?a=1&a=2+3")
    assert request.headers["authorization"] == "Bearer eyJ"
    assert request.body == b""


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (event(headers={"X-Origin-Verify": ""}), (403, "EDGE_403_DIRECT")),
        (event(headers={"X-Origin-Verify": "t" * 40}), (403, "EDGE_403_DIRECT")),
        (event(headers={"Authorization": "none"}), (401, "AUTH_401_TOKEN_INVALID")),
        (event(resource="/api/v1/others/{task_id}/events"), (403, "AUTH_403_FORBIDDEN")),
        (event("unknown"), (404, "REQUEST_404_NOT_FOUND")),
        (event("broken"), (500, "PLATFORM_500_INTERNAL")),
        (event(httpMethod="DELETE"), (404, "REQUEST_404_NO_ROUTE")),
    ],
)
def test_refusal_has_a_status_and_a_code(api: StreamApi, asked: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refused(api, asked) == expected


def test_server_error_is_counted(api: StreamApi, check: Check) -> None:
    refused(api, event("broken"))
    refused(api, event("unknown"))
    assert check.failures == 1


def test_left_stream_is_closed(api: StreamApi, closed: list[str]) -> None:
    parts = api.stream(event(), CONTEXT)
    next(parts)
    next(parts)
    parts.close()
    assert closed == ["t1"]


def test_stream_ends_before_its_function(api: StreamApi) -> None:
    api._context = Context("r1", "arn", deadline_ms=0)
    assert api.remaining_ms == 0
