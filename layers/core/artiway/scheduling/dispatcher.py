"""Connects the fair queue with the database: enqueues ready nodes, dispatches the next ones, corrects differences.

The database decides, Redis orders. A crash can separate any two steps: a node that was taken and not dispatched comes
back by its lease, one that was dispatched and not confirmed is recognised when its turn comes again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Protocol, TypeVar
from uuid import UUID

from artiway.errors import Unavailable
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.scheduling.model import (
    RETRY_AFTER_S,
    Admitted,
    Cancelled,
    ChangedLimits,
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
    TenantState,
    Track,
)

logger = Logger("scheduler")
T = TypeVar("T")
BATCH = 100
REFRESH_MS = 2_000
# Waiting nodes that one comparison reads from each side: where the counts agree, and where they differ.
COMPARE_FEW, COMPARE_MANY = 1_000, 10_000
SLOTS_LIMIT = 10_000
MEMO_LIMIT = 10_000
Place = tuple[str, datetime, str]
UserCaps = Mapping[tuple[str, str], int | None]


class ReadyNode(Protocol):
    """A ready node with the limits of its tenant and its user. `own_cap` is the user's, `user_cap` each user's."""

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
    def step(self) -> str: ...
    @property
    def cost_us(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def cap(self) -> int: ...
    @property
    def user_cap(self) -> int | None: ...
    @property
    def own_cap(self) -> int | None: ...
    @property
    def priority(self) -> str: ...


class ReleasedSlot(Protocol):
    """A node that ended or was cancelled, and the GPU time that it used."""

    @property
    def node_id(self) -> UUID: ...
    @property
    def pool(self) -> str: ...
    @property
    def gpu_us(self) -> int | None: ...


class Nodes(Protocol):
    """The transitions. Each is one transaction and returns what it changed."""

    def mark_ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> Sequence[ReadyNode]: ...

    def dispatch(self, chosen: Sequence[tuple[str, int, int]]) -> Sequence[str]: ...


class SchedulingStore(Protocol):
    """The database, which the queue mirrors."""

    def policies(self, tenant_ids: Iterable[str]) -> list[TenantPolicy]: ...

    def user_caps(self, tenant_ids: Iterable[str]) -> dict[tuple[str, str], int]: ...

    def changed_limits(self) -> ChangedLimits: ...

    def pool(self, pool: str) -> Pool: ...

    def waiting_page(self, pool: str, *, after: Place | None, limit: int) -> tuple[list[Node], Place | None]: ...

    def waiting_among(self, pool: str, node_ids: Iterable[str]) -> set[str]: ...

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

    def set_user_cap(self, tenant_id: str, user_id: str, cap: int | None, *, now_ms: int) -> None: ...

    def set_model_limit(self, model: str, limit: int | None, *, now_ms: int) -> None: ...

    def set_step_limit(self, step: str, limit: int | None, *, now_ms: int) -> None: ...

    def set_slots(self, slots: Mapping[str, int], *, now_ms: int) -> None: ...

    def set_capacity(self, capacity: int | None, *, now_ms: int) -> None: ...

    def set_lane_limits(
        self, lane: str, *, parallelism: int | None, share_percent: int | None = None, now_ms: int
    ) -> None: ...

    def pause_lane(self, lane: str, *, now_ms: int) -> None: ...

    def resume_lane(self, lane: str, *, now_ms: int) -> None: ...

    def pool(self) -> Pool: ...

    def tenants(self, tenant_ids: Sequence[str] | None = None) -> list[TenantState]: ...

    def user_caps(self) -> dict[tuple[str, str], int]: ...

    def running_ids(self) -> set[str]: ...

    def waiting_ids(self, cursor: int, limit: int) -> tuple[list[str], int]: ...

    def waiting_by_track(self) -> dict[Track, int]: ...

    def rebuild(self, snapshot: Snapshot, *, now_ms: int) -> str: ...


class QueueAway(Unavailable):
    """The queue was lost again while it was rebuilt. SQS delivers the message again."""

    code = "SCHED_503_DISPATCH_BACKLOG"


@dataclass(frozen=True)
class Corrections:
    """What a comparison corrected in Redis. All zero is a healthy pool."""

    returned: int = 0
    requeued: int = 0
    removed: int = 0
    freed: int = 0
    adopted: int = 0


class Dispatcher:
    """The scheduler of all pools. Several may work at once: the guards of the database keep them apart."""

    def __init__(
        self,
        nodes: Nodes,
        store: SchedulingStore,
        queue_of: Callable[[str], Queue],
        clock: Clock,
        *,
        unqueued: Mapping[str, Callable[[], int]] | None = None,
        crash_point: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`unqueued` are pools without a fair queue, each with a function that starts the nodes that may run."""
        self._unqueued = unqueued or {}
        self._nodes, self._store, self._queue_of, self._clock = nodes, store, queue_of, clock
        self._crash_point = crash_point
        self._attached: set[str] = set()
        self._refreshed_ms: dict[str, int] = {}
        # The own caps of users that this process has set in the queue of each pool.
        self._caps_set: dict[str, dict[tuple[str, str], int | None]] = defaultdict(dict)
        # Where the next comparison of waiting nodes begins, in the database and in Redis.
        self._stored_place: dict[str, Place | None] = {}
        self._queue_cursor: dict[str, int] = {}

    def ready(self, node_ids: Sequence[UUID], tokens: Mapping[UUID, str] | None = None) -> int:
        """Keep the tokens, enqueue the nodes that may run. Returns how many nodes, of any tenant, were dispatched."""
        ready = self._nodes.mark_ready(node_ids, tokens)
        self._crash_point("nodes ready")
        by_pool: dict[str, list[ReadyNode]] = defaultdict(list)
        for node in ready:
            by_pool[node.pool].append(node)
        return sum(self._admit(pool, nodes) for pool, nodes in by_pool.items())

    def release(self, nodes: Sequence[ReleasedSlot], ready: Sequence[ReadyNode] = ()) -> int:
        """Nodes ended or were cancelled, and others became ready by it: the next ones get the free slots, and tenants
        are charged what was measured."""
        freed: dict[str, list[ReleasedSlot]] = defaultdict(list)
        for node in nodes:
            freed[node.pool].append(node)
        enqueued: dict[str, list[ReadyNode]] = defaultdict(list)
        for one in ready:
            enqueued[one.pool].append(one)
        sent = 0
        for pool, slots in freed.items():
            sent += self._free(pool, slots, dispatch=0 if pool in enqueued else BATCH)
        for pool, ready_nodes in enqueued.items():
            try:
                sent += self._admit(pool, ready_nodes)
            except Unavailable as error:
                # A sweep enqueues them later; other nodes get the slots now.
                logger.warning("ready nodes not enqueued", pool=pool, reason=error.code)
                sent += self.dispatch(pool)
        return sent

    def dispatch(self, pool: str) -> int:
        """Give every free slot to the node whose turn it is."""
        self.refresh(pool)
        return self._send_all(pool, self._take(pool))

    def refresh(self, pool: str, *, is_forced: bool = False) -> None:
        """Mirror slots and limits, at most every two seconds: workers come and go, operators and owners set limits."""
        now_ms = self._now_ms()
        if not is_forced and now_ms - self._refreshed_ms.get(pool, -REFRESH_MS) < REFRESH_MS:
            return
        wanted, changed = self._store.pool(pool), self._store.changed_limits()

        def mirror(queue: Queue) -> None:
            self._mirror(queue, wanted)
            self._mirror_changed(pool, queue, changed)

        self._on(pool, mirror)
        self._refreshed_ms[pool] = now_ms

    def rebuild(self, pool: str) -> None:
        """Fill the queue from the database. Of two rebuilds at once the later one wins; the other raises QueueAway."""
        try:
            self._queue_of(pool).rebuild(self._store.snapshot(pool), now_ms=self._now_ms())
        except StaleEpoch as error:
            raise QueueAway("another process rebuilds the queue", retry_after_s=RETRY_AFTER_S) from error
        logger.warning("fair queue rebuilt", pool=pool)
        metrics.emit("FairQueueRebuilds", 1, pool=pool)

    def reconcile(self, pool: str) -> Corrections:
        """Compare Redis with the database, correct Redis, and dispatch. The work of one pass is bounded.

        A replica that was promoted lacks the last changes of its primary: this adds and removes what differs.
        """
        if pool in self._unqueued:
            self._unqueued[pool]()
            return Corrections()
        self.refresh(pool, is_forced=True)
        self._compare_limits(pool)
        returned = len(self._on(pool, lambda queue: queue.reclaim(now_ms=self._now_ms())))
        freed, adopted = self._compare_slots(pool)
        removed, requeued = self._compare_waiting(pool)
        corrections = Corrections(returned, requeued, removed, freed, adopted)
        for name, count in vars(corrections).items():
            metrics.emit("FairQueueCorrections", count, pool=pool, kind=name)
        self.dispatch(pool)
        return corrections

    # --- steps

    def _admit(self, pool: str, nodes: Sequence[ReadyNode]) -> int:
        if pool in self._unqueued:
            return self._unqueued[pool]()
        self.refresh(pool)
        tenants = {node.tenant_id: node for node in nodes}
        policies = [TenantPolicy(name, node.weight, node.cap, node.user_cap) for name, node in tenants.items()]
        own_caps = {(node.tenant_id, node.user_id): node.own_cap for node in nodes}
        ready = [_queued(node) for node in nodes]

        def admit(queue: Queue) -> Admitted:
            self._set_user_caps(pool, queue, own_caps, policies)
            return queue.admit(ready, now_ms=self._now_ms(), policies=policies, dispatch=BATCH)

        return self._send_all(pool, self._on(pool, admit).dispatched)

    def _free(self, pool: str, released: Sequence[ReleasedSlot], *, dispatch: int) -> int:
        if pool in self._unqueued:
            return self._unqueued[pool]() if dispatch else 0
        try:
            self.refresh(pool)
        except Unavailable as error:
            # A Redis at its memory limit refuses new limits and still takes ends, which make room.
            logger.warning("limits not mirrored", pool=pool, reason=error.code)
        ends = [Completion(str(node.node_id), node.gpu_us) for node in released]
        settled = self._on(pool, lambda queue: queue.complete(ends, now_ms=self._now_ms(), dispatch=dispatch))
        self._crash_point("nodes freed")
        waited = [end.node_id for end, verdict in zip(ends, settled.ended, strict=True) if verdict is not Ended.ENDED]
        if waited:
            self._on(pool, lambda queue: queue.cancel(waited, now_ms=self._now_ms()))
        return self._send_all(pool, settled.dispatched)

    def _take(self, pool: str) -> Sequence[Dispatched]:
        return self._on(pool, lambda queue: queue.dispatch(BATCH, now_ms=self._now_ms()))

    def _send_all(self, pool: str, chosen: Sequence[Dispatched]) -> int:
        """Send the chosen nodes, and those that may go after them."""
        sent = 0
        while chosen:
            self._crash_point("nodes taken")
            begun, chosen = self._send(pool, chosen)
            sent += begun
        return sent

    def _send(self, pool: str, chosen: Sequence[Dispatched]) -> tuple[int, Sequence[Dispatched]]:
        """Dispatch in the database and confirm. A node that the database refuses holds its slot already, or is over.

        Returns how many began, and the nodes to send next: after a full batch, or where a refused node made room.
        """
        taken = [(one.node.node_id, one.charged_us, one.tag_us) for one in chosen]
        sent = self._nodes.dispatch(taken)
        self._crash_point("nodes dispatched")
        refused = {node_id for node_id, _, _ in taken}.difference(sent)
        over = refused - self._store.holding(refused) if refused else refused
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
        # A type without a worker is set to no slots, because `set_slots` keeps the types that are left out.
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
        for model in {**known.models, **wanted.models}:
            limit = wanted.models.get(model)
            if limit != known.models.get(model):
                queue.set_model_limit(model, limit, now_ms=now_ms)
        for step in {**known.steps, **wanted.steps}:
            limit = wanted.steps.get(step)
            if limit != known.steps.get(step):
                queue.set_step_limit(step, limit, now_ms=now_ms)

    def _mirror_changed(self, pool: str, queue: Queue, changed: ChangedLimits) -> None:
        """Apply limits of tenants and users that were set lately, for tenants that the queue knows. To another tenant
        they come with its next ready node."""
        tenant_ids = {policy.tenant_id for policy in changed.tenants} | {tenant for tenant, _ in changed.user_caps}
        if not tenant_ids:
            return
        known = {state.policy.tenant_id: state.policy for state in queue.tenants(sorted(tenant_ids))}
        policies = [one for one in changed.tenants if known.get(one.tenant_id, one) != one]
        if policies:
            queue.set_tenants(policies, now_ms=self._now_ms())
        caps = {who: cap for who, cap in changed.user_caps.items() if who[0] in known}
        self._set_user_caps(pool, queue, caps)

    def _set_user_caps(self, pool: str, queue: Queue, caps: UserCaps, policies: Sequence[TenantPolicy] = ()) -> None:
        """Set the own caps that this process has not set yet. The queue must know the tenants, or get them here."""
        is_set = self._caps_set[pool]
        changed = {who: cap for who, cap in caps.items() if is_set.get(who) != cap}
        if not changed:
            return
        if policies:
            queue.set_tenants(policies, now_ms=self._now_ms())
        if len(is_set) > MEMO_LIMIT:
            is_set.clear()
        for (tenant_id, user_id), cap in changed.items():
            queue.set_user_cap(tenant_id, user_id, cap, now_ms=self._now_ms())
            is_set[tenant_id, user_id] = cap

    def _compare_limits(self, pool: str) -> None:
        states = self._on(pool, lambda queue: queue.tenants())
        known = {state.policy.tenant_id: state.policy for state in states}
        policies = [policy for policy in self._store.policies(known) if policy != known[policy.tenant_id]]
        wanted = self._store.user_caps(known)

        def correct(queue: Queue) -> None:
            if policies:
                queue.set_tenants(policies, now_ms=self._now_ms())
            caps = queue.user_caps()
            for who in sorted({**caps, **wanted}):
                if caps.get(who) != wanted.get(who):
                    queue.set_user_cap(*who, wanted.get(who), now_ms=self._now_ms())

        self._on(pool, correct)
        self._caps_set[pool].clear()

    def _compare_waiting(self, pool: str) -> tuple[int, int]:
        """Cancel nodes that wait only in Redis, enqueue those that wait only in the database: a page of each."""
        mirrored = self._on(pool, lambda queue: sum(queue.waiting_by_track().values()))
        limit = COMPARE_FEW if mirrored == self._store.count_waiting(pool) else COMPARE_MANY
        cursor = self._queue_cursor.get(pool, 0)
        listed, self._queue_cursor[pool] = self._on(pool, lambda queue: queue.waiting_ids(cursor, limit))
        surplus = sorted(set(listed) - self._store.waiting_among(pool, listed))
        # A node that was dispatched since the list was read is running, and stays.
        verdicts = self._on(pool, lambda queue: queue.cancel(surplus, now_ms=self._now_ms())) if surplus else []
        place = self._stored_place.get(pool)
        nodes, self._stored_place[pool] = self._store.waiting_page(pool, after=place, limit=limit)
        return sum(verdict is Cancelled.CANCELLED for verdict in verdicts), self._enqueue(pool, nodes)

    def _enqueue(self, pool: str, nodes: Sequence[Node]) -> int:
        if not nodes:
            return 0
        tenant_ids = {node.tenant_id for node in nodes}
        policies, caps = self._store.policies(tenant_ids), self._store.user_caps(tenant_ids)

        def enqueue(queue: Queue) -> Admitted:
            self._set_user_caps(pool, queue, caps, policies)
            return queue.admit(nodes, now_ms=self._now_ms(), policies=policies)

        return sum(verdict is Enqueued.QUEUED for verdict in self._on(pool, enqueue).enqueued)

    def _compare_slots(self, pool: str) -> tuple[int, int]:
        """Read Redis, the database, Redis: a node that changed meanwhile is left to the next pass."""
        before = self._on(pool, lambda queue: queue.running_ids())
        held = {running.node.node_id: running for running in self._store.running(pool)}
        after = self._on(pool, lambda queue: queue.running_ids())
        surplus = sorted((before & after) - held.keys())[:SLOTS_LIMIT]
        missing = sorted(held.keys() - before - after)[:SLOTS_LIMIT]
        if surplus:
            ends = [Completion(node_id) for node_id in surplus]
            self._on(pool, lambda queue: queue.complete(ends, now_ms=self._now_ms()))
        if missing:
            self._adopt(pool, [held[node_id] for node_id in missing])
        return len(surplus), len(missing)

    def _adopt(self, pool: str, running: Sequence[Running]) -> None:
        policies = self._store.policies({one.node.tenant_id for one in running})

        def adopt(queue: Queue) -> None:
            queue.set_tenants(policies, now_ms=self._now_ms())
            queue.cancel([one.node.node_id for one in running], now_ms=self._now_ms())  # it may wait in Redis
            queue.adopt(running, now_ms=self._now_ms())

        self._on(pool, adopt)

    def _on(self, pool: str, act: Callable[[Queue], T]) -> T:
        """Act on the pool's queue. Attach first where another process rebuilt it; rebuild it where Redis lost it."""
        queue = self._queue_of(pool)
        for is_last_try in (False, True):
            if pool not in self._attached:
                if not queue.attach():
                    self.rebuild(pool)
                self._attached.add(pool)
                self._caps_set[pool].clear()
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
def _track(node_type: str, lane: str, model: str, step: str) -> Track:
    return Track(node_type, lane, model, step)


def _queued(node: ReadyNode) -> Node:
    return Node(
        node_id=node.node_id,
        tenant_id=node.tenant_id,
        user_id=node.user_id,
        track=_track(node.type, node.lane, node.model, node.step),
        cost_us=node.cost_us,
        priority=Priority(node.priority),
    )
