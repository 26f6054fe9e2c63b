"""The synthetic check: one request to the public address, and the metric that its alarm watches."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from artiway.health.client import get_health
from artiway.health.service import FrontDoor

ANSWERS = {
    "/ok": (200, b'{"status": "ok", "checks": {}}'),
    "/degraded": (200, b'{"status": "degraded", "checks": {"redis": "away"}}'),
    "/refused": (403, b'{"code": "EDGE_403_DIRECT"}'),
    "/page": (200, b"<html></html>"),
    "/list": (200, b"[]"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = ANSWERS[self.path]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ANSWERS)
def test_only_an_ok_answer_counts(server: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([10.0, 10.25])
    is_ok = FrontDoor(server + path, get_health, lambda: next(times)).check()
    assert is_ok == (path == "/ok")
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["FrontDoorAnswers"] for line in written if "FrontDoorAnswers" in line] == [[float(is_ok)]]
    assert [line["FrontDoorMilliseconds"] for line in written if "FrontDoorMilliseconds" in line] == [[250.0]]
    assert [line["message"] for line in written if line.get("level") == "ERROR"] == (
        [] if is_ok else ["front door does not answer"]
    )


def test_no_server_is_no_answer() -> None:
    assert not FrontDoor("http://127.0.0.1:9/health", get_health, lambda: 0.0).check()


def test_only_web_addresses_are_opened() -> None:
    with pytest.raises(ValueError, match="http address"):
        get_health("file:///etc/hostname")
