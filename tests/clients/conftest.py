"""A real HTTP server that answers as a test says, and clients of it."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from artiway_client import Client


@dataclass(frozen=True)
class Reply:
    """`is_cut`: the connection breaks after the body, which is announced as longer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False


@dataclass(frozen=True)
class Seen:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """Gives the replies in their order, and the last one from then on."""

    def __init__(self) -> None:
        self.replies: deque[Reply] = deque()
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with outer.lock:
                    outer.seen.append(Seen(self.command, self.path, headers, self.rfile.read(length)))
                    reply = outer.replies.popleft() if len(outer.replies) > 1 else outer.replies[0]
                is_raw = isinstance(reply.body, bytes)
                content = reply.body if is_raw else b"" if reply.body is None else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                if not is_raw:
                    self.send_header("content-type", "application/json")
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content) + 100 * reply.is_cut))
                self.end_headers()
                self.wfile.write(content)
                self.close_connection = reply.is_cut

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/api/v1"

    def says(self, *replies: Reply) -> None:
        self.replies = deque(replies)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, api_key="ak_1", retry_for_s=5) as client:
        yield client


def refusal(status: int, code: str, **headers: str) -> Reply:
    body = {"code": code, "message": "no", "requestId": "r1", "details": {"field": "count"}}
    return Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})
