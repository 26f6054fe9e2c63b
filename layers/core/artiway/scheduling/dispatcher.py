"""Brings the fair queue and the database together: who is ready, who goes next, what a lost Redis costs.

The database decides, Redis orders. Each step can be cut off from the next by a crash: a node that was taken and not
dispatched comes back by its lease, one that was dispatched and not confirmed is recognised when its turn comes again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar
from uuid import UUID

from artiway.errors import Unavailable
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.scheduling.model import (
    RETRY_AFTER_S,
    Admitted,
    Cancelled,
    Completion,
    Dispatched,
    Ended,
    Enqueued,
    Lane,
    Node,
    Pool,
    Priority,
    Running,
    Settled,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
    Track,
)

logger = Logger("scheduler")
T = TypeVar("T")
BATCH = 100
REFRESH_MS = 2_000


class Waiting(Protocol):
    """A ready node, as the tasks know it, and what its tenant may have."""

    @property
    def node_id(self) -> str: ...
    @property
    def tenant_id(self) -> str: ...
    @property
    def user_id(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def cost_us(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def cap(self) -> int: ...
    @property
    def priority(self) -> str: ...


class Left(Protocol):
    """A node that no longer wants a slot, and what it used of one."""

    @property
    def node_id(self) -> UUID: ...
    @property
    def pool(self) -> str: ...
    @property
    def gpu_us(self) -> int | None: ...


class Nodes(Protocol):
    """The transitions. Each is one transaction, and says what it really changed."""

    def mark_ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> Sequence[Waiting]: ...

    def dispatch(self, chosen: Sequence[tuple[str, int, int]]) -> Sequence[str]: ...


class Book(Protocol):
    """The truth that the queue mirrors."""

    def policies(self, tenant_ids: Iterable[str]) -> list[TenantPolicy]: ...

    def pool(self, pool: str) -> Pool: ...

    def waiting(self, pool: str) -> list[Node]: ...

    def count_waiting(self, pool: str) -> int: ...

    def running(self, pool: str) -> list[Running]: ...

    def holding(self, node_ids: Iterable[str]) -> set[str]: ...

    def snapshot(self, pool: str) -> Snapshot: ...


class Queue(Protocol):
    """The fair queue of one pool."""

    def attach(self) -> bool: ...

    def admit(
        self, nodes: Sequence[Node], *, now_ms: int, policies: Sequence[TenantPolicy] = (), dispatch: int = 0
    ) -> Admitted: ...

    def dispatch(self, limit: int, *, now_ms: int) -> list[Dispatched]: ...

    def complete(
        self, completions: Sequence[Completion], *, now_ms: int, dispatch: int = 0, confirmed: Iterable[str] = ()
    ) -> Settled: ...

    def cancel(self, node_ids: Sequence[str], *, now_ms: int) -> list[Cancelled]: ...

    def reclaim(self, *, now_ms: int) -> list[str]: ...

    def adopt(self, nodes: Sequence[Running], *, now_ms: int) -> None: ...

    def set_tenants(self, policies: Sequence[TenantPolicy], *, now_ms: int) -> None: ...

    def set_slots(self, slots: Mapping[str, int], *, now_ms: int) -> None: ...

    def set_capacity(self, capacity: int | None, *, now_ms: int) -> None: ...

    def set_lane_limits(
        self, lane: str, *, parallelism: int | None, share_percent: int | None = None, now_ms: int
    ) -> None: ...

    def pause_lane(self, lane: str, *, now_ms: int) -> None: ...

    def resume_lane(self, lane: str, *, now_ms: int) -> None: ...

    def pool(self) -> Pool: ...

    def tenant_ids(self) -> list[str]: ...

    def running_ids(self) -> set[str]: ...

    def waiting_by_track(self) -> dict[Track, int]: ...

    def rebuild(self, snapshot: Snapshot, *, now_ms: int) -> str: ...


class QueueAway(Unavailable):
    """The queue was lost again while it was rebuilt. The message that brought us here comes again."""

    code = "SCHED_503_DISPATCH_BACKLOG"


@dataclass(frozen=True)
class Corrections:
    """What a comparison of Redis with the database had to mend. All zero is a healthy pool."""

    returned: int = 0
    requeued: int = 0
    freed: int = 0
    adopted: int = 0


class Dispatcher:
    """One scheduler over all pools. Any number of them may work at once: the database's guards keep them apart."""

    def __init__(
        self,
        nodes: Nodes,
        book: Book,
        queue_of: Callable[[str], Queue],
        clock: Clock,
        *,
        crash_point: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._nodes, self._book, self._queue_of, self._clock = nodes, book, queue_of, clock
        self._crash_point = crash_point
        self._attached: set[str] = set()
        self._mirrored: dict[str, Pool] = {}
        self._refreshed_ms: dict[str, int] = {}

    def ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> int:
        """Nodes may run, say their lanes. Returns how many nodes, of whomever, were dispatched because of it."""
        waiting = self._nodes.mark_ready(node_ids, tokens)
        self._crash_point("nodes ready")
        by_pool: dict[str, list[Waiting]] = defaultdict(list)
        for node in waiting:
            by_pool[node.pool].append(node)
        return sum(self._admit(pool, nodes) for pool, nodes in by_pool.items())

    def left(self, nodes: Sequence[Left]) -> int:
        """Nodes ended or were cancelled: their slots go to the next ones, corrected by what they really used."""
        by_pool: dict[str, list[Left]] = defaultdict(list)
        for node in nodes:
            by_pool[node.pool].append(node)
        return sum(self._free(pool, left) for pool, left in by_pool.items())

    def dispatch(self, pool: str) -> int:
        """Give every free slot to the node whose turn it is."""
        self.refresh(pool)
        return self._drain(pool, self._take(pool))

    def refresh(self, pool: str, *, is_forced: bool = False) -> None:
        """Mirror slots and lanes, at most every few seconds: workers come and go, operators turn switches."""
        now_ms = self._now_ms()
        if not is_forced and now_ms - self._refreshed_ms.get(pool, -REFRESH_MS) < REFRESH_MS:
            return
        wanted = self._book.pool(pool)
        self._on(pool, lambda queue: self._mirror(queue, wanted))
        self._refreshed_ms[pool] = now_ms

    def rebuild(self, pool: str) -> None:
        """Fill the queue anew from the database. Of two that try at once the later wins; the other lets it work."""
        try:
            self._queue_of(pool).rebuild(self._book.snapshot(pool), now_ms=self._now_ms())
        except StaleEpoch as error:
            raise QueueAway("the queue is being rebuilt by another", retry_after_s=RETRY_AFTER_S) from error
        logger.warning("fair queue rebuilt", pool=pool)
        metrics.emit("FairQueueRebuilds", 1, pool=pool)

    def reconcile(self, pool: str) -> Corrections:
        """Compare Redis with the database and mend Redis. Then whoever may run, runs."""
        self.refresh(pool, is_forced=True)
        tenants = self._on(pool, lambda queue: queue.tenant_ids())
        policies = self._book.policies(tenants)
        self._on(pool, lambda queue: queue.set_tenants(policies, now_ms=self._now_ms()))
        corrections = Corrections(
            returned=len(self._on(pool, lambda queue: queue.reclaim(now_ms=self._now_ms()))),
            requeued=self._requeue_missing(pool),
            **self._mend_slots(pool),
        )
        for name, count in vars(corrections).items():
            metrics.emit("FairQueueCorrections", count, pool=pool, kind=name)
        self.dispatch(pool)
        return corrections

    # --- steps

    def _admit(self, pool: str, nodes: Sequence[Waiting]) -> int:
        self.refresh(pool)
        owners = {node.tenant_id: node for node in nodes}
        policies = [TenantPolicy(tenant_id, node.weight, node.cap) for tenant_id, node in owners.items()]
        ready = [_queued(node) for node in nodes]
        admitted = self._on(
            pool, lambda queue: queue.admit(ready, now_ms=self._now_ms(), policies=policies, dispatch=BATCH)
        )
        return self._drain(pool, admitted.dispatched)

    def _free(self, pool: str, left: Sequence[Left]) -> int:
        self.refresh(pool)
        ends = [Completion(str(node.node_id), node.gpu_us) for node in left]
        settled = self._on(pool, lambda queue: queue.complete(ends, now_ms=self._now_ms(), dispatch=BATCH))
        self._crash_point("nodes freed")
        waited = [end.node_id for end, verdict in zip(ends, settled.ended, strict=True) if verdict is not Ended.ENDED]
        if waited:
            self._on(pool, lambda queue: queue.cancel(waited, now_ms=self._now_ms()))
        return self._drain(pool, settled.dispatched)

    def _take(self, pool: str) -> Sequence[Dispatched]:
        return self._on(pool, lambda queue: queue.dispatch(BATCH, now_ms=self._now_ms()))

    def _drain(self, pool: str, chosen: Sequence[Dispatched]) -> int:
        """Send what was taken, and what may go after it."""
        sent = 0
        while chosen:
            self._crash_point("nodes taken")
            begun, chosen = self._send(pool, chosen)
            sent += begun
        return sent

    def _send(self, pool: str, chosen: Sequence[Dispatched]) -> tuple[int, Sequence[Dispatched]]:
        """Dispatch in the database and confirm. A node that the database refuses holds its slot already, or is over.

        Returns how many began, and whom to send next: there may be more after a full batch, or one that made room.
        """
        taken = [(one.node.node_id, one.charged_us, one.tag_us) for one in chosen]
        sent = self._nodes.dispatch(taken)
        self._crash_point("nodes dispatched")
        refused = {node_id for node_id, _, _ in taken}.difference(sent)
        over = refused - self._book.holding(refused) if refused else refused
        confirmed = [node_id for node_id, _, _ in taken if node_id not in over]
        # Cancelled while it was taken: nothing ran, so nothing is charged.
        ends = [Completion(node_id, 0) for node_id in sorted(over)]
        limit = BATCH if refused or len(taken) == BATCH else 0
        settled = self._on(
            pool, lambda queue: queue.complete(ends, now_ms=self._now_ms(), dispatch=limit, confirmed=confirmed)
        )
        self._crash_point("nodes confirmed")
        metrics.emit("NodesDispatched", len(sent), pool=pool)
        return len(sent), settled.dispatched

    def _mirror(self, queue: Queue, wanted: Pool) -> None:
        known, now_ms = queue.pool(), self._now_ms()
        # A type whose last worker has gone has no slots; leaving it out would leave them.
        slots = {**dict.fromkeys(known.slots, 0), **wanted.slots}
        if slots != known.slots:
            queue.set_slots(slots, now_ms=now_ms)
        if wanted.capacity != known.capacity:
            queue.set_capacity(wanted.capacity, now_ms=now_ms)
        for name, lane in wanted.lanes.items():
            before = known.lanes.get(name, Lane(name))
            if (lane.parallelism, lane.share_percent) != (before.parallelism, before.share_percent):
                queue.set_lane_limits(
                    name, parallelism=lane.parallelism, share_percent=lane.share_percent, now_ms=now_ms
                )
            if lane.is_paused != before.is_paused:
                (queue.pause_lane if lane.is_paused else queue.resume_lane)(name, now_ms=now_ms)

    def _requeue_missing(self, pool: str) -> int:
        mirrored = self._on(pool, lambda queue: sum(queue.waiting_by_track().values()))
        if mirrored >= self._book.count_waiting(pool):
            return 0
        nodes = self._book.waiting(pool)
        policies = self._book.policies({node.tenant_id for node in nodes})
        admitted = self._on(pool, lambda queue: queue.admit(nodes, now_ms=self._now_ms(), policies=policies))
        return sum(verdict is Enqueued.QUEUED for verdict in admitted.enqueued)

    def _mend_slots(self, pool: str) -> dict[str, Any]:
        """Read Redis, the database, Redis: what moved meanwhile is left to the next pass."""
        before = self._on(pool, lambda queue: queue.running_ids())
        truth = {held.node.node_id: held for held in self._book.running(pool)}
        after = self._on(pool, lambda queue: queue.running_ids())
        surplus = sorted((before & after) - truth.keys())
        missing = [truth[node_id] for node_id in sorted(truth.keys() - before - after)]
        if surplus:
            ends = [Completion(node_id) for node_id in surplus]
            self._on(pool, lambda queue: queue.complete(ends, now_ms=self._now_ms()))
        if missing:
            policies = self._book.policies({held.node.tenant_id for held in missing})
            self._on(pool, lambda queue: queue.set_tenants(policies, now_ms=self._now_ms()))
            self._on(pool, lambda queue: queue.adopt(missing, now_ms=self._now_ms()))
        return {"freed": len(surplus), "adopted": len(missing)}

    def _on(self, pool: str, act: Callable[[Queue], T]) -> T:
        """Act on the pool's queue. One that is lost or was rebuilt by another is taken up first."""
        queue = self._queue_of(pool)
        for is_last_try in (False, True):
            if pool not in self._attached:
                if not queue.attach():
                    self.rebuild(pool)
                self._attached.add(pool)
            try:
                return act(queue)
            except StaleEpoch as error:
                self._attached.discard(pool)
                if is_last_try:
                    raise QueueAway("the queue is being rebuilt", retry_after_s=RETRY_AFTER_S) from error
        raise AssertionError("unreachable")

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)


@cache
def _track(node_type: str, lane: str, model: str) -> Track:
    return Track(node_type, lane, model)


def _queued(node: Waiting) -> Node:
    return Node(
        node_id=node.node_id,
        tenant_id=node.tenant_id,
        user_id=node.user_id,
        track=_track(node.type, node.lane, node.model),
        cost_us=node.cost_us,
        priority=Priority(node.priority),
    )
