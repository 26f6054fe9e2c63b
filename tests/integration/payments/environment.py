"""The real handlers behind a real socket, in processes of their own, as Lambda's environments are.

Run as a program: `python -m … <listening socket's number> <processes> <clock file>`. It imports the handlers once, then
forks; each child serves one request at a time and keeps its own connections.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import sys
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

ROOT = Path(__file__).resolve().parents[3]
ROUTES = {
    "packages": "orders",
    "orders": "orders",
    "refunds": "orders",
    "points": "points",
    "wechat": "wechat",
    "tasks": "tasks",
    "flows": "tasks",
}


class TrustingAccessCheck:
    """Trusts the identity in the context: other tests cover it. Idempotency keys are real."""

    def admit(self, request: Any) -> Any:
        from artiway.platform.http import Admission, Identity

        found = request.found
        permissions = frozenset(str(found["permissions"]).split())
        return Admission(Identity(UUID(found["tenantId"]), UUID(found["userId"]), permissions))

    def count_failure(self, *, is_counted: bool) -> None:
        """Other tests count."""

    def once(self, identity: Any, **asked: Any) -> Any:
        from artiway import bootstrap

        return bootstrap.idempotency().run(tenant_id=identity.tenant_id, user_id=identity.user_id, **asked)


class FileClock:
    """The time that a test wrote down: many processes share it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> datetime:
        return datetime.fromtimestamp(float(self._file.read_text()), UTC)

    def set(self, at: datetime) -> None:
        partial = self._file.with_suffix(".partial")
        partial.write_text(str(at.timestamp()))
        partial.rename(self._file)


def load_function(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"functions_{name}", ROOT / "functions" / name / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if hasattr(module, "api"):
        module.api.access_check = TrustingAccessCheck
    return module


def http_event(method: str, target: str, headers: dict[str, str], body: bytes, keys: set[str]) -> dict[str, Any]:
    """What API Gateway makes of a request. The caller's identity travels in a header of the test's own."""
    path, _, query = target.partition("?")
    parts = path.removeprefix("/api/v1").split("/")
    route, parameters = f"{method} {path}", {}
    for key in keys:
        pattern = key.split(" ")[1].removeprefix("/api/v1").split("/")
        if key.split(" ")[0] == method and len(pattern) == len(parts):
            found = {p[1:-1]: part for p, part in zip(pattern, parts, strict=True) if p.startswith("{")}
            if all(p == part or p.startswith("{") for p, part in zip(pattern, parts, strict=True)):
                route, parameters = key, found
    lowered = {name.lower(): value for name, value in headers.items()}
    identity = json.loads(lowered.pop("x-identity", "{}"))
    pairs = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    return {
        "version": "2.0",
        "routeKey": route,
        "rawPath": path,
        "rawQueryString": query,
        "headers": lowered,
        "queryStringParameters": dict(pairs),
        "pathParameters": parameters,
        "body": body.decode(),
        "isBase64Encoded": False,
        "requestContext": {
            "requestId": "test",
            "stage": "$default",
            "domainName": "example.com",
            "http": {"method": method, "path": path, "sourceIp": "127.0.0.1"},
            "authorizer": {"lambda": identity},
        },
    }


def serve(listener: socket.socket, functions: dict[str, Any]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            head, _, tail = self.path.strip("/").partition("/")
            if head == "invoke":
                answer: Any = functions[tail].handler(json.loads(body), None)
                status, text, sent = 200, json.dumps(answer), {}
            else:
                module = functions[ROUTES[self.path.removeprefix("/api/v1/").partition("/")[0].partition("?")[0]]]
                event = http_event(self.command, self.path, dict(self.headers), body, set(module.api.rules))
                answer = module.handler(event, None)
                status, text, sent = answer["statusCode"], answer["body"], answer["headers"]
            self.send_response(status)
            for name, value in sent.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST  # noqa: N815 (the library's name)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.serve_forever()


def prepare(clock_file: Path) -> dict[str, Any]:
    """Import all that a request needs, with the shared clock in place of the system's."""
    from artiway import bootstrap
    from artiway.bootstrap import base
    from artiway.platform import aws

    clock = FileClock(clock_file)
    base.clock = lambda: clock  # type: ignore[assignment]
    # What every child would otherwise import for itself. No connection is opened by it.
    aws.client("secretsmanager")
    aws.client("sns")
    bootstrap.order_sweep()
    bootstrap.reconciliation()
    bootstrap.callbacks()
    bootstrap.tasks()
    return {name: load_function(name) for name in ("orders", "points", "wechat", "reconcile", "tasks")}


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    functions = prepare(Path(sys.argv[3]))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    children = []
    for _ in range(int(sys.argv[2])):
        child = os.fork()
        if child == 0:
            serve(listener, functions)
            os._exit(0)
        children.append(child)

    def stop(*_: Any) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.pause()


if __name__ == "__main__":
    main()
