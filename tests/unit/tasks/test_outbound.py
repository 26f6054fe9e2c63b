"""Addresses that tenants name: none of ours may be reached, whatever it is called."""

from __future__ import annotations

import http.server
import threading

import pytest

from artiway.delivery.webhooks.model import signature
from artiway.delivery.webhooks.outbound import Outbound, is_public

INSIDE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "fe80::1%eth0",
]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_an_address_outside_is_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0"]
)
def test_no_spelling_of_this_machine_is_called(server, host):
    answer = Outbound(timeout_s=2, is_private_allowed=False).post(f"http://{host}:{server.port}/", b"{}", {})
    assert answer.code is None
    assert server.seen == []


def test_what_the_operator_allows_is_called_once_and_a_redirect_is_not_followed(server):
    outbound = Outbound(timeout_s=2, is_private_allowed=True)
    answer = outbound.post(f"http://127.0.0.1:{server.port}/hook?x=1", b'{"a":1}', {"X-Artiway-Event": "e"})
    assert (answer.code, answer.is_taken) == (200, True)
    assert [(path, body) for path, body, _ in server.seen] == [("/hook?x=1", b'{"a":1}')]
    answer = outbound.post(f"http://127.0.0.1:{server.port}/redirect", b"{}", {})
    assert (answer.code, answer.is_taken) == (302, False)
    assert len(server.seen) == 2


@pytest.mark.parametrize("url", ["ftp://example.com", "http://", "http://x:99999/", "nonsense", "http://127.0.0.1:1/"])
def test_what_cannot_be_called_is_an_answer_and_not_a_crash(url):
    assert Outbound(timeout_s=1, is_private_allowed=True).post(url, b"", {}).code is None


def test_the_signature_covers_time_and_body():
    good = signature("whsec_x", timestamp=1, body=b"{}")
    assert good.startswith("v1=")
    assert good != signature("whsec_x", timestamp=2, body=b"{}")
    assert good != signature("whsec_x", timestamp=1, body=b"[]")
    assert good != signature("whsec_y", timestamp=1, body=b"{}")


class Server:
    def __init__(self):
        self.seen = []
        seen = self.seen

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.path, body, dict(self.headers)))
                self.send_response(302 if self.path == "/redirect" else 200)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.http.server_address[1]


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()
