"""A webhook on the running stack: registered, tested, received with a signature that a stranger can verify."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import RECEIVER_PORT, Platform, wait_for
from tests.e2e.people import Client
from tests.unit.tasks.test_webhooks import verified

RECEIVER = f"http://127.0.0.1:{RECEIVER_PORT}"


@pytest.fixture
def received() -> Iterator[list[tuple[str, dict[str, str], bytes]]]:
    found: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", RECEIVER_PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def owner(platform: Platform) -> Iterator[Any]:
    with contextlib.closing(Client(platform.facts["apiUrl"])) as client:
        token = client.call("POST", "/auth/login", platform.facts["admin"]).body["accessToken"]
        yield lambda method, path, body=None: client.call(method, path, body, token=token)


def test_a_test_delivery_arrives_and_is_verified(owner: Any, received: list[Any]) -> None:
    made = owner("POST", "/webhooks", {"url": f"{RECEIVER}/hook"})
    assert made.status == 201, made
    webhook_id = made.body["webhookId"]
    sent = owner("POST", f"/webhooks/{webhook_id}/test")
    assert sent.status == 202, sent
    wait_for(lambda: received, 60)
    path, headers, body = received[0]
    assert path == "/hook"
    assert headers["webhook-id"] == sent.body["deliveryId"]
    assert verified(made.body["secret"], headers, body)
    assert json.loads(body)["type"] == "webhook.test"

    def delivered() -> bool:
        (item,) = owner("GET", f"/webhooks/{webhook_id}/deliveries").body["items"]
        return bool(item["status"] == "DELIVERED" and item["answerCode"] == 204)

    wait_for(delivered, 30)
    assert owner("DELETE", f"/webhooks/{webhook_id}").status == 204
    assert owner("POST", f"/webhooks/{webhook_id}/test").status == 404


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080/", "http://localhost:%d/", "http://2130706433/", "https://a.com:22/"]
)
def test_a_private_target_is_refused_by_field(owner: Any, url: str) -> None:
    # The port of the receiver is allowed for its address, not for another name of it.
    refused = owner("POST", "/webhooks", {"url": url.replace("%d", str(RECEIVER_PORT))})
    assert refused.status == 422, refused
    assert [field["field"] for field in refused.body["details"]["fields"]] == ["url"]
