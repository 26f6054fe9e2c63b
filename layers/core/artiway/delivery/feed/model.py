"""The stream of a task's events. Each has an entry id, and a client continues after the last id that it received."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artiway.errors import TooMany

_ENTRY_ID = re.compile(r"(\d{1,15})-(\d{1,15})")


@dataclass(frozen=True)
class ListenerLimits:
    """Requests that may wait for events at the same time. Each of them keeps a function busy."""

    user: int
    tenant: int
    platform: int


class TooManyListeners(TooMany):
    """Too many requests of the user, of the tenant or of the platform wait for events."""

    code = "TASK_429_LISTENERS"

    def __init__(self, scope: str, limit: int, *, retry_after_s: int) -> None:
        message = f"too many requests of this {scope} wait for events; end one, or try again later"
        super().__init__(message, retry_after_s=retry_after_s, scope=scope, limit=limit)


@dataclass(frozen=True, order=True)
class EntryId:
    """`sequence` is the number of a change of state, `part` counts the progress events after it."""

    sequence: int = 0
    part: int = 0

    def __str__(self) -> str:
        return f"{self.sequence}-{self.part}"

    @staticmethod
    def parse(text: str | None) -> EntryId:
        """The last id that a client received. Any other text means the beginning."""
        found = _ENTRY_ID.fullmatch(text or "")
        return EntryId(int(found[1]), int(found[2])) if found else EntryId()


@dataclass(frozen=True)
class StreamEvent:
    entry_id: EntryId
    event: str
    body: Mapping[str, Any]


def as_text(events: Sequence[StreamEvent], *, retry_ms: int) -> str:
    """The body of an answer of type text/event-stream. The client reconnects after `retry_ms`."""
    lines = [f"retry: {retry_ms}\n\n"]
    for event in events:
        body = json.dumps(event.body, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"id: {event.entry_id}\nevent: {event.event}\ndata: {body}\n\n")
    return "".join(lines)
