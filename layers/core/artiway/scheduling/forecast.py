"""Runs the real scheduler forward: when will a node start, and what would another policy have changed?"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from artiway.scheduling.model import Arrival, Completion, Node, Pool, Running, Snapshot, TenantPolicy, Waits
from artiway.scheduling.oracle import Oracle

STEP_LIMIT = 20_000
_EVERYTHING = 1_000_000


@dataclass(frozen=True, slots=True)
class Expected:
    """`position` nodes go before this one; it starts `start_us` from now."""

    position: int
    start_us: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What if: other policies for some tenants, other workers for some types."""

    tenants: Sequence[TenantPolicy] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    before: dict[str, Waits]
    after: dict[str, Waits]


def forecast(snapshot: Snapshot, node_ids: Collection[str], *, step_limit: int = STEP_LIMIT) -> dict[str, Expected]:
    """When the given nodes start if nothing else arrives. What is blocked for good, or too far away, is left out."""
    oracle = _oracle(snapshot)
    ends = [(_run_us(oracle, run.node), run.node.node_id) for run in snapshot.running]
    heapq.heapify(ends)
    wanted, expected = set(node_ids), dict[str, Expected]()
    now, position = 0, 0
    while wanted and position < step_limit:
        for chosen in oracle.dispatch(step_limit - position):
            node = chosen.node
            if node.node_id in wanted:
                wanted.discard(node.node_id)
                expected[node.node_id] = Expected(position, now)
            position += 1
            heapq.heappush(ends, (now + _run_us(oracle, node), node.node_id))
        if not ends:
            break
        now, ended = heapq.heappop(ends)
        oracle.complete([Completion(ended)])
    return expected


def simulate(snapshot: Snapshot, arrivals: Iterable[Arrival], changes: Changes) -> Comparison:
    """Replay recorded arrivals under the snapshot's policies and under changed ones. Nothing live is touched."""
    recorded = sorted(arrivals, key=lambda arrival: arrival.at_us)
    return Comparison(before=_replay(snapshot, recorded), after=_replay(_changed(snapshot, changes), recorded))


def _changed(snapshot: Snapshot, changes: Changes) -> Snapshot:
    policies = {p.tenant_id: p for p in snapshot.tenants} | {p.tenant_id: p for p in changes.tenants}
    pool = snapshot.pool
    capacity = pool.capacity if changes.capacity is None else changes.capacity
    changed = Pool({**pool.slots, **changes.slots}, dict(pool.lanes), dict(pool.models), capacity)
    return replace(snapshot, pool=changed, tenants=list(policies.values()))


def _replay(snapshot: Snapshot, arrivals: Sequence[Arrival]) -> dict[str, Waits]:
    """The policies of the snapshot, none of its nodes: the recorded arrivals are all there is."""
    oracle = _oracle(replace(snapshot, running=[], waiting=[], clock_us=0, last_us={}, costs={}))
    by_id = {arrival.node.node_id: arrival for arrival in arrivals}
    unknown = sorted({a.node.tenant_id for a in arrivals} - oracle.tenants.keys())
    for tenant_id in unknown:
        oracle.set_tenant(TenantPolicy(tenant_id))
    waits: dict[str, list[int]] = defaultdict(list)
    ends: list[tuple[int, str]] = []
    place = 0
    while place < len(arrivals) or ends:
        now = min(
            ends[0][0] if ends else arrivals[place].at_us,
            arrivals[place].at_us if place < len(arrivals) else ends[0][0],
        )
        while place < len(arrivals) and arrivals[place].at_us <= now:
            oracle.enqueue([arrivals[place].node])
            place += 1
        while ends and ends[0][0] <= now:
            ended = heapq.heappop(ends)[1]
            oracle.complete([Completion(ended, by_id[ended].runs_us)])
        for chosen in oracle.dispatch(_EVERYTHING):
            arrival = by_id[chosen.node.node_id]
            waits[chosen.node.tenant_id].append(now - arrival.at_us)
            heapq.heappush(ends, (now + arrival.runs_us, chosen.node.node_id))
    left: dict[str, int] = defaultdict(int)
    for waiting in oracle.waiting.values():
        left[waiting.node.tenant_id] += 1
    return {
        tenant_id: Waits(
            started=len(waits[tenant_id]),
            mean_us=sum(waits[tenant_id]) // len(waits[tenant_id]) if waits[tenant_id] else 0,
            worst_us=max(waits[tenant_id], default=0),
            unstarted=left[tenant_id],
        )
        for tenant_id in sorted({arrival.node.tenant_id for arrival in arrivals})
    }


def _oracle(snapshot: Snapshot) -> Oracle:
    oracle = Oracle()
    # A forecast may see a node twice or miss its tenant, since a live queue moves while it is read.
    known = {policy.tenant_id for policy in snapshot.tenants}
    waiting = [node for node in snapshot.waiting if node.tenant_id in known]
    running = [Running(run.node, run.charged_us) for run in snapshot.running if run.node.tenant_id in known]
    oracle.load(replace(snapshot, waiting=waiting, running=running))
    return oracle


def _run_us(oracle: Oracle, node: Node) -> int:
    return oracle.expected_cost_us(node)
