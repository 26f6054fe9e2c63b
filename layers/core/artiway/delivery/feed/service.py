"""Serves a task's events to a client after the last one that it received, each once and in order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.delivery.feed.frames import (
    LEASE_MS,
    LEASE_SLACK_MS,
    OVER_RETRY_MS,
    READ_WAIT_S,
    REPLACED_RETRY_MS,
    RETRY_MS,
    TURN_MS,
    UNCOUNTED_LIFE_MS,
    Rhythm,
    monotonic_ms,
    retry,
)
from artiway.delivery.feed.model import EntryId, StreamEvent, TooManyListeners
from artiway.errors import Unavailable
from artiway.platform import metrics, waits
from artiway.tasks.model import NodeProgress, NoSuchTask, Published, Task
from artiway.tasks.transaction import TaskStore

BATCH = 200
# An event that Redis lost does not arrive: the database is read from time to time.
READ_MS = 3_000


class Stream(Protocol):
    def add(self, events: Sequence[Published]) -> None: ...

    def after(self, task_id: UUID, last: EntryId, *, wait_ms: int, limit: int) -> list[StreamEvent]: ...

    def progress(self, task_ids: Sequence[UUID]) -> Mapping[UUID, NodeProgress]: ...


class Lease(Protocol):
    is_counted: bool

    def is_held(self) -> bool:
        """False after a newer stream of the same user has replaced this one."""


class Listeners(Protocol):
    def lease(self, *, tenant_id: UUID, user_id: UUID, ttl_ms: int) -> AbstractContextManager[Lease]:
        """Count one open stream while it is held. Raises TooManyListeners at a limit."""


def announce(stream: Stream) -> Callable[[Sequence[Published]], None]:
    """Adds events to the stream. While Redis is down, clients get them from the database."""

    def add(events: Sequence[Published]) -> None:
        try:
            stream.add(events)
        except Unavailable:
            metrics.emit("FeedMisses", len(events))

    return add


class ProgressReader:
    """The newest progress of tasks' running nodes. While Redis is down there is none, and the stored one is used."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def read(self, task_ids: Sequence[UUID]) -> Mapping[UUID, NodeProgress]:
        try:
            return self._stream.progress(task_ids) if task_ids else {}
        except Unavailable:
            return {}


