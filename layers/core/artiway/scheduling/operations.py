"""What operators see and turn: lanes, clocks, shares, workers, and what another policy would have done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from artiway.errors import NotFound, Unavailable
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.scheduling import fairness, forecast
from artiway.scheduling.fairness import Fairness
from artiway.scheduling.forecast import Changes
from artiway.scheduling.lanes import LANES
from artiway.scheduling.model import (
    Arrival,
    LaneChange,
    LaneState,
    Pool,
    Snapshot,
    TenantPolicy,
    TenantState,
    Track,
    Waits,
    WorkerState,
)

logger = Logger("operations")
IMAGE_POOLS = ("gpu", "enterprise")
ARRIVALS_LIMIT = 5_000
GAUGE_WINDOW_S = 300


class Book(Protocol):
    def lanes(self, lane: str | None = None) -> list[LaneState]: ...

    def set_lane(self, lane: str, change: LaneChange, *, actor_id: UUID | None) -> None: ...

    def workers(self) -> list[WorkerState]: ...

    def count_waiting(self, pool: str) -> int: ...

    def snapshot(self, pool: str) -> Snapshot: ...

    def arrivals(self, pool: str, *, window_s: int, limit: int) -> list[Arrival]: ...


class Queue(fairness.Ledger, Protocol):
    """The fair queue, looked at."""

    def attach(self) -> bool: ...

    def clock_us(self) -> int: ...

    def pool(self) -> Pool: ...

    def running_by_track(self) -> dict[Track, int]: ...


class Scheduler(Protocol):
    def refresh(self, pool: str, *, is_forced: bool = False) -> None: ...

    def dispatch(self, pool: str) -> int: ...


@dataclass(frozen=True)
class PoolState:
    pool: str
    clock_us: int
    slots: Mapping[str, int]
    running: int
    tenants: Sequence[TenantState]


@dataclass(frozen=True)
class Outcome:
    """How a tenant waited in a pool, and how it would have."""

    pool: str
    tenant_id: str
    before: Waits
    after: Waits


class OperationsService:
    """A switch acts at once: the database has it first, then the queue, then whoever may run now runs."""

    def __init__(self, book: Book, queue_of: Callable[[str], Queue], scheduler: Scheduler, clock: Clock) -> None:
        self._book, self._queue_of, self._scheduler, self._clock = book, queue_of, scheduler, clock

    def lanes(self) -> list[LaneState]:
        return self._book.lanes()

    def change_lane(self, lane: str, change: LaneChange, *, actor_id: UUID | None) -> LaneState:
        if lane not in LANES:
            raise NotFound("there is no such lane")
        self._book.set_lane(lane, change, actor_id=actor_id)
        pool = LANES[lane].pool
        if pool in IMAGE_POOLS:
            try:
                self._scheduler.refresh(pool, is_forced=True)
                self._scheduler.dispatch(pool)
            except Unavailable as error:
                # The switch is stored; each scheduler reads it from the database at its next refresh.
                logger.warning("switch not mirrored yet", lane=lane, reason=error.code)
        return self._book.lanes(lane)[0]

    def workers(self) -> list[WorkerState]:
        return self._book.workers()

    def measure(self) -> None:
        """Say how full each pool is: workers come and go by it. All but the fairness is the database's word."""
        workers = self._book.workers()
        lanes = [lane for lane in self._book.lanes() if lane.pool in IMAGE_POOLS]
        for lane in lanes:
            metrics.emit("LaneDepth", lane.depth, lane=lane.lane)
        for pool in IMAGE_POOLS:
            metrics.emit("NodesWaiting", self._book.count_waiting(pool), pool=pool)
            metrics.emit("SlotsInUse", sum(lane.running for lane in lanes if lane.pool == pool), pool=pool)
            metrics.emit("Slots", sum(worker.slots for worker in workers if worker.pool == pool), pool=pool)
        for pool in IMAGE_POOLS:
            metrics.emit("FairnessJain", self.fairness(pool=pool, window_s=GAUGE_WINDOW_S).jain, "None", pool=pool)

    def pools(self) -> list[PoolState]:
        return [self._pool(pool) for pool in IMAGE_POOLS]

    def fairness(self, *, pool: str, window_s: int) -> Fairness:
        now_ms = int(self._clock.now().timestamp() * 1000)
        return fairness.report(self._attached(pool), now_ms=now_ms, window_s=window_s)

    def simulate(
        self, *, tenants: Sequence[TenantPolicy], slots: Mapping[str, Mapping[str, int]], window_s: int
    ) -> list[Outcome]:
        """Replay what really arrived, under the present policies and under changed ones."""
        outcomes = []
        for pool in IMAGE_POOLS:
            arrivals = self._book.arrivals(pool, window_s=window_s, limit=ARRIVALS_LIMIT)
            changed = slots.get(pool, {})
            changes = Changes(tenants=tenants, slots=changed, capacity=sum(changed.values()) or None)
            found = forecast.simulate(self._book.snapshot(pool), arrivals, changes)
            outcomes += [
                Outcome(pool, tenant_id, waits, found.after[tenant_id]) for tenant_id, waits in found.before.items()
            ]
        return outcomes

    def _pool(self, pool: str) -> PoolState:
        queue = self._attached(pool)
        return PoolState(
            pool=pool,
            clock_us=queue.clock_us(),
            slots=queue.pool().slots,
            running=sum(queue.running_by_track().values()),
            tenants=queue.tenants(),
        )

    def _attached(self, pool: str) -> Queue:
        queue = self._queue_of(pool)
        if not queue.attach():
            self._scheduler.refresh(pool, is_forced=True)  # takes up or rebuilds what Redis lost
            queue.attach()
        return queue
