"""The stream of a task's events. Each has an entry id, and a client continues after the last id that it received."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artiway.errors import TooMany

_ENTRY_ID = re.compile(r"(\d{1,15})-(\d{1,15})")


@dataclass(frozen=True)
class ListenerLimits:
    """Streams that may be open at the same time. Each of them keeps a function busy.

    One more of the same user replaces the user's oldest: a viewer that was cut off and reconnects leaves a stream open.
    """

    user: int
    tenant: int
    platform: int


class TooManyListeners(TooMany):
    """Too many requests of the tenant or of the platform wait for events."""

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

    def as_frame(self) -> str:
        body = json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.entry_id}\nevent: {self.event}\ndata: {body}\n\n"