class FeedService:
    def __init__(
        self,
        store: TaskStore,
        stream: Stream,
        listeners: Listeners,
        *,
        pause: Callable[[float], None],
        now_ms: Callable[[], float] = monotonic_ms,
    ) -> None:
        self._store, self._stream, self._listeners = store, stream, listeners
        self._pause, self._now_ms = pause, now_ms

    def available(self, *, tenant_id: UUID, task_id: UUID, last: EntryId) -> list[StreamEvent] | None:
        """The events after `last` that exist now, a batch at most. None: the task has ended, no event follows."""
        task = self._task(tenant_id, task_id)
        found = self._found(tenant_id, task, last)
        return None if not found and task.ended_at is not None else found

    def frames(
        self, *, tenant_id: UUID, user_id: UUID, task_id: UUID, last: EntryId, life_ms: int
    ) -> Generator[str, None, None]:
        """The events after `last` as they come, until the task's last event or the end of the stream's life.

        Before the first frame: raises NoSuchTask, or TooManyListeners if there is no event yet.
        """
        task = self._task(tenant_id, task_id)
        found = self._found(tenant_id, task, last)
        if task.ended_at is not None:
            yield from self._rest(tenant_id, task, last, found)
            return
        with contextlib.ExitStack() as leases:
            ttl_ms = life_ms + LEASE_SLACK_MS
            try:
                lease = leases.enter_context(self._listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=ttl_ms))
            except TooManyListeners:
                if not found:
                    raise
                yield from _frames(found, retry_ms=RETRY_MS)  # these keep no function waiting
                return
            yield retry(RETRY_MS)
            yield from self._live(tenant_id, task, last, found, lease, life_ms)

    def _live(
        self,
        tenant_id: UUID,
        task: Task,
        last: EntryId,
        found: Sequence[StreamEvent],
        lease: Lease,
        life_ms: int,
    ) -> Iterator[str]:
        life_ms = life_ms if lease.is_counted else min(life_ms, UNCOUNTED_LIFE_MS)
        rhythm = Rhythm(life_ms, now_ms=self._now_ms)
        while True:
            for event in found:
                last = event.entry_id
                yield event.as_frame()
                rhythm.sent()
            if task.ended_at is not None:
                yield from self._rest(tenant_id, task, last, [])
                return
            if rhythm.is_over:
                return
            arrived = self._after(task.task_id, last, TURN_MS)
            yield from rhythm.heartbeat()
            if rhythm.is_due("lease", LEASE_MS) and not lease.is_held():
                yield retry(REPLACED_RETRY_MS)
                return
            is_change, found = any(event.entry_id.part == 0 for event in arrived), []
            with contextlib.suppress(Unavailable), waits.counted(is_bounded=True, most_s=READ_WAIT_S):
                if is_change or rhythm.is_due("read", READ_MS):
                    task = self._task(tenant_id, task.task_id)
                found = self._filled(tenant_id, task, last, arrived)

    def _rest(
        self, tenant_id: UUID, task: Task, last: EntryId, found: Sequence[StreamEvent]
    ) -> Generator[str, None, None]:
        """The events of a task that has ended: all that are left, at once."""
        found = found or self._found(tenant_id, task, last)
        while found:
            yield from _frames(found, retry_ms=RETRY_MS)
            found = self._found(tenant_id, task, found[-1].entry_id)
        yield retry(OVER_RETRY_MS)

    def _found(self, tenant_id: UUID, task: Task, last: EntryId) -> list[StreamEvent]:
        return self._filled(tenant_id, task, last, self._after(task.task_id, last, 0))

    def _after(self, task_id: UUID, last: EntryId, wait_ms: int) -> list[StreamEvent]:
        try:
            return self._stream.after(task_id, last, wait_ms=wait_ms, limit=BATCH)
        except Unavailable:
            self._pause(wait_ms / 1_000)
            return []

    def _filled(self, tenant_id: UUID, task: Task, last: EntryId, found: Sequence[StreamEvent]) -> list[StreamEvent]:
        """The events in Redis, with the changes of state that Redis lost inserted from the database."""
        known = {event.entry_id.sequence for event in found if event.entry_id.part == 0}
        # Redis is read after the task, so it may have more. A full batch does not show the end of the stream.
        last_found = found[-1].entry_id.sequence if found else 0
        until = last_found if len(found) == BATCH else max(last_found, task.event_sequence)
        wanted = set(range(last.sequence + 1, until + 1))
        if wanted <= known:
            return list(found)
        with self._store.open(tenant_id) as tx:
            stored = tx.events_after(task.task_id, last.sequence, limit=BATCH)
        merged = {event.entry_id: event for event in found}
        for row in stored:
            entry_id = EntryId(row.sequence)
            merged.setdefault(entry_id, StreamEvent(entry_id, row.event, row.body))
        ordered = [merged[entry_id] for entry_id in sorted(merged)]
        # Events are served in order: stop at the first change of state that is missing. Those before the first stored
        # one were purged: one transaction numbers and stores an event.
        sequence = max(last.sequence, stored[0].sequence - 1) if stored else last.sequence
        served: list[StreamEvent] = []
        for event in ordered:
            if event.entry_id.sequence > sequence + 1:
                break
            sequence = max(sequence, event.entry_id.sequence)
            served.append(event)
        return served

    def _task(self, tenant_id: UUID, task_id: UUID) -> Task:
        with self._store.open(tenant_id) as tx:
            task = tx.task(task_id)
        if task is None:
            raise NoSuchTask
        return task


def _frames(events: Sequence[StreamEvent], *, retry_ms: int) -> Generator[str, None, None]:
    yield retry(retry_ms)
    for event in events:
        yield event.as_frame()
