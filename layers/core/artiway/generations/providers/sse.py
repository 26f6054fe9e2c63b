"""Reads server-sent events from bytes that are cut anywhere: in a character, between CR and LF, inside a field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LARGEST_LINE = 1_048_576
LARGEST_EVENT = 2_097_152
_BOM = b"\xef\xbb\xbf"


class EventUnreadable(Exception):
    """A line or event beyond its bound, or text that is not UTF-8."""


@dataclass(frozen=True)
class Event:
    """`name` is empty unless the server names the event."""

    data: str
    name: str = ""


class EventReader:
    """Feed it bytes; it gives the events that are whole. Comments and unknown fields are dropped."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_first = True
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Take the iterator to its end. Events before one that is unreadable are returned first."""
        self._rest += chunk
        for line in self._lines():
            if len(line) > LARGEST_LINE:
                raise EventUnreadable(f"a line is longer than {LARGEST_LINE} bytes")
            if (event := self._take(line)) is not None:
                yield event
        if len(self._rest) > LARGEST_LINE:
            raise EventUnreadable(f"a line is longer than {LARGEST_LINE} bytes")

    def _lines(self) -> list[bytes]:
        """The whole lines, which end in CR, LF or both. A CR at the end waits: its LF may come in the next chunk."""
        text = bytes(self._rest)
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(lines.pop() + held)
        if self._is_first and lines:
            self._is_first = False
            lines[0] = lines[0].removeprefix(_BOM)
        return lines

    def _take(self, line: bytes) -> Event | None:
        if not line:
            return self._dispatch()
        field, _colon, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(value)
            if self._size > LARGEST_EVENT:
                raise EventUnreadable(f"an event is larger than {LARGEST_EVENT} bytes")
        elif field == b"event":
            self._name = value
        return None  # a comment begins with a colon: its field is empty

    def _dispatch(self) -> Event | None:
        data, name = self._data, self._name
        self._data, self._size, self._name = [], 0, b""
        if not data:
            return None
        try:
            return Event(b"\n".join(data).decode(), name.decode())
        except UnicodeDecodeError:
            raise EventUnreadable("the text is not UTF-8") from None
