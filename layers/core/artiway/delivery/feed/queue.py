"""A task's events and progress in Redis. Redis may lose them: PostgreSQL has every change of state."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from artiway import ids
from artiway.delivery.feed.model import EntryId, ListenerLimits, StreamEvent, TooManyListeners
from artiway.events import Event
from artiway.platform import scripts
from artiway.platform.breaker import Breaker
from artiway.platform.redis import RedisAway, translated
from artiway.platform.redis_keys import task_events, task_listeners, task_progress, task_written
from artiway.tasks.model import NodeProgress, Published, Report

if TYPE_CHECKING:
    from redis import Redis

KEEP_EVENTS = 2_000
TTL_S = 24 * 3600
LUA = "artiway.delivery.feed.lua"


class RedisFeed:
    def __init__(self, redis: Redis, *, interval_ms: int) -> None:
        self._redis, self._interval_ms = redis, interval_ms
        self._add_event = scripts.load(redis, "add_event", LUA)
        self._note_progress = scripts.load(redis, "note_progress", LUA)

    def add(self, events: Sequence[Published]) -> None:
        with translated():
            for event in events:
                self._add_event(
                    [task_events(event.task_id), task_progress(event.task_id)],
                    [
                        event.sequence,
                        event.event,
                        json.dumps(event.body, ensure_ascii=False),
                        KEEP_EVENTS,
                        TTL_S,
                        str(event.body.get("nodeId", "")),
                        event.body.get("attempt", ""),
                        "" if event.event == Event.TASK_STARTED.short else "1",
                    ],
                )

    def note_progress(self, report: Report, node: str, body: dict[str, Any]) -> str:
        """ "write", "noted" or "late"."""
        with translated():
            return str(
                self._note_progress(
                    [task_events(report.task_id), task_progress(report.task_id), task_written(report.node_id)],
                    [
                        node,
                        report.attempt,
                        report.sequence,
                        report.progress,
                        json.dumps(body, ensure_ascii=False),
                        KEEP_EVENTS,
                        TTL_S,
                        self._interval_ms,
                        Event.TASK_PROGRESS.short,
                    ],
                )
            )

    def progress(self, task_ids: Sequence[UUID]) -> dict[UUID, NodeProgress]:
        """The progress of each node of these tasks that Redis knows, in one round trip."""
        with translated(), self._redis.pipeline(transaction=False) as pipeline:
            for task_id in task_ids:
                pipeline.hgetall(task_progress(task_id))
            tasks = cast("list[dict[str, str]]", pipeline.execute())
        found = {}
        for rows in tasks:
            for node, text in rows.items():
                attempt, _, percent = text.split()
                found[ids.from_wire("node", node)] = NodeProgress(int(attempt), int(percent))
        return found

    def after(self, task_id: UUID, last: EntryId, *, wait_ms: int, limit: int) -> list[StreamEvent]:
        """The events after an entry id. If there is none, waits up to `wait_ms` for the first."""
        with translated():
            answer = cast(
                "list[Any] | dict[str, Any] | None",
                self._redis.xread({task_events(task_id): str(last)}, count=limit, block=wait_ms or None),
            )
        if not answer:
            return []
        rows = answer[0][1] if isinstance(answer, list) else next(iter(answer.values()))[0]
        return [
            StreamEvent(EntryId.parse(entry_id), fields["event"], json.loads(fields["body"]))
            for entry_id, fields in rows
        ]


class RedisLease:
    """One open stream in the counts of its user, its tenant and the platform."""

    def __init__(self, redis: Redis, guarded: AbstractContextManager[None], keys: Sequence[str], token: str) -> None:
        self._redis, self._guarded, self._keys, self._token = redis, guarded, keys, token
        self.is_counted = False

    def is_held(self) -> bool:
        """False after a newer stream of the same user has replaced this one."""
        if not self.is_counted:
            return True
        with contextlib.suppress(RedisAway), self._guarded:
            return self._redis.zscore(self._keys[0], self._token) is not None
        return True

    def release(self) -> None:
        if self.is_counted:
            with contextlib.suppress(RedisAway), self._guarded, self._redis.pipeline() as pipe:
                for key in self._keys:
                    pipe.zrem(key, self._token)
                pipe.execute()


class RedisListeners:
    """Counts open streams by leases, which expire after a crash. Without Redis none is counted."""

    def __init__(self, redis: Redis, limits: ListenerLimits, *, breaker: Breaker | None = None, kind: str = "") -> None:
        """Streams of another `kind` have counts of their own."""
        self._redis, self._limits, self._kind = redis, limits, kind
        self._breaker = breaker or Breaker()
        self._enter = scripts.load(redis, "enter_listener", LUA)

    @contextlib.contextmanager
    def lease(self, *, tenant_id: UUID, user_id: UUID, ttl_ms: int) -> Iterator[RedisLease]:
        limits = self._limits
        groups = [
            (f"user:{user_id}", "user", limits.user),
            (f"tenant:{tenant_id}", "tenant", limits.tenant),
            ("all", "platform", limits.platform),
        ]
        token, keys = secrets.token_hex(8), [task_listeners(self._kind + group) for group, _, _ in groups]
        guarded = self._breaker.guard("ListenerLimitAway")
        lease = RedisLease(self._redis, guarded, keys, token)
        full, retry_ms = 0, 0
        with contextlib.suppress(RedisAway), guarded:
            full, retry_ms = self._enter(keys, [token, ttl_ms, *(limit for _, _, limit in groups)])
            lease.is_counted = not full
        if full:
            _, scope, limit = groups[full - 1]
            raise TooManyListeners(scope, limit, retry_after_s=-(-retry_ms // 1_000))
        try:
            yield lease
        finally:
            lease.release()
