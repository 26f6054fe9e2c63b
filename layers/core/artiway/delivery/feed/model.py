"""The stream of a task's events: each has a place, and a listener goes on after the last place it saw."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artiway.errors import TooMany


class TooManyListeners(TooMany):
    """So many requests of the user wait for events now. Each of them holds a function."""

    code = "TASK_429_LISTENERS"

    def __init__(self, limit: int, *, retry_after_s: int) -> None:
        message = "too many requests of this user wait for events; end one, or try again later"
        super().__init__(message, retry_after_s=retry_after_s, limit=limit)


_PLACE = re.compile(r"(\d{1,15})-(\d{1,15})")


@dataclass(frozen=True, order=True)
class Place:
    """`sequence` is the number of a change of state, `part` counts the progress told after it."""

    sequence: int = 0
    part: int = 0

    def __str__(self) -> str:
        return f"{self.sequence}-{self.part}"

    @staticmethod
    def parse(text: str | None) -> Place:
        """Where a listener left off. What we did not write is the beginning."""
        found = _PLACE.fullmatch(text or "")
        return Place(int(found[1]), int(found[2])) if found else Place()


@dataclass(frozen=True)
class StreamEvent:
    place: Place
    event: str
    body: Mapping[str, Any]


def as_text(events: Sequence[StreamEvent], *, retry_ms: int) -> str:
    """The body of an answer of type text/event-stream. A client reconnects after `retry_ms` and goes on."""
    lines = [f"retry: {retry_ms}\n\n"]
    for event in events:
        body = json.dumps(event.body, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"id: {event.place}\nevent: {event.event}\ndata: {body}\n\n")
    return "".join(lines)
