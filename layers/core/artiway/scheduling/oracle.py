"""The fair queue in plain Python: slow, short and obvious. The tests hold the Lua to it; forecasts run it forward.

A node that becomes its tenant's head on a track is tagged max(clock, last) + cost/weight, and the smallest tag whose
track is open goes first. Each rule that is not in that sentence is a comment below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from artiway.scheduling.model import (
    PRIORITY_RANK,
    SAMPLES_BEFORE_AVERAGE,
    Cancelled,
    Completion,
    Dispatched,
    Ended,
    Enqueued,
    Lane,
    Node,
    Pool,
    Running,
    Snapshot,
    TenantPolicy,
    Track,
    UnknownTenant,
    WaitingFor,
    charge_us,
)


class Waiting(NamedTuple):
    """Sorts in the order in which a user's nodes go: by priority, then by arrival."""

    rank: int
    seq: int
    node: Node


class UserHead(NamedTuple):
    """The first node of a user on a track. It sorts in the order in which a tenant's users take turns."""

    rank: int
    tag: int
    seq: int
    node: Node


class Head(NamedTuple):
    """A tenant's first node on a track; `tag` is on the track's own clock, `turn` counts the heads that were tagged."""

    tag: int
    turn: int
    cost: int
    node: Node


@dataclass
class Tenant:
    policy: TenantPolicy
    last: int = 0
    credit: int = 0
    dearest: int = 0
    is_capped: bool = False
    heads: dict[Track, Head] = field(default_factory=dict)


@dataclass
class Users:
    """The users of one tenant that could go on one track. When the last has left, their clock starts at 0 again."""

    clock: int = 0
    heads: dict[str, UserHead] = field(default_factory=dict)


