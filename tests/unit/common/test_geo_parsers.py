from __future__ import annotations

import json

import pytest

from artiway.geo.model import SourceFailed, parse_address, parse_baidu, parse_pconline

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


@pytest.mark.parametrize(
    "text", ["", "localhost", "8.8.8", "8.8.8.8:80", "8.8.8.8, 1.1.1.1", "1.2.3.4/../x", "{address}"]
)
def test_invalid_address_is_none(text):
    assert parse_address(text) is None
