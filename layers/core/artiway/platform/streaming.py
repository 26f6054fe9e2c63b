"""A Lambda runtime for handlers that are generators: each part of the answer leaves when it is made.

Lambda's own Python runtime sends an answer as a whole. `bin/stream` of the layer is the function's
AWS_LAMBDA_EXEC_WRAPPER, and runs `python -m artiway.platform.streaming <handler>` in its place. The handler yields a
`Prelude`, then the parts of the body. The protocol is the Lambda runtime API, version 2018-06-01.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

CONTENT_TYPE = "application/vnd.awslambda.http-integration-response"
# Between the prelude and the body.
DELIMITER = b"\0" * 8
ERROR_TYPE, ERROR_BODY = "Lambda-Runtime-Function-Error-Type", "Lambda-Runtime-Function-Error-Body"
_ROOT = "/2018-06-01/runtime"


@dataclass(frozen=True)
class Prelude:
    """The status and the headers of an answer whose body follows."""

    status: int
    headers: Mapping[str, str]

    def __bytes__(self) -> bytes:
        return json.dumps({"statusCode": self.status, "headers": dict(self.headers)}).encode() + DELIMITER


@dataclass(frozen=True)
class Context:
    """What a handler knows of its invocation."""

    aws_request_id: str
    invoked_function_arn: str
    deadline_ms: int

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self.deadline_ms - int(time.time() * 1_000))


Handler = Callable[[Mapping[str, Any], Context], Generator[Prelude | bytes, None, None]]


class Runtime:
    """Requests one event after another and sends the answers. The connection is kept between events."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address)

    def run(self, handler: Handler) -> None:
        while True:
            self.serve(handler)

    def serve(self, handler: Handler) -> None:
        """Handle one event."""
        answer, body = self._request("GET", "/invocation/next")
        context = Context(
            answer.headers["Lambda-Runtime-Aws-Request-Id"],
            answer.headers.get("Lambda-Runtime-Invoked-Function-Arn", ""),
            int(answer.headers.get("Lambda-Runtime-Deadline-Ms", "0")),
        )
        os.environ["_X_AMZN_TRACE_ID"] = answer.headers.get("Lambda-Runtime-Trace-Id", "")
        parts = handler(json.loads(body), context)
        try:
            prelude = next(parts)
        except Exception as error:  # noqa: BLE001 (Lambda gets every error)
            _log(error, context)
            self._request("POST", f"/invocation/{context.aws_request_id}/error", _described(error))
            return
        try:
            self._respond(context, bytes(prelude), parts)
        except (OSError, HTTPException) as error:  # the caller's side ended; the next event needs a new connection
            _log(error, context)
            self._connection.close()
        finally:
            parts.close()

    def fail_to_start(self, error: BaseException) -> None:
        self._request("POST", "/init/error", _described(error))

    def restore(self) -> None:
        """SnapStart: Lambda makes the snapshot while this request waits, and answers it in each restored process."""
        from snapshot_restore_py import get_after_restore, get_before_snapshot  # part of Lambda's runtime, of no layer

        for hook, arguments, named in reversed(get_before_snapshot()):
            hook(*arguments, **named)
        self._request("GET", "/restore/next")
        self._connection.close()
        for hook, arguments, named in get_after_restore():
            hook(*arguments, **named)

    def _respond(self, context: Context, first: bytes, parts: Generator[Prelude | bytes, None, None]) -> None:
        connection = self._connection
        connection.putrequest(
            "POST", f"{_ROOT}/invocation/{context.aws_request_id}/response", skip_accept_encoding=True
        )
        connection.putheader("Content-Type", CONTENT_TYPE)
        connection.putheader("Lambda-Runtime-Function-Response-Mode", "streaming")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.putheader("Trailer", f"{ERROR_TYPE}, {ERROR_BODY}")
        connection.endheaders()
        connection.send(_chunk(first))
        error = None
        while True:
            try:
                part = next(parts, None)
            except Exception as caught:  # noqa: BLE001 (Lambda gets every error)
                _log(caught, context)
                error = caught
                break
            if part is None:
                break
            if data := bytes(part):
                connection.send(_chunk(data))
        connection.send(b"0\r\n" + _trailers(error) + b"\r\n")
        connection.getresponse().read()

    def _request(self, method: str, path: str, body: bytes | None = None) -> tuple[HTTPResponse, bytes]:
        self._connection.request(method, _ROOT + path, body)
        answer = self._connection.getresponse()
        return answer, answer.read()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _trailers(error: Exception | None) -> bytes:
    """The status has left. With these Lambda cuts the answer, so that no client takes it as whole."""
    if error is None:
        return b""
    body = base64.b64encode(_described(error)).decode()
    return f"{ERROR_TYPE}: Unhandled.{type(error).__name__}\r\n{ERROR_BODY}: {body}\r\n".encode()


def _described(error: BaseException) -> bytes:
    lines = traceback.format_exception(error)
    return json.dumps({"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": lines}).encode()


def _log(error: BaseException, context: Context) -> None:
    """One JSON line, as the function's log format asks for."""
    line = {"level": "ERROR", "message": "stream failed", "requestId": context.aws_request_id}
    sys.stdout.write(json.dumps({**line, **json.loads(_described(error))}) + "\n")
    sys.stdout.flush()


def load(handler: str) -> Handler:
    module, _, name = handler.rpartition(".")
    loaded: Handler = getattr(importlib.import_module(module.replace("/", ".")), name)
    return loaded


def main(handler: str) -> None:
    runtime = Runtime(os.environ["AWS_LAMBDA_RUNTIME_API"])
    try:
        loaded = load(handler)
        if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
            runtime.restore()
    except BaseException as error:
        traceback.print_exc()
        runtime.fail_to_start(error)
        raise SystemExit(1) from error
    runtime.run(loaded)


if __name__ == "__main__":
    main(sys.argv[1])