class Oracle:
    def __init__(self, lease_ms: int = 30_000) -> None:
        self.lease_ms = lease_ms
        self.clock = self.seq = self.turn = 0
        self.pool = Pool()
        self.tenants: dict[str, Tenant] = {}
        self.user_caps: dict[tuple[str, str], int] = {}
        self.lag: dict[Track, int] = {}  # also the list of tracks, in the order in which they were first seen
        self.users: dict[tuple[str, Track], Users] = defaultdict(Users)
        self.queues: dict[tuple[str, str, Track], list[Waiting]] = defaultdict(list)
        self.waiting: dict[str, Waiting] = {}
        self.running: dict[str, tuple[Waiting, Running]] = {}
        self.costs: dict[str, tuple[int, int]] = {}

    # What the caller does

    def load(self, snapshot: Snapshot) -> None:
        """Take over a whole state. Tenants come in at the clock, as from a cap, not a node behind it."""
        self.pool = Pool(
            dict(snapshot.pool.slots),
            dict(snapshot.pool.lanes),
            dict(snapshot.pool.models),
            snapshot.pool.capacity,
            dict(snapshot.pool.steps),
        )
        self.clock, self.costs, self.user_caps = snapshot.clock_us, dict(snapshot.costs), dict(snapshot.user_caps)
        for policy in snapshot.tenants:
            self.set_tenant(policy)
            self.tenants[policy.tenant_id].last = snapshot.last_us.get(policy.tenant_id, 0)
        self.adopt(snapshot.running)
        self.enqueue(snapshot.waiting, is_load=True)

    def enqueue(self, nodes: Iterable[Node], *, is_load: bool = False) -> list[Enqueued]:
        nodes = list(nodes)
        if missing := sorted({n.tenant_id for n in nodes} - self.tenants.keys()):
            raise UnknownTenant(missing)
        verdicts = []
        for node in nodes:
            is_new = node.node_id not in self.waiting and node.node_id not in self.running
            verdicts.append(Enqueued.QUEUED if is_new else Enqueued.DUPLICATE)
            if is_new:
                self.seq += 1
                self._put(_waiting(self.seq, node), is_load=is_load)
        return verdicts

    def dispatch(self, limit: int, *, now_ms: int = 0) -> list[Dispatched]:
        chosen: list[Dispatched] = []
        while len(chosen) < limit and (one := self._dispatch_one(now_ms)):
            chosen.append(one)
        return chosen

    def complete(self, completions: Iterable[Completion]) -> list[Ended]:
        verdicts = []
        for completion in completions:
            if entry := self.running.get(completion.node_id):
                self._release(entry, completion.measured_us)
                if completion.measured_us is not None:
                    self._learn(entry[1].node.track.node_type, completion.measured_us)
            verdicts.append(Ended.ENDED if entry else Ended.NOT_RUNNING)
        return verdicts

    def cancel(self, node_ids: Iterable[str]) -> list[Cancelled]:
        verdicts = []
        for node_id in node_ids:
            if waiting := self.waiting.pop(node_id, None):
                node = waiting.node
                self.queues[node.tenant_id, node.user_id, node.track].remove(waiting)
                self._refresh(node.tenant_id, node.user_id, node.track)
                verdicts.append(Cancelled.CANCELLED)
            else:
                verdicts.append(Cancelled.RUNNING if node_id in self.running else Cancelled.UNKNOWN)
        return verdicts

    def confirm(self, node_ids: Iterable[str]) -> None:
        for node_id in node_ids:
            if entry := self.running.get(node_id):
                self.running[node_id] = (entry[0], replace(entry[1], lease_ms=None))

    def reclaim(self, *, now_ms: int, limit: int = 100) -> list[str]:
        """Nodes that were popped and never confirmed go back to their old place, and their charge is returned."""
        overdue = sorted(
            (run.lease_ms, waiting.seq, node_id)
            for node_id, (waiting, run) in self.running.items()
            if run.lease_ms is not None and run.lease_ms <= now_ms
        )[:limit]
        for *_, node_id in overdue:
            entry = self.running[node_id]
            self._release(entry, 0)
            self._put(entry[0])
        return [node_id for *_, node_id in overdue]

    def adopt(self, nodes: Iterable[Running]) -> None:
        for run in nodes:
            if run.node.node_id not in self.running and run.node.node_id not in self.waiting:
                self.seq += 1
                self.lag.setdefault(run.node.track, 0)
                self.running[run.node.node_id] = (_waiting(self.seq, run.node), run)
                self._cap(run.node.tenant_id, run.node.user_id)

    def set_tenant(self, policy: TenantPolicy) -> None:
        """A new weight acts on the heads that wait, a new cap at once."""
        tenant = self.tenants.setdefault(policy.tenant_id, Tenant(policy))
        for track, head in tenant.heads.items():
            change = charge_us(head.cost, policy.weight) - charge_us(head.cost, tenant.policy.weight)
            tenant.heads[track] = head._replace(tag=head.tag + change)
            tenant.last += change
        tenant.policy = policy
        firsts = sorted((q[0].seq, u) for (owner, u, _), q in self.queues.items() if owner == policy.tenant_id and q)
        users = dict.fromkeys(user for _, user in firsts)
        self._cap(policy.tenant_id, None)
        for user in users:
            self._refresh_all(policy.tenant_id, user)
        self._uncap(policy.tenant_id)

    def set_user_cap(self, tenant_id: str, user_id: str, cap: int | None) -> None:
        self.user_caps.pop((tenant_id, user_id), None)
        if cap is not None:
            self.user_caps[tenant_id, user_id] = cap
        self._refresh_all(tenant_id, user_id)

    def set_lane(self, lane: Lane) -> None:
        self.pool.lanes[lane.name] = lane

    # What follows from it

    def blocked_by(self, track: Track) -> WaitingFor | None:
        running: dict[Track, int] = defaultdict(int)
        for _, run in self.running.values():
            running[run.node.track] += 1
        return self.pool.blocked_by(track, running)

    def heads(self) -> list[tuple[int, int, str, Track]]:
        """Heads that could go now, in the order in which they would."""
        is_open = {track: self.blocked_by(track) is None for track in self.lag}
        return sorted(
            (head.tag + self.lag[track], head.turn, tenant_id, track)
            for tenant_id, tenant in self.tenants.items()
            for track, head in tenant.heads.items()
            if is_open[track]
        )

    def _dispatch_one(self, now_ms: int) -> Dispatched | None:
        heads = self.heads()
        if not heads:
            return None
        tag, _, tenant_id, track = heads[0]
        # While a track is blocked its time stands still: its tags move along with the clock. Without this, tenants
        # who wait for a scarce type would either take everything once it is free, or never catch up.
        step = max(0, tag - self.clock)
        for blocked in [t for t in self.lag if self.blocked_by(t) is not None]:
            self.lag[blocked] += step
        self.clock += step

        tenant, users = self.tenants[tenant_id], self.users[tenant_id, track]
        head = tenant.heads.pop(track)
        user_id = head.node.user_id
        waiting = self.queues[tenant_id, user_id, track].pop(0)
        tenant.last = max(tenant.last, tag)
        tenant.dearest = max(tenant.dearest, head.cost)
        users.clock = max(users.clock, users.heads.pop(user_id).tag)
        del self.waiting[waiting.node.node_id]
        run = Running(waiting.node, head.cost, now_ms + self.lease_ms)
        self.running[waiting.node.node_id] = (waiting, run)
        self._cap(tenant_id, user_id)
        self._refresh(tenant_id, user_id, track, is_continuing=True)
        return Dispatched(waiting.node, head.cost, tag)

    def _put(self, waiting: Waiting, *, is_load: bool = False) -> None:
        node = waiting.node
        self.lag.setdefault(node.track, 0)
        self.waiting[node.node_id] = waiting
        queue = self.queues[node.tenant_id, node.user_id, node.track]
        queue.append(waiting)
        queue.sort()
        self._refresh(node.tenant_id, node.user_id, node.track, is_load=is_load)

    def _release(self, entry: tuple[Waiting, Running], measured_us: int | None) -> None:
        """Free the slot and correct the tenant's clock by what the node really cost (R-WFQ-4)."""
        node, charged = entry[1].node, entry[1].charged_us
        del self.running[node.node_id]
        tenant = self.tenants[node.tenant_id]
        correction = (charged if measured_us is None else measured_us) - charged
        if correction > 0:
            tenant.last += correction // tenant.policy.weight
        else:
            tenant.credit -= correction // tenant.policy.weight
        self._refresh_all(node.tenant_id, node.user_id)
        self._uncap(node.tenant_id)

    def _learn(self, node_type: str, measured_us: int) -> None:
        count, average = self.costs.get(node_type, (0, 0))
        count = min(count + 1, SAMPLES_BEFORE_AVERAGE)
        self.costs[node_type] = (count, average + (measured_us - average) // count)

    def expected_cost_us(self, node: Node) -> int:
        count, average = self.costs.get(node.track.node_type, (0, 0))
        return max(1, average) if count >= SAMPLES_BEFORE_AVERAGE else node.cost_us

    def _count(self, belongs: Callable[[Node], bool]) -> int:
        return sum(belongs(run.node) for _, run in self.running.values())

    def _user_cap(self, tenant_id: str, user_id: str) -> int | None:
        return self.user_caps.get((tenant_id, user_id), self.tenants[tenant_id].policy.user_cap)

    def _is_user_capped(self, tenant_id: str, user_id: str) -> bool:
        cap = self._user_cap(tenant_id, user_id)
        return cap is not None and self._count(lambda n: (n.tenant_id, n.user_id) == (tenant_id, user_id)) >= cap

    def _is_tenant_capped(self, tenant_id: str) -> bool:
        cap = self.tenants[tenant_id].policy.cap
        return cap is not None and self._count(lambda n: n.tenant_id == tenant_id) >= cap

    def _cap(self, tenant_id: str, user_id: str | None) -> None:
        """A tenant at its cap has no heads, and so costs nothing while it waits; a user likewise."""
        tenant = self.tenants[tenant_id]
        if not tenant.is_capped and self._is_tenant_capped(tenant_id):
            tenant.is_capped = True
            tenant.last -= sum(charge_us(head.cost, tenant.policy.weight) for head in tenant.heads.values())
            tenant.heads.clear()
        if user_id is not None and self._is_user_capped(tenant_id, user_id):
            self._refresh_all(tenant_id, user_id, is_continuing=True)

    def _uncap(self, tenant_id: str) -> None:
        """Back from its cap, a tenant comes in at the clock: the cap was its wait, and it saved up nothing."""
        tenant = self.tenants[tenant_id]
        if tenant.is_capped and not self._is_tenant_capped(tenant_id):
            tenant.is_capped = False
            waiting = [(self.users[tenant_id, track].heads, track) for track in self.lag]
            firsts = [(min(heads.values()), track) for heads, track in waiting if heads]
            for first, track in sorted(firsts, key=lambda pair: (pair[0].rank, pair[0].seq)):
                self._tag(tenant, track, first, is_load=True, is_continuing=True)
            if firsts:
                # It keeps what it overpaid, but no more than one of its nodes: the rest it could not have used.
                tenant.credit = min(tenant.credit, charge_us(tenant.dearest, tenant.policy.weight))

    def _refresh_all(self, tenant_id: str, user_id: str, *, is_continuing: bool = False) -> None:
        for track in self.lag:
            if self.queues[tenant_id, user_id, track]:
                self._refresh(tenant_id, user_id, track, is_continuing=is_continuing)

    def _refresh(
        self, tenant_id: str, user_id: str, track: Track, *, is_load: bool = False, is_continuing: bool = False
    ) -> None:
        """Make the heads of a user and of its tenant agree with the queues again, after anything changed."""
        queue, users = self.queues[tenant_id, user_id, track], self.users[tenant_id, track]
        old = users.heads.get(user_id)
        if not queue or self._is_user_capped(tenant_id, user_id):
            users.heads.pop(user_id, None)
        elif old is None or old.seq != queue[0].seq:
            # Users take turns by the cost that the catalogue declares: the average of a type is the same for all.
            start = old.tag - old.node.cost_us if old else users.clock
            tag = max(users.clock, start + queue[0].node.cost_us)
            users.heads[user_id] = UserHead(queue[0].rank, tag, queue[0].seq, queue[0].node)
        if not users.heads:
            users.clock = 0
        self._refresh_tenant(tenant_id, track, is_load=is_load, is_continuing=is_continuing)

    def _refresh_tenant(self, tenant_id: str, track: Track, *, is_load: bool, is_continuing: bool) -> None:
        tenant = self.tenants[tenant_id]
        if tenant.is_capped:
            return
        weight, head = tenant.policy.weight, tenant.heads.get(track)
        first = min(self.users[tenant_id, track].heads.values(), default=None)
        if first is None:
            if head:  # never dispatched, so never charged
                tenant.last -= charge_us(tenant.heads.pop(track).cost, weight)
        elif head is None:
            self._tag(tenant, track, first, is_load=is_load, is_continuing=is_continuing)
        elif head.node != first.node:
            cost = self.expected_cost_us(first.node)
            change = charge_us(cost, weight) - charge_us(head.cost, weight)
            tenant.last += change
            tenant.heads[track] = Head(head.tag + change, head.turn, cost, first.node)

    def _tag(
        self, tenant: Tenant, track: Track, first: UserHead, *, is_load: bool, is_continuing: bool = False
    ) -> None:
        """`last` moves with the tag: a tenant with heads on several tracks queues up behind itself."""
        if not tenant.heads and not is_continuing:
            # What an idle tenant overpaid only undoes its charges: it saves up nothing below the clock.
            tenant.last, tenant.credit = max(0, tenant.last - tenant.credit), 0
        cost = self.expected_cost_us(first.node)
        charge = charge_us(cost, tenant.policy.weight)
        tag = max(self.clock - (charge if is_load else 0), tenant.last) + charge
        # Overpaid cost brings a tag forward, but not before the clock; what is left waits for the next head.
        used = min(tenant.credit, tag - self.clock)
        tenant.credit -= used
        tenant.last = tag - used
        self.turn += 1
        tenant.heads[track] = Head(tag - used - self.lag[track], self.turn, cost, first.node)


def _waiting(seq: int, node: Node) -> Waiting:
    return Waiting(PRIORITY_RANK[node.priority], seq, node)
