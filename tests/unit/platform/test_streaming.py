"""The streaming runtime against the Lambda runtime API, byte for byte."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from artiway.platform.streaming import DELIMITER, Prelude, Runtime


class RuntimeApi:
    """Answers /next with one event, then reads the request with which the runtime answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connection: socket.socket | None = None
        self._file: Any = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._connection is not None:
            self._connection.close()
        self._listener.close()

    def head(self) -> tuple[str, dict[str, str]]:
        if self._connection is None:
            self._connection, _ = self._listener.accept()
            self._connection.settimeout(10)
            self._file = self._connection.makefile("rb")
        line = self._file.readline().decode().strip()
        headers = {}
        while (text := self._file.readline().decode().strip()) != "":
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        return line, headers

    def answer(self, body: bytes, *, status: str = "200 OK", **headers: str) -> None:
        assert self._connection is not None
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def give(self, event: object) -> None:
        line, _ = self.head()
        assert line == "GET /2018-06-01/runtime/invocation/next HTTP/1.1"
        self.answer(json.dumps(event).encode(), Lambda_Runtime_Aws_Request_Id="r1", Lambda_Runtime_Deadline_Ms="9")

    def chunk(self) -> bytes:
        size = int(self._file.readline(), 16)
        data: bytes = self._file.read(size)
        if size:
            self._file.readline()
        return data

    def trailers(self) -> dict[str, str]:
        found = {}
        while (text := self._file.readline().decode().strip()) != "":
            name, _, value = text.partition(":")
            found[name.lower()] = value.strip()
        return found

    def body(self, headers: dict[str, str]) -> Any:
        return json.loads(self._file.read(int(headers["content-length"])))


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    api = RuntimeApi()
    yield api
    api.close()


def serving(api: RuntimeApi, handler: Any, *, events: int = 1) -> threading.Thread:
    runtime = Runtime(api.address)

    def serve() -> None:
        for _ in range(events):
            runtime.serve(handler)
        runtime._connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_part_leaves_before_next_is_made(api: RuntimeApi) -> None:
    made, go = [], threading.Semaphore(0)

    def handler(event: Any, context: Any) -> Iterator[Prelude | bytes]:
        yield Prelude(200, {"content-type": "text/event-stream"})
        for number in range(5):
            go.acquire()
            made.append(number)
            yield f"{event['word']} {number}".encode()

    thread = serving(api, handler)
    api.give({"word": "part"})
    line, headers = api.head()
    assert line == "POST /2018-06-01/runtime/invocation/r1/response HTTP/1.1"
    assert headers["transfer-encoding"] == "chunked"
    assert headers["lambda-runtime-function-response-mode"] == "streaming"
    assert headers["content-type"] == "application/vnd.awslambda.http-integration-response"
    prelude, delimiter, rest = api.chunk().partition(b"\0" * 8)
    assert json.loads(prelude) == {"statusCode": 200, "headers": {"content-type": "text/event-stream"}}
    assert (delimiter, rest) == (DELIMITER, b"")
    for number in range(5):
        assert made == list(range(number))
        go.release()
        assert api.chunk() == f"part {number}".encode()
    assert api.chunk() == b""
    assert api.trailers() == {}
    api.answer(b"{}", status="202 Accepted")
    thread.join()


def test_error_before_the_prelude_is_reported(api: RuntimeApi) -> None:
    def handler(_event: Any, _context: Any) -> Iterator[Prelude | bytes]:
        raise ValueError("no luck")
        yield b""

    thread = serving(api, handler)
    api.give({})
    line, headers = api.head()
    assert line == "POST /2018-06-01/runtime/invocation/r1/error HTTP/1.1"
    found = api.body(headers)
    assert (found["errorType"], found["errorMessage"]) == ("ValueError", "no luck")
    api.answer(b"{}", status="202 Accepted")
    thread.join()


def test_error_in_mid_stream_becomes_trailers(api: RuntimeApi) -> None:
    def handler(_event: Any, _context: Any) -> Iterator[Prelude | bytes]:
        yield Prelude(200, {})
        yield b"half"
        raise OSError("lost")

    thread = serving(api, handler)
    api.give({})
    api.head()
    api.chunk()
    assert api.chunk() == b"half"
    assert api.chunk() == b""
    trailers = api.trailers()
    assert trailers["lambda-runtime-function-error-type"] == "Unhandled.OSError"
    found = json.loads(base64.b64decode(trailers["lambda-runtime-function-error-body"]))
    assert found["errorMessage"] == "lost"
    api.answer(b"{}", status="202 Accepted")
    thread.join()


def test_one_connection_serves_many_events(api: RuntimeApi) -> None:
    def handler(event: Any, _context: Any) -> Iterator[Prelude | bytes]:
        yield Prelude(200, {})
        yield str(event["number"]).encode()

    thread = serving(api, handler, events=3)
    for number in range(3):
        api.give({"number": number})
        api.head()
        api.chunk()
        assert api.chunk() == str(number).encode()
        assert api.chunk() == b""
        api.trailers()
        api.answer(b"{}", status="202 Accepted")
    thread.join()


def test_lost_caller_closes_the_generator(api: RuntimeApi) -> None:
    closed = threading.Event()

    def handler(_event: Any, _context: Any) -> Iterator[Prelude | bytes]:
        yield Prelude(200, {})
        try:
            while True:
                yield b"x" * 100_000
        finally:
            closed.set()

    thread = serving(api, handler)
    api.give({})
    api.head()
    api.close()
    thread.join(10)
    assert closed.is_set()
