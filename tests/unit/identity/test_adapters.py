"""WeChat over a real socket, and a location that never holds up a login."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from artiway.errors import NotAllowed, TooMany
from artiway.identity import wechat_login
from artiway.identity.locating import Locating
from artiway.identity.wechat_login import CodeRefused, WechatLoginClient, WechatUnavailable

APPS = {"mini": {"appid": "wx-mini", "secret": "s1"}, "web": {"appid": "wx-web", "secret": "s2"}}


@pytest.fixture
def wechat():
    """A server that says what the test put into its mouth, and remembers what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            if server.answer is None:
                server.is_released.wait(30)
                return
            self.send_response(200)
            self.send_header("content-type", "text/plain")
            self.end_headers()
            self.wfile.write(server.answer)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.answer, server.is_released = [], b"{}", threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.client = WechatLoginClient(f"http://127.0.0.1:{server.server_port}", lambda: APPS)
    yield server
    server.is_released.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_app_uses_its_own_wechat_endpoint(wechat):
    wechat.answer = json.dumps({"openid": "o1", "session_key": "k", "unionid": "u1"}).encode()
    found = wechat.client.exchange("mini", "the code&x")
    assert (found.appid, found.openid, found.unionid) == ("wx-mini", "o1", "u1")
    wechat.answer = json.dumps({"openid": "o2", "access_token": "t"}).encode()
    assert wechat.client.exchange("web", "c").unionid is None
    mini, web = (urlsplit(path) for path in wechat.asked)
    assert mini.path == "/sns/jscode2session"
    assert parse_qs(mini.query) == {
        "appid": ["wx-mini"],
        "secret": ["s1"],
        "js_code": ["the code&x"],
        "grant_type": ["authorization_code"],
    }
    assert web.path == "/sns/oauth2/access_token"
    assert parse_qs(web.query)["code"] == ["c"]


@pytest.mark.parametrize(
    ("errcode", "kind", "code"),
    [
        (40029, CodeRefused, "AUTH_401_BAD_CREDENTIALS"),
        (40163, CodeRefused, "AUTH_401_BAD_CREDENTIALS"),
        (45011, TooMany, "AUTH_429_THROTTLED"),
        (40226, NotAllowed, "AUTH_403_ACCOUNT_CLOSED"),
        (-1, WechatUnavailable, "AUTH_503_WECHAT"),
        (40125, WechatUnavailable, "AUTH_503_WECHAT"),
        ("odd", WechatUnavailable, "AUTH_503_WECHAT"),
    ],
)
def test_refusal_of_wechat_becomes_one_of_ours(wechat, errcode, kind, code):
    wechat.answer = json.dumps({"errcode": errcode, "errmsg": "x"}).encode()
    with pytest.raises(kind) as refusal:
        wechat.client.exchange("mini", "c")
    assert refusal.value.code == code
    assert len(wechat.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[]", b"null", b"{}", b'{"openid": 7}', b'{"openid": ""}', b'{"openid": "%s"}' % (b"x" * 129)],
)
def test_answer_that_makes_no_sense_counts_as_none(wechat, answer):
    wechat.answer = answer
    with pytest.raises(WechatUnavailable):
        wechat.client.exchange("mini", "c")


def test_hanging_or_missing_wechat_is_unavailable(wechat, monkeypatch):
    monkeypatch.setattr(wechat_login, "TIMEOUT_S", 0.1)
    wechat.answer = None
    with pytest.raises(WechatUnavailable):
        wechat.client.exchange("mini", "c")
    with pytest.raises(WechatUnavailable):
        WechatLoginClient("http://127.0.0.1:1", lambda: APPS).exchange("mini", "c")


def test_secret_of_app_is_never_logged(wechat, monkeypatch, capsys):
    monkeypatch.setattr(wechat_login, "TIMEOUT_S", 0.1)
    wechat.answer = None
    with pytest.raises(WechatUnavailable):
        wechat.client.exchange("mini", "c")
    assert "s1" not in capsys.readouterr().out


def test_location_that_is_found_meanwhile_is_taken():
    assert Locating(lambda: lambda address: f"at {address}", wait_s=30).begin("1.2.3.4")() == "at 1.2.3.4"


def test_unfinished_location_lookup_is_unknown():
    is_released = threading.Event()
    collect = Locating(lambda: lambda _: str(is_released.wait(30)), wait_s=0).begin("1.2.3.4")
    assert collect() == "unknown"
    is_released.set()


def test_location_that_fails_is_unknown():
    assert Locating(lambda: lambda _: str(1 / 0), wait_s=30).begin("1.2.3.4")() == "unknown"
