"""Serves a task's events to whoever listens, from where they left off, without loss or repetition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.delivery.feed.model import Place, StreamEvent
from artiway.errors import Unavailable
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.tasks.model import NoSuchTask, Published, Task
from artiway.tasks.work import Work

logger = Logger("feed")
BATCH = 200
# Shorter than the time that one command may take.
TURN_MS = 500
TURNS_PER_LOOK = 6
# For the looks into the database within the wait; a listener that died gives its place back after this.
LEASE_SLACK_MS = 5_000


class Store(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[Work]: ...


class Stream(Protocol):
    def add(self, events: Sequence[Published]) -> None: ...

    def after(self, task_id: UUID, place: Place, *, wait_ms: int, limit: int) -> list[StreamEvent]: ...


class Listeners(Protocol):
    def lease(self, user_id: UUID, *, ttl_ms: int) -> AbstractContextManager[None]:
        """A place among the user's listeners while it is held. Raises TooManyListeners where there is none."""


def announce(stream: Stream) -> Callable[[Sequence[Published]], None]:
    """Puts events into the stream. Where it is away, listeners get them from the database."""

    def add(events: Sequence[Published]) -> None:
        try:
            stream.add(events)
        except Unavailable:
            metrics.emit("FeedMisses", len(events))

    return add


class FeedService:
    def __init__(self, store: Store, stream: Stream, listeners: Listeners, *, pause: Callable[[float], None]) -> None:
        self._store, self._stream, self._listeners, self._pause = store, stream, listeners, pause

    def read(
        self, *, tenant_id: UUID, user_id: UUID, task_id: UUID, last: Place, wait_ms: int
    ) -> list[StreamEvent] | None:
        """Events after `last`, waiting a while for the first. None: the task is over and all of it was told.

        Raises TooManyListeners where there is nothing yet and enough requests of the user wait already.
        """
        task = self._task(tenant_id, task_id)
        if found := self._filled(tenant_id, task, last, self._after(task_id, last, 0)):
            return found
        if task.ended_at is not None:
            return None
        with self._listeners.lease(user_id, ttl_ms=wait_ms + LEASE_SLACK_MS):
            return self._wait(tenant_id, task_id, last, wait_ms)

    def _wait(self, tenant_id: UUID, task_id: UUID, last: Place, wait_ms: int) -> list[StreamEvent]:
        for turn in range(1, wait_ms // TURN_MS + 1):
            arrived = self._after(task_id, last, TURN_MS)
            # What Redis lost it will not announce either: look into the database now and then.
            if arrived or turn % TURNS_PER_LOOK == 0:
                task = self._task(tenant_id, task_id)
                if found := self._filled(tenant_id, task, last, arrived):
                    return found
        return []

    def _after(self, task_id: UUID, last: Place, wait_ms: int) -> list[StreamEvent]:
        try:
            return self._stream.after(task_id, last, wait_ms=wait_ms, limit=BATCH)
        except Unavailable:
            self._pause(wait_ms / 1_000)
            return []

    def _filled(self, tenant_id: UUID, task: Task, last: Place, found: Sequence[StreamEvent]) -> list[StreamEvent]:
        """What Redis has, with the changes of state that it lost put back in their places."""
        known = {event.place.sequence for event in found if event.place.part == 0}
        # Redis is read after the task, so it may know more; read in batches, so only a short one shows its end.
        last_found = found[-1].place.sequence if found else 0
        until = last_found if len(found) == BATCH else max(last_found, task.event_sequence)
        wanted = set(range(last.sequence + 1, until + 1))
        if wanted <= known:
            return list(found)
        with self._store.open(tenant_id) as work:
            stored = work.events_after(task.task_id, last.sequence, limit=BATCH)
        merged = {event.place: event for event in found}
        for row in stored:
            place = Place(row.sequence)
            merged.setdefault(place, StreamEvent(place, row.event, row.body))
        ordered = [merged[place] for place in sorted(merged)]
        # Nothing is told before what comes before it: stop at the first change of state that is still missing.
        sequence = last.sequence
        told: list[StreamEvent] = []
        for event in ordered:
            if event.place.sequence > sequence + 1:
                break
            sequence = event.place.sequence
            told.append(event)
        return told

    def _task(self, tenant_id: UUID, task_id: UUID) -> Task:
        with self._store.open(tenant_id) as work:
            task = work.task(task_id)
        if task is None:
            raise NoSuchTask
        return task
