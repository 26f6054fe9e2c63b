"""A generation's events in Redis. Redis may lose them: the text and the end are in PostgreSQL too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from artiway.generations.feed.model import (
    NOTICES_PER_TEXT,
    Appended,
    Cancelled,
    Done,
    Entry,
    EntryId,
    Event,
    Failed,
    Name,
    Restart,
    Start,
    Text,
)
from artiway.platform.redis import translated
from artiway.platform.redis_keys import generation_events
from artiway.platform.redis_lines import Lines

if TYPE_CHECKING:
    from redis import Redis

LUA = "artiway.generations.feed.lua"
TTL_S = 6 * 3600
ENDED_TTL_S = 3600


class RedisFeed:
    def __init__(self, redis: Redis) -> None:
        self._lines = Lines(redis)
        self._append_events = self._lines.script(LUA, "append_events")

    def append(self, generation_id: UUID, attempt: int, events: Sequence[Event]) -> Appended:
        arguments: list[str | int] = [attempt, NOTICES_PER_TEXT, TTL_S, ENDED_TTL_S]
        for event in events:
            arguments += _arguments(event)
        with translated():
            return Appended(self._append_events([generation_events(generation_id)], arguments))

    def after(self, generation_id: UUID, last: EntryId, *, wait_ms: int, limit: int) -> list[Entry]:
        """The entries after an entry id. If there is none, waits up to `wait_ms` for the first."""
        block: tuple[str | int, ...] = ("BLOCK", wait_ms) if wait_ms else ()
        with translated():
            answer = self._lines.call(
                "XREAD", *block, "COUNT", limit, "STREAMS", generation_events(generation_id), str(last)
            )
        if not answer:
            return []
        rows = answer[0][1] if isinstance(answer, list) else next(iter(answer.values()))
        return [_entry(entry_id, fields) for entry_id, fields in rows]


def _arguments(event: Event) -> list[str | int]:
    body = json.dumps(event.body, ensure_ascii=False)
    match event:
        case Text():
            return ["text", event.name, body, event.offset, event.end]
        case Done() | Failed() | Cancelled():
            return ["end", event.name, body, 0, event.characters]
        case Start() | Restart():
            return ["first", event.name, body, 0, 0]
    return ["notice", event.name, body, 0, 0]


def _entry(entry_id: str, fields: Sequence[str]) -> Entry:
    """The fields in the order in which the script writes them: event, its name, body, its JSON."""
    attempt, _, number = entry_id.partition("-")
    return Entry(EntryId(int(attempt), int(number)), Name(fields[1]), json.loads(fields[3]))
