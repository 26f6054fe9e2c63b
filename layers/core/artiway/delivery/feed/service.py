"""Serves a task's events to a client after the last one that it received, each once and in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.delivery.feed.model import EntryId, StreamEvent
from artiway.errors import Unavailable
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.tasks.model import NodeProgress, NoSuchTask, Published, Task
from artiway.tasks.transaction import TaskStore

logger = Logger("feed")
BATCH = 200
# Shorter than the time that one command may take.
TURN_MS = 500
TURNS_PER_READ = 6
# For the reads of the database during the wait. The lease of a crashed function expires after this.
LEASE_SLACK_MS = 5_000
# Without Redis nobody counts the waiting requests, so each of them keeps its function for a short time only.
UNCOUNTED_WAIT_MS = 2_000


class Stream(Protocol):
    def add(self, events: Sequence[Published]) -> None: ...

    def after(self, task_id: UUID, last: EntryId, *, wait_ms: int, limit: int) -> list[StreamEvent]: ...

    def progress(self, task_ids: Sequence[UUID]) -> Mapping[UUID, NodeProgress]: ...


class Listeners(Protocol):
    def lease(self, *, tenant_id: UUID, user_id: UUID, ttl_ms: int) -> AbstractContextManager[bool]:
        """Count one waiting request while it is held. Raises TooManyListeners at a limit. False: it is not counted."""


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
        self, store: TaskStore, stream: Stream, listeners: Listeners, *, pause: Callable[[float], None]
    ) -> None:
        self._store, self._stream, self._listeners, self._pause = store, stream, listeners, pause

    def read(
        self, *, tenant_id: UUID, user_id: UUID, task_id: UUID, last: EntryId, wait_ms: int
    ) -> list[StreamEvent] | None:
        """The events after `last`; waits up to `wait_ms` for the first. None: the task has ended, no event follows.

        Raises TooManyListeners if there is no event yet and a limit of waiting requests is reached.
        """
        task = self._task(tenant_id, task_id)
        if found := self._filled(tenant_id, task, last, self._after(task_id, last, 0)):
            return found
        if task.ended_at is not None:
            return None
        ttl_ms = wait_ms + LEASE_SLACK_MS
        with self._listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=ttl_ms) as is_counted:
            return self._wait(tenant_id, task_id, last, wait_ms if is_counted else min(wait_ms, UNCOUNTED_WAIT_MS))

    def _wait(self, tenant_id: UUID, task_id: UUID, last: EntryId, wait_ms: int) -> list[StreamEvent]:
        for turn in range(1, wait_ms // TURN_MS + 1):
            arrived = self._after(task_id, last, TURN_MS)
            # An event that Redis lost does not arrive here: read the database from time to time.
            if arrived or turn % TURNS_PER_READ == 0:
                task = self._task(tenant_id, task_id)
                if found := self._filled(tenant_id, task, last, arrived):
                    return found
        return []

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
