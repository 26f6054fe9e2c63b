"""Sources of locations: where they are, and how their answers, which differ in encoding and format, are read."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

UNKNOWN = "unknown"
LOCAL = "local network"
LONGEST_LOCATION = 100
ENCODINGS = ("utf-8", "gb18030")  # GBK's superset, because some answers contain rare characters
PLACE = "{ip}"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
# A public name and no port. The address goes into the path or the query, never into the host.
_URL = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+/[!-~]*", re.IGNORECASE)
_PATH = re.compile(r"[^.]{1,64}(\.[^.]{1,64}){0,7}")
_FIELDS = {"name", "url", "encoding", "location", "success"}


class SourceFailed(Exception):
    """A source did not answer in time, or its answer is not a location."""


@dataclass(frozen=True)
class SourceSpec:
    """One source. A path leads into the JSON answer: names and positions, joined by dots.

    `location` lists alternatives; each is a list of paths whose texts are joined. The first alternative with a text
    counts. `success` is a path and the text that must be found there.
    """

    name: str
    url: str
    encoding: str
    location: Sequence[Sequence[str]]
    success: Mapping[str, str] | None = None

    def address_url(self, address: str) -> str:
        return self.url.replace(PLACE, address)

    def parse(self, body: bytes) -> str:
        """The location in an answer. Raises SourceFailed."""
        try:
            answer = json.loads(body.decode(self.encoding))
        except (ValueError, RecursionError) as error:
            raise SourceFailed("not JSON") from error
        if self.success is not None and str(_at(answer, self.success["path"])) != self.success["equals"]:
            raise SourceFailed("no success")
        for paths in self.location:
            if location := _printable("".join(_text(_at(answer, path)) for path in paths)):
                return location
        raise SourceFailed("no location inside")


def parse_address(text: str) -> Address | None:
    """The address without a zone; an IPv4-mapped IPv6 address as IPv4."""
    try:
        address = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def sources_fault(sources: Sequence[Any]) -> str | None:
    """What is wrong with a list of sources, or None."""
    for position, source in enumerate(sources):
        if reason := _source_fault(source):
            return f"source {position + 1}: {reason}"
    names = [source["name"] for source in sources]
    return "two sources have the same name" if len(set(names)) < len(names) else None


def _source_fault(source: object) -> str | None:
    if not isinstance(source, dict) or not {"name", "url", "encoding", "location"} <= set(source) <= _FIELDS:
        return "has name, url, encoding and location, and may have success"
    if not isinstance(source["name"], str) or not _NAME.fullmatch(source["name"]):
        return "the name has up to 32 characters: a to z, digits, - and _"
    url = source["url"]
    if not isinstance(url, str) or len(url) > 500 or not _URL.fullmatch(url) or url.count(PLACE) != 1:
        return f"the url begins with https:// and a public name, and contains {PLACE} once behind it"
    if source["encoding"] not in ENCODINGS:
        return f"the encoding is one of {', '.join(ENCODINGS)}"
    if not _are_alternatives(source["location"]):
        return "the location is a list of lists of paths"
    success = source.get("success")
    if success is not None and not (
        isinstance(success, dict)
        and set(success) == {"path", "equals"}
        and _is_path(success["path"])
        and isinstance(success["equals"], str)
    ):
        return "success has path and equals"
    return None


def _are_alternatives(value: object) -> bool:
    return (
        isinstance(value, list)
        and 1 <= len(value) <= 8
        and all(isinstance(paths, list) and 1 <= len(paths) <= 8 and all(map(_is_path, paths)) for paths in value)
    )


def _is_path(value: object) -> bool:
    return isinstance(value, str) and _PATH.fullmatch(value) is not None


def _at(answer: object, path: str) -> object:
    """The value at a path, or None."""
    for part in path.split("."):
        if isinstance(answer, Mapping):
            answer = answer.get(part)
        elif isinstance(answer, list) and part.isdecimal() and int(part) < len(answer):
            answer = answer[int(part)]
        else:
            return None
    return answer


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _printable(value: str) -> str:
    """One line of printable text: it is stored in the database and shown on a page."""
    printable = "".join(character if character.isprintable() else " " for character in value)
    return " ".join(printable.split())[:LONGEST_LOCATION].strip()
