"""A generation's events in Redis. Redis may lose them: the text and the end are in PostgreSQL too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
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
from artiway.platform import scripts
from artiway.platform.redis import translated
from artiway.platform.redis_keys import generation_events

if TYPE_CHECKING:
    from redis import Redis

LUA = "artiway.generations.feed.lua"
TTL_S = 6 * 3600
ENDED_TTL_S = 3600


class RedisFeed:
    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._append_events = scripts.load(redis, "append_events", LUA)

    def append(self, generation_id: UUID, attempt: int, events: Sequence[Event]) -> Appended:
        arguments: list[str | int] = [attempt, NOTICES_PER_TEXT, TTL_S, ENDED_TTL_S]
        for event in events:
            arguments += _arguments(event)
        with translated():
            return Appended(self._append_events([generation_events(generation_id)], arguments))

    def after(self, generation_id: UUID, last: EntryId, *, wait_ms: int, limit: int) -> list[Entry]:
        """The entries after an entry id. If there is none, waits up to `wait_ms` for the first."""
        with translated():
            answer = cast(
                "list[Any] | dict[str, Any] | None",
                self._redis.xread({generation_events(generation_id): str(last)}, count=limit, block=wait_ms or None),
            )
        if not answer:
            return []
        rows = answer[0][1] if isinstance(answer, list) else next(iter(answer.values()))[0]
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


def _entry(entry_id: str, fields: dict[str, str]) -> Entry:
    parsed = EntryId.parse(entry_id)
    assert parsed is not None
    return Entry(parsed, Name(fields["event"]), json.loads(fields["body"]))
