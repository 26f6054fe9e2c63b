"""Operations: lanes, models, workers, clocks, shares, decisions, and simulations of other policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from artiway.errors import NotFound, Refused, Unavailable
from artiway.jobs.model import RUN_LANES
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.scheduling import fairness, forecast
from artiway.scheduling.fairness import Fairness
from artiway.scheduling.forecast import Changes
from artiway.scheduling.lanes import LANES
from artiway.scheduling.model import (
    KEY_BITS,
    Arrival,
    Choice,
    Decision,
    LaneChange,
    LaneState,
    ModelLoad,
    ModelState,
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
DECISIONS_LIMIT = 1_000


class SchedulingStore(Protocol):
    def lanes(self, lane: str | None = None) -> list[LaneState]: ...

    def run_lanes(self, lanes: Sequence[str]) -> list[LaneState]:
        """The lanes of scheduled runs."""

    def set_lane(self, lane: str, change: LaneChange, *, actor_id: UUID | None, reason: str | None = None) -> None: ...

    def workers(self) -> list[WorkerState]: ...

    def drain_worker(self, worker_id: str, *, actor_id: UUID | None) -> str:
        """Returns the worker's pool. Raises NotFound."""

    def model_limits(self) -> dict[str, int]: ...

    def model_loads(self) -> dict[str, list[ModelLoad]]: ...

    def set_model_limit(self, model: str, limit: int | None, *, actor_id: UUID | None) -> None: ...

    def named_nodes(self, node_ids: Iterable[str]) -> dict[str, tuple[str, str]]: ...

    def count_waiting(self, pool: str) -> int: ...

    def oldest_waiting_s(self) -> dict[str, float]: ...


class Records(Protocol):
    """What happened lately, perhaps from a replica."""

    def snapshot(self, pool: str) -> Snapshot: ...

    def arrivals(self, pool: str, *, window_s: int, limit: int) -> list[Arrival]: ...


class Queue(fairness.Ledger, Protocol):
    """The fair queue of one pool, read only."""

    def attach(self) -> bool: ...

    def clock_us(self) -> int: ...

    def pool(self) -> Pool: ...

    def running_by_track(self) -> dict[Track, int]: ...

    def decisions(self, limit: int) -> list[Decision]:
        """Newest first."""


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
    """The waiting times of a tenant in a pool, as they were and as they would have been."""

    pool: str
    tenant_id: str
    before: Waits
    after: Waits


