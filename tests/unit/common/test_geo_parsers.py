from __future__ import annotations

import json

import pytest

from artiway.geo.model import SourceFailed, SourceSpec, parse_address, sources_fault
from artiway.geo.settings import SOURCES

parse_pconline, parse_baidu = (SourceSpec(**spec).parse for spec in SOURCES.default)
GOOD = {"name": "a", "url": "https://a.example.com/?q={ip}", "encoding": "utf-8", "location": [["x"]]}

PCONLINE = {"ip": "1.2.3.4", "pro": "广东省", "city": "深圳市", "addr": "广东省深圳市 电信", "err": ""}
BAIDU = {"status": "0", "data": [{"location": "广东省深圳市 电信", "origip": "1.2.3.4"}]}


def test_flat_answer_in_gbk_is_read():
    assert parse_pconline(json.dumps(PCONLINE, ensure_ascii=False).encode("gbk")) == "广东省深圳市 电信"


def test_flat_answer_without_whole_address_is_put_together():
    body = json.dumps({**PCONLINE, "addr": ""}, ensure_ascii=False).encode("gbk")
    assert parse_pconline(body) == "广东省深圳市"


def test_line_breaks_around_flat_answer_do_no_harm():
    assert parse_pconline(b"\r\n\r\n" + json.dumps({"addr": " 美国  "}, ensure_ascii=False).encode("gbk")) == "美国"


def test_nested_answer_is_read():
    assert parse_baidu(json.dumps(BAIDU, ensure_ascii=False).encode()) == "广东省深圳市 电信"


@pytest.mark.parametrize("parse", [parse_pconline, parse_baidu])
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"7", b'"text"', b"<html>", b"\xff\xfe\xff", b"{", b"{}", b"[" * 100_000),
        *(b'{"addr": 5}', b'{"addr": "   "}', b'{"addr": ["x"]}'),
        *(b'{"status": "0", "data": {}}', b'{"status": "0", "data": [5]}', b'{"status": "0", "data": []}'),
        *(b'{"status": "1", "data": [{"location": "x"}]}', b'{"data": [{"location": "x"}]}'),
        b'{"status": 0, "data": [{"location": null}]}',
    ],
)
def test_answer_without_location_is_failure_of_source(parse, body):
    with pytest.raises(SourceFailed):
        parse(body)


def test_location_is_one_short_line_of_printable_text():
    lie = {"addr": "a\0b\x1b[31m\nc\u202e" + "x" * 1_000}
    location = parse_pconline(json.dumps(lie).encode())
    assert len(location) == 100
    assert location.isprintable()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8.8.8.8", "8.8.8.8"),
        (" 8.8.8.8 ", "8.8.8.8"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
        ("2001:4860:4860::8888", "2001:4860:4860::8888"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_address_has_one_form(text, expected):
    assert str(parse_address(text)) == expected


@pytest.mark.parametrize("text", ["", "localhost", "8.8.8", "8.8.8.8:80", "8.8.8.8, 1.1.1.1", "1.2.3.4/../x", "{ip}"])
def test_invalid_address_is_none(text):
    assert parse_address(text) is None


@pytest.mark.parametrize("change", [{}, {"success": {"path": "ok", "equals": "True"}}, {"location": [["a.0.b", "c"]]}])
def test_source_with_paths_is_accepted(change):
    assert sources_fault([{**GOOD, **change}]) is None


@pytest.mark.parametrize(
    "change",
    [
        *({"url": f"{start}/?q={{ip}}"} for start in ("http://a.example.com", "ftp://a.example.com", "https://a")),
        *({"url": f"https://{host}/{{ip}}"} for host in ("a.b:8443", "u@a.b", "{ip}.a.b", "[::1]")),
        *({"url": f"https://a.example.com/{path}"} for path in ("", "{ip}{ip}", " {ip}", "\n{ip}", "x" * 500 + "{ip}")),
        *({"name": name} for name in ("", "A", "a b", 5, "x" * 33)),
        *({"encoding": encoding} for encoding in ("utf-7", "", None, [])),
        *({"location": location} for location in ([], [[]], "x", ["x"], [[""]], [["a..b"]], [[5]], [["x"]] * 9)),
        *({"success": success} for success in ("x", {}, {"path": "a"}, {"path": "a", "equals": 0})),
        {"more": 1},
    ],
)
def test_source_beyond_the_rules_is_refused(change):
    assert sources_fault([{**GOOD, **change}]) is not None


def test_sources_have_different_names():
    assert sources_fault([GOOD, GOOD]) == "two sources have the same name"


def test_generic_source_joins_country_region_and_city():
    location = [["geo.country", "geo.region", "geo.cities.0"]]
    spec = SourceSpec("a", GOOD["url"], "utf-8", location, {"path": "ok", "equals": "True"})
    body = {"ok": True, "geo": {"country": "中国", "region": "浙江省", "cities": ["杭州市"]}}
    assert spec.parse(json.dumps(body).encode()) == "中国浙江省杭州市"
