"""Parsers for the answers of location services, which differ in encoding and format."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from typing import Any

UNKNOWN = "unknown"
LOCAL = "local network"
LONGEST_LOCATION = 100

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class SourceFailed(Exception):
    """A source did not answer in time, or its answer is not a location."""


def parse_address(text: str) -> Address | None:
    """The address without a zone; an IPv4-mapped IPv6 address as IPv4."""
    try:
        address = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def parse_pconline(body: bytes) -> str:
    """GBK and flat: `{"pro": "广东省", "city": "深圳市", "addr": "广东省深圳市 电信", "err": ""}`."""
    answer = _object(body, "gb18030")  # GBK's superset, because some answers contain rare characters
    return _location(answer.get("addr") or f"{_text(answer.get('pro'))}{_text(answer.get('city'))}")


def parse_baidu(body: bytes) -> str:
    """UTF-8 and nested: `{"status": "0", "data": [{"location": "广东省深圳市 电信"}]}`."""
    answer = _object(body, "utf-8")
    data = answer.get("data")
    if str(answer.get("status")) != "0" or not isinstance(data, list) or not data or not isinstance(data[0], Mapping):
        raise SourceFailed("no location inside")
    return _location(data[0].get("location"))


PARSERS: Mapping[str, Callable[[bytes], str]] = {"pconline": parse_pconline, "baidu": parse_baidu}


def _object(body: bytes, encoding: str) -> Mapping[str, Any]:
    try:
        answer = json.loads(body.decode(encoding))
    except (ValueError, RecursionError) as error:
        raise SourceFailed("not JSON") from error
    if not isinstance(answer, Mapping):
        raise SourceFailed("not an object")
    return answer


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _location(value: object) -> str:
    """One line of printable text: it is stored in the database and shown on a page."""
    printable = "".join(character if character.isprintable() else " " for character in _text(value))
    location = " ".join(printable.split())[:LONGEST_LOCATION].strip()
    if not location:
        raise SourceFailed("an empty location")
    return location