class OperationsService:
    """A change acts at once: it is stored, mirrored to the queue, and nodes that may run now are dispatched."""

    def __init__(
        self,
        store: SchedulingStore,
        queue_of: Callable[[str], Queue],
        scheduler: Scheduler,
        clock: Clock,
        models: Mapping[str, Sequence[str]],
        *,
        records: Records,
        wake_lane: Callable[[str], object] = lambda _lane: None,
    ) -> None:
        """`models` has the models of the catalogue and the steps that use each. What-if replays `records`.

        `wake_lane` sends messages for the free slots of a lane of texts.
        """
        self._store, self._queue_of, self._scheduler, self._clock = store, queue_of, scheduler, clock
        self._models, self._records, self._wake_lane = models, records, wake_lane

    def lanes(self) -> list[LaneState]:
        """Those of nodes and texts, then those of scheduled runs."""
        return [*self._store.lanes(), *self._store.run_lanes(RUN_LANES)]

    def change_lane(
        self, lane: str, change: LaneChange, *, actor_id: UUID | None, reason: str | None = None
    ) -> LaneState:
        if lane in RUN_LANES:
            return self._change_run_lane(lane, change, actor_id=actor_id, reason=reason)
        if lane not in LANES:
            raise NotFound("there is no such lane")
        self._store.set_lane(lane, change, actor_id=actor_id, reason=reason)
        if LANES[lane].pool in IMAGE_POOLS:
            self._mirror(LANES[lane].pool)
        else:
            self._wake_lane(lane)
        return self._store.lanes(lane)[0]

    def _change_run_lane(
        self, lane: str, change: LaneChange, *, actor_id: UUID | None, reason: str | None
    ) -> LaneState:
        """Admissions read the setting in each transaction; the trigger's next pass starts runs that now have room."""
        if change.get("share_percent") is not None:
            fault = "a lane of runs shares no pool; set its parallelism"
            raise Refused("the request is not valid", fields=[{"field": "sharePercent", "reason": fault}])
        self._store.set_lane(lane, change, actor_id=actor_id, reason=reason)
        return self._store.run_lanes([lane])[0]

    def models(self) -> list[ModelState]:
        limits, loads = self._store.model_limits(), self._store.model_loads()
        return [
            ModelState(model, tuple(steps), limits.get(model), tuple(loads.get(model, ())))
            for model, steps in self._models.items()
        ]

    def limit_model(self, model: str, limit: int | None, *, actor_id: UUID | None) -> ModelState:
        """Set how many nodes of a model may run at once in each pool. None removes the limit."""
        if model not in self._models:
            raise NotFound("there is no such model")
        self._store.set_model_limit(model, limit, actor_id=actor_id)
        self._mirror(*IMAGE_POOLS)
        return next(state for state in self.models() if state.model == model)

    def workers(self) -> list[WorkerState]:
        return self._store.workers()

    def oldest_waiting_s(self) -> float:
        """How long the node waits that waits longest, in any pool."""
        waits = self._store.oldest_waiting_s()
        return max((waits.get(pool, 0.0) for pool in IMAGE_POOLS), default=0.0)

    def pools_without_workers(self) -> int:
        """Pools in which nodes wait and no worker sends heartbeats."""
        served = {worker.pool for worker in self._store.workers() if not worker.is_draining}
        return sum(pool in IMAGE_POOLS and pool not in served for pool in self._store.oldest_waiting_s())

    def drain_worker(self, worker_id: str, *, actor_id: UUID | None) -> WorkerState:
        """The worker's slots leave the pool at once. Its next heartbeat is answered with the order to drain."""
        if not worker_id.isprintable():  # PostgreSQL takes no NUL
            raise NotFound("there is no such worker")
        pool = self._store.drain_worker(worker_id, actor_id=actor_id)
        self._mirror(pool)
        for worker in self._store.workers():
            if worker.worker_id == worker_id:
                return worker
        raise NotFound("there is no such worker")

    def _mirror(self, *pools: str) -> None:
        for pool in pools:
            if pool not in IMAGE_POOLS:
                continue
            try:
                self._scheduler.refresh(pool, is_forced=True)
                self._scheduler.dispatch(pool)
            except Unavailable as error:
                # The change is stored; each scheduler reads it from the database at its next refresh.
                logger.warning("change not mirrored yet", pool=pool, reason=error.code)

    def measure(self) -> None:
        """Emit the load of each pool, by which workers are scaled. All but the fairness is from the database."""
        workers = [worker for worker in self._store.workers() if not worker.is_draining]
        lanes = [lane for lane in self._store.lanes() if lane.pool in IMAGE_POOLS]
        for lane in lanes:
            metrics.emit("LaneDepth", lane.depth, lane=lane.lane)
        for pool in IMAGE_POOLS:
            metrics.emit("NodesWaiting", self._store.count_waiting(pool), pool=pool)
            metrics.emit("SlotsInUse", sum(lane.running for lane in lanes if lane.pool == pool), pool=pool)
            metrics.emit("Slots", sum(worker.slots for worker in workers if worker.pool == pool), pool=pool)
        for pool in IMAGE_POOLS:
            metrics.emit("FairnessJain", self.fairness(pool=pool, window_s=GAUGE_WINDOW_S).jain, "None", pool=pool)

    def decisions(
        self, *, pool: str | None = None, tenant_id: str | None = None, after: int | None, limit: int
    ) -> tuple[list[Choice], int | None]:
        """The last decisions of one queue or of all, newest first, behind the key `after`; and the key of the next
        page."""
        found = [
            Choice(name, decision, None, None)
            for name in ([pool] if pool else IMAGE_POOLS)
            for decision in self._attached(name).decisions(DECISIONS_LIMIT)
            if tenant_id in (None, decision.tenant_id, decision.runner_up_tenant_id)
        ]
        found.sort(key=lambda choice: -choice.decision.at_ms)  # stable: decisions of one call keep their order
        rest = _behind(found[:DECISIONS_LIMIT], after)
        names = self._store.named_nodes(choice.decision.node_id for choice in rest[:limit])
        page = [
            replace(choice, task_id=task_id, name=name)
            for choice in rest[:limit]
            for task_id, name in (names.get(choice.decision.node_id, (None, None)),)
        ]
        return page, page[-1].key if len(rest) > limit else None

    def pools(self) -> list[PoolState]:
        return [self._pool(pool) for pool in IMAGE_POOLS]

    def fairness(self, *, pool: str, window_s: int) -> Fairness:
        now_ms = int(self._clock.now().timestamp() * 1000)
        return fairness.report(self._attached(pool), now_ms=now_ms, window_s=window_s)

    def simulate(
        self, *, tenants: Sequence[TenantPolicy], slots: Mapping[str, Mapping[str, int]], window_s: int
    ) -> list[Outcome]:
        """Replay the recorded arrivals, under the present policies and under changed ones."""
        outcomes = []
        for pool in IMAGE_POOLS:
            arrivals = self._records.arrivals(pool, window_s=window_s, limit=ARRIVALS_LIMIT)
            changed = slots.get(pool, {})
            changes = Changes(tenants=tenants, slots=changed, capacity=sum(changed.values()) or None)
            found = forecast.simulate(self._records.snapshot(pool), arrivals, changes)
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
            self._scheduler.refresh(pool, is_forced=True)  # attaches, or rebuilds what Redis lost
            queue.attach()
        return queue


def _behind(choices: Sequence[Choice], after: int | None) -> Sequence[Choice]:
    """The choices behind a key. One that is no longer kept is found by its time."""
    if after is None:
        return choices
    for place, choice in enumerate(choices):
        if choice.key == after:
            return choices[place + 1 :]
    return [choice for choice in choices if choice.key >> KEY_BITS < after >> KEY_BITS]
