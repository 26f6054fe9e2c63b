"""Sweeps of texts: each state that is not final has a time, and a sweep that acts when the time is over."""

from __future__ import annotations

from collections.abc import Callable

from artiway.generations.lifecycle import Lifecycle, cancelled
from artiway.generations.model import GuardLimits, Status
from artiway.generations.ports import GenerationStore, WorkerStore
from artiway.platform import metrics
from artiway.points.service import PointsService

# A message is delivered within seconds, so a text that could run for this long has lost its message.
UNSENT_S = 30


class GenerationSweeps:
    def __init__(
        self,
        workers: WorkerStore,
        store: GenerationStore,
        lifecycle: Lifecycle,
        points: PointsService,
        *,
        limits: Callable[[], GuardLimits],
        batch: int,
    ) -> None:
        self._workers, self._store, self._lifecycle, self._points = workers, store, lifecycle, points
        self._limits, self._batch = limits, batch

    def leases(self) -> int:
        """Texts whose worker was lost wait again, or fail."""
        expired = self._workers.expired_leases(limit=self._batch)
        swept = sum(self._lifecycle.lose(one.tenant_id, one.generation_id, one.attempt) for one in expired)
        metrics.emit("OrphansSwept", swept)
        return swept

    def cancels(self) -> int:
        """Texts that wait again although their cancel was requested."""
        swept = 0
        for one in self._workers.unfinished_cancels(limit=self._batch):
            with self._store.open(one.tenant_id) as tx:
                generation = tx.lock(one.generation_id)
                is_waiting = generation is not None and generation.status is Status.QUEUED
                ended = (
                    self._lifecycle.stop(tx, generation, cancelled(generation, text=""))
                    if generation is not None and is_waiting
                    else None
                )
            if ended is not None:
                self._lifecycle.publish_end(ended)
                swept += 1
        return swept

    def messages(self) -> int:
        """Texts that could run and have no message."""
        return self._workers.wake(lane=None, age_s=UNSENT_S, parallelism=self._limits().parallelism, limit=self._batch)

    def holds(self) -> int:
        found = self._workers.orphan_holds(limit=self._batch)
        for tenant_id, user_id, hold_id in found:
            self._points.cancel_hold(tenant_id=tenant_id, user_id=user_id, hold_id=hold_id, reference="watchdog")
        return len(found)
