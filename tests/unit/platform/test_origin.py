"""A request past CloudFront is refused before anything else is done."""

from __future__ import annotations

import hashlib
import json

import pytest

from artiway.platform.origin import OFF, SHORTEST, DirectRequest, Origin, hashes_of
from artiway.platform.settings import Settings
from tools.openapi import apis

OLD, NEW = "o" * SHORTEST, "n" * 48
BOTH = {"first": OLD, "second": NEW}


def origin(**slots: str) -> Origin:
    return Origin(hashes_of(json.dumps(slots)))


def is_accepted(origin: Origin, headers: dict[str, str]) -> bool:
    try:
        origin.check(headers)
    except DirectRequest:
        return False
    return True


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-origin-verify": ""},
        {"x-origin-verify": NEW},
        {"x-origin-verify": OLD[:-1]},
        {"x-origin-verify": f"{OLD},{OLD}"},
        {"x-origin-verify": f" {OLD}"},
        {"x-origin-verify": OLD.upper()},
        {"x-origin-verify": "ü\ud800"},
        {"x-origin-verify": hashlib.sha256(OLD.encode()).hexdigest()},
        {"x-origin-verified": OLD},
    ],
)
def test_request_without_the_value_is_refused(headers):
    assert not is_accepted(origin(first=OLD), headers)


def test_refusal_has_a_stable_code():
    with pytest.raises(DirectRequest) as refusal:
        origin(first=OLD).check({})
    assert (refusal.value.code, refusal.value.status) == ("EDGE_403_DIRECT", 403)


@pytest.mark.parametrize("name", ["x-origin-verify", "X-Origin-Verify", "X-ORIGIN-VERIFY"])
def test_header_name_has_any_case(name):
    assert is_accepted(origin(first=OLD), {name: OLD})


def test_rotation_accepts_two_values_between_its_ends():
    stored = [{"first": OLD}, BOTH, {"second": NEW}]
    accepted = [[is_accepted(origin(**slots), {"x-origin-verify": value}) for value in (OLD, NEW)] for slots in stored]
    assert accepted == [[True, False], [True, True], [False, True]]


def test_missing_setting_refuses_and_off_accepts():
    assert not is_accepted(Origin(""), {"x-origin-verify": ""})
    assert not is_accepted(Origin(""), {"x-origin-verify": OLD})
    assert is_accepted(Origin(OFF), {})


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", "plain text", '"text"', '{"first": ""}', '{"first": null, "second": ""}', '{"first": 5}',
     json.dumps({"first": "o" * (SHORTEST - 1)}), json.dumps({"first": OLD, "second": "short"}),
     json.dumps({"first": OLD, "third": NEW}), json.dumps({"first": [OLD] * SHORTEST})],
)  # fmt: skip
def test_unusable_secret_fails_the_deployment(text):
    with pytest.raises(ValueError, match="origin secret"):
        hashes_of(text)


@pytest.mark.parametrize("text", ["on", "OFF", "ab", "g" * 64, OLD, ",", "a" * 64 + ",", "off," + "a" * 64])
def test_setting_takes_hashes_or_off(text):
    with pytest.raises(ValueError, match="origin_hashes"):
        Settings(origin_hashes=text)
    assert Settings(origin_hashes=hashes_of(json.dumps(BOTH))).origin_hashes.count(",") == 1


def test_only_wechat_may_call_directly():
    assert {name for name, api in apis().items() if api.origin is None} == {"wechat"}


@pytest.mark.parametrize(
    "host", ["", "a b", "evil.com/path", "evil.com?", "user@evil.com", "evil.com:http", "-x.com", "ü.com", "x" * 300]
)
def test_unusable_viewer_host_is_ignored(host):
    assert origin(first=OLD).viewer_host({"x-viewer-host": host}) == ""


def test_viewer_is_named_by_cloudfront_alone():
    headers = {"x-viewer-host": "D1.cloudfront.net", "true-client-ip": "6.6.6.6"}
    assert origin(first=OLD).viewer_host(headers) == "d1.cloudfront.net"
    assert origin(first=OLD).viewer_address(headers) == "6.6.6.6"
    assert (Origin(OFF).viewer_host(headers), Origin(OFF).viewer_address(headers)) == ("", "")
