"""The address at which WeChat reports a payment is the platform's public one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from artiway import bootstrap
from artiway.errors import Conflict
from artiway.platform.http import Admission, Identity
from artiway.platform.origin import OFF, Origin, hashes_of
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]
SECRET = "s" * 48
PROVEN = {"x-origin-verify": SECRET, "x-viewer-host": "d1.cloudfront.net"}


class Orders:
    """Notes the address, and makes no order."""

    def create(self, *, notify_url, **_):
        raise Conflict(notify_url)


@pytest.fixture
def ask(monkeypatch):
    """Orders a package, and returns the status and the message."""
    module = load_handler(ROOT / "functions/orders")
    identity = Identity(uuid4(), uuid4(), frozenset({"order.create"}))
    module.api.access_check = lambda: SimpleNamespace(admit=lambda _: Admission(identity))
    monkeypatch.setattr(bootstrap, "orders", Orders)

    def call(headers, *, public_url="", origin=""):
        checked = Origin(origin or hashes_of(json.dumps({"first": SECRET})))
        monkeypatch.setattr(module.api, "origin", lambda: checked)
        monkeypatch.setattr(bootstrap, "settings", lambda: SimpleNamespace(public_url=public_url))
        http = {"method": "POST", "path": "/api/v1/orders", "sourceIp": "10.0.0.1"}
        event = {
            "version": "2.0",
            "routeKey": "POST /api/v1/orders",
            "rawPath": "/api/v1/orders",
            "headers": {"content-type": "application/json", **headers},
            "requestContext": {"http": http, "stage": "$default", "domainName": "abc.execute-api.example"},
            "body": json.dumps({"packageId": "p1", "channel": "native"}),
        }
        answer = module.handler(event, None)
        return answer["statusCode"], json.loads(answer["body"])["message"]

    return call


@pytest.mark.parametrize(
    ("headers", "options", "url"),
    [
        (PROVEN, {}, "https://d1.cloudfront.net/api/v1/wechat/pay/notify"),
        (PROVEN, {"public_url": "https://pay.example/"}, "https://pay.example/api/v1/wechat/pay/notify"),
        (PROVEN | {"x-viewer-host": "a b"}, {}, "https://abc.execute-api.example/api/v1/wechat/pay/notify"),
        (PROVEN, {"origin": OFF}, "https://abc.execute-api.example/api/v1/wechat/pay/notify"),
    ],
)
def test_notify_url_names_public_host(ask, headers, options, url):
    assert ask(headers, **options) == (409, url)


def test_direct_request_makes_no_order(ask):
    assert ask({"x-viewer-host": "evil.example"})[0] == 403
