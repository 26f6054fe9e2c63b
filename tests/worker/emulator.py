"""MiniStack for SQS and S3, and an in-memory `internal` behind the Lambda Invoke API."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".tools/emulator/bin/python"
START_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    """Wait until the condition is true and return its value."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def ministack(home: Path) -> Iterator[str]:
    assert PYTHON.exists(), "run `make .tools/emulator/.ready`"
    port = free_port()
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(home),
        "TMPDIR": str(home),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "PERSIST_STATE": "0",
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
    }
    with (home / "emulator.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "ministack"], env=environment, cwd=home, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until(lambda: is_open(port), START_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class InternalServer:
    """Answers as InternalFunction does. The test owns the nodes and the verdicts."""

    def __init__(self) -> None:
        self.sign: Callable[[dict[str, Any]], dict[str, str]] = lambda node: {}
        self.claimed: dict[str, dict[str, Any]] = {}
        self.nodes: dict[tuple[str, int], dict[str, Any]] = {}
        self.verdicts: dict[str, str] = {}
        self.calls: list[dict[str, Any]] = []
        self.beat_seconds = 0.2
        self.is_draining = False
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.calls.append(request)
            match request["action"]:
                case "register":
                    return {"leaseSeconds": 30, "beatSeconds": self.beat_seconds}
                case "claim":
                    node = self.nodes.pop((request["nodeId"], request["attempt"]), None)
                    if node is None:
                        return {"outcome": "gone"}
                    self.claimed[request["nodeId"]] = node
                    return {"outcome": "claimed", "node": {**node, "urls": self.sign(node)}}
                case "beat":
                    verdicts = [
                        {
                            "nodeId": held["nodeId"],
                            "verdict": self.verdicts.get(held["nodeId"], "go"),
                            "urls": self.sign(self.claimed[held["nodeId"]]),
                        }
                        for held in request["nodes"]
                    ]
                    return {"nodes": verdicts, "drain": self.is_draining}
                case _:
                    return {"released": len(request["nodes"])}

    def of(self, action: str) -> list[dict[str, Any]]:
        with self._lock:
            return [call for call in self.calls if call["action"] == action]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path.endswith("/functions/InternalFunction/invocations")
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(outer.answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                return

        return Handler
