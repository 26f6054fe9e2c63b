"""Forecasts: when a node will start, from the counts of a pool, and what another policy would have changed.

A pool's forecast is computed once (`fluid.py`) and is plain JSON, so that processes can share it (`forecasts.py`). A
node's start is looked up in it. What-if runs the scheduler itself.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from artiway.scheduling.fluid import INFINITE, Flow, Fluid, Limit
from artiway.scheduling.model import (
    COUNT_LIMIT,
    Arrival,
    Backlog,
    Completion,
    Pool,
    Running,
    Snapshot,
    TenantBacklog,
    TenantPolicy,
    Track,
    WaitingFor,
    Waits,
)
from artiway.scheduling.oracle import Oracle

# What full slots got done lately counts as much as the durations of their nodes (geometric mean): actual / promised was
# 0.70 to 2.35 in chaos runs, and 0.49 where it alone counted.
SEEN_WEIGHT = 0.5
_EVERYTHING = 1_000_000
_ROUNDING = 8  # microseconds, beyond which virtual times differ


@dataclass(frozen=True, slots=True)
class Expected:
    """About `position` nodes of the pool start before this one; it starts about `start_us` from now."""

    position: int
    start_us: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Nodes of a type that wanted a slot at once, on average over a window, and the cost of those that completed."""

    nodes: float
    completed_us: float
    window_us: float


@dataclass(frozen=True, slots=True)
class Speed:
    """How long a slot is taken for each microsecond of cost, by node type.

    `prefetch` nodes of each type are dispatched beyond the slots, and wait at the worker. `demand` corrects the speed
    where slots are lost: a dead worker holds its slots until its leases end.
    """

    by_type: Mapping[str, float] = field(default_factory=dict)
    prefetch: int = 0
    demand: Mapping[str, Demand] = field(default_factory=dict)

    def scale(self, node_type: str) -> float:
        return self.by_type.get(node_type, 1.0)

    def slots(self, announced: int) -> int:
        """Nodes that run at once where so many may be dispatched."""
        return max(1, announced - self.prefetch)

    def scale_with(self, node_type: str, announced: int) -> float:
        """Slots that were full and got less done were slower than their nodes. They recover while a node waits, so the
        expected speed lies between the two."""
        scale, demand, slots = self.scale(node_type), self.demand.get(node_type), self.slots(announced)
        if demand is None or demand.nodes < slots or demand.completed_us == 0:
            return scale
        seen = max(scale, slots * demand.window_us / demand.completed_us)
        return float(scale ** (1 - SEEN_WEIGHT) * seen**SEEN_WEIGHT)


@dataclass(frozen=True, slots=True)
class Computed:
    """A pool's forecast as JSON: tables of the pool, and a row for each tenant that has work."""

    tables: dict[str, Any]
    rows: dict[str, Any]


def compute(backlog: Backlog, speed: Speed) -> Computed:
    """The forecast of a pool. The time depends on the number of tenants and tracks that have work."""
    announced = {kind: slots for kind, slots in backlog.pool.slots.items() if slots}
    speed = replace(speed, by_type={kind: speed.scale_with(kind, slots) for kind, slots in announced.items()})
    limits, stopped = _limits(backlog, speed), sorted(backlog.pool.steps)
    tracks = {track for tenant in backlog.tenants.values() for track, work in tenant.tracks.items() if work.waiting}
    served = sorted((track for track in tracks if _blocked_by(limits, stopped, track) is None), key=str)
    index = {track: place for place, track in enumerate(served)}
    flows = {tenant_id: _flows(tenant, backlog.clock_us, index) for tenant_id, tenant in backlog.tenants.items()}
    shared = [
        Limit(row["slots"], members)
        for kind, rows in limits.items()
        for name, row in rows.items()
        if row["slots"] < COUNT_LIMIT and (members := tuple(index[t] for t in served if _key(kind, t) == name))
    ]
    scales = [speed.scale(track.node_type) for track in served]
    fluid = Fluid(scales, shared, [flow for own in flows.values() for flow in own.values() if flow.ratio > 0])
    courses = fluid.run()
    tables = {
        "limits": limits,
        "stopped": stopped,
        "scales": dict(speed.by_type),
        "times": [round(at) for at in fluid.times],
        "positions": [round(position, 1) for position in fluid.positions],
        "tracks": {
            str(track): {"virtual": [round(v) for v in course.virtual], "early": [round(us) for us in course.early]}
            for track, course in zip(served, courses, strict=True)
        },
    }
    return Computed(tables, {tenant_id: _row(own) for tenant_id, own in flows.items() if own})


def _row(flows: Mapping[Track, Flow]) -> dict[str, Any]:
    """By track: count and cost of the nodes, cap by weight, and the parts of their course in whole microseconds."""
    return {
        str(track): [
            flow.count,
            flow.cost,
            min(flow.ratio, COUNT_LIMIT),
            [[round(d), round(t), round(v), round(w, 6), int(is_capped)] for d, t, v, w, is_capped in flow.parts],
        ]
        for track, flow in flows.items()
    }


class Forecast:
    """Reads what `compute` returned, for one tenant. Each question is a few binary searches."""

    def __init__(self, tables: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        self._data, self._row = tables, row
        self._times: Sequence[float] = tables["times"]

    def blocked_by(self, track: Track) -> WaitingFor | None:
        """The reason why no node of the track will start, if there is one."""
        # A forecast that the release before has stored knows no stopped steps.
        return _blocked_by(self._data["limits"], self._data.get("stopped", ()), track)

    def limits(self, track: Track) -> dict[str, int]:
        """The slots that a node of the track shares with others: of its type, lane, model and pool."""
        limits = self._data["limits"]
        names = {kind: _key(kind, track) for kind in limits}
        return {f"{kind} {name}": limits[kind][name]["slots"] for kind, name in names.items() if name in limits[kind]}

    def node_us(self, track: Track, cost_us: int) -> float:
        """How long a node takes a slot."""
        return cost_us * self._scale(track)

    def start(self, track: Track, rank: int) -> Expected | None:
        """The start of a node with `rank` nodes of its tenant and track before it. None if it will not start."""
        flow = self._flow(track)
        if self.blocked_by(track) is not None:
            return None
        if flow is None:  # it arrived after the forecast was made
            return self.arrival(track, cost_us=1, weight=1)
        _, cost, ratio, parts = flow
        if not parts:
            return None
        work = (rank + 1) * cost
        done, since, virtual, weight, is_capped = parts[max(0, bisect_left(parts, [work]) - 1)]
        if is_capped:
            node_us = cost * self._scale(track) / (weight * ratio)
            return self._expected(track, since + (work - done) / cost * node_us, node_us)
        return self._turn(track, virtual + (work - done) / weight)

    def arrival(
        self,
        track: Track,
        *,
        cost_us: float,
        weight: int,
        after_us: float = 0,
        is_first: bool = False,
    ) -> Expected | None:
        """The start of a node that becomes ready `after_us` from now, behind its tenant's waiting nodes.

        With `is_first` it goes before them: counts do not have their priorities, and few are HIGH.
        """
        if self.blocked_by(track) is not None:
            return None
        virtual = 0.0
        if str(track) in self._data["tracks"]:
            virtual = _between(self._times, self._data["tracks"][str(track)]["virtual"], after_us)
        found = self._turn(track, virtual + cost_us / weight)
        flow = self._flow(track)
        if flow is not None and not flow[3]:
            return None
        if flow is not None and not is_first:
            last = self.start(track, flow[0])
            if last is None:
                return None
            found = max(found, last, key=lambda one: one.start_us)
        return Expected(found.position, max(round(after_us), found.start_us))

    def _turn(self, track: Track, virtual: float) -> Expected:
        """The start of a node whose tag is `virtual` after the present clock."""
        course = self._data["tracks"].get(str(track))
        if course is None:  # no node waits there
            return self._expected(track, 0, 0)
        # A drained track stands still: it was there when its virtual time was first reached.
        at = _between(course["virtual"], self._times, virtual - _ROUNDING)
        return self._expected(track, at, course["early"][max(0, bisect_left(self._times, at) - 1)])

    def _expected(self, track: Track, at: float, early: float) -> Expected:
        position = _between(self._times, self._data["positions"], at) - 0.5 if self._times else 0.0
        busy_us = max(
            (row["running"] - row["slots"]) * row["nodeUs"] / row["slots"] + row["nodeUs"] / (row["slots"] + 1)
            for row in _rows(self._data["limits"], track)
        )
        return Expected(max(0, round(position)), max(0, round(at - early + busy_us)))

    def _flow(self, track: Track) -> Sequence[Any] | None:
        found: Sequence[Any] | None = self._row.get(str(track))
        return found

    def _scale(self, track: Track) -> float:
        return float(self._data["scales"].get(track.node_type, 1.0))


def _limits(backlog: Backlog, speed: Speed) -> dict[str, dict[str, Any]]:
    """Slots, running nodes and the mean time of a node for each type, lane and model, and for the pool."""
    pool = backlog.pool
    kinds = {kind: slots for kind, slots in pool.slots.items() if slots}
    capacity = None if pool.capacity is None else pool.capacity - speed.prefetch * len(kinds)
    limits: dict[str, dict[str, Any]] = {
        "type": {kind: speed.slots(slots) for kind, slots in kinds.items()},
        "lane": {name: 0 if lane.is_paused else lane.limit(pool.total_slots()) for name, lane in pool.lanes.items()},
        "model": dict(pool.models),
        "pool": {"": COUNT_LIMIT if capacity is None else max(min(1, pool.capacity or 0), capacity)},
    }
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0, 0])
    for tenant in backlog.tenants.values():
        for track, work in tenant.tracks.items():
            us = (work.waiting_us + work.running_us) * speed.scale(track.node_type)
            for kind in limits:
                total = sums[kind, _key(kind, track)]
                total[0] += work.running
                total[1] += work.waiting + work.running
                total[2] += us
    return {
        kind: {
            name: {
                "slots": slots,
                "running": sums[kind, name][0],
                "nodeUs": round(sums[kind, name][2] / (sums[kind, name][1] or 1)),
            }
            for name, slots in rows.items()
        }
        for kind, rows in limits.items()
    }


def _key(kind: str, track: Track) -> str:
    return {"type": track.node_type, "lane": track.lane, "model": track.model, "pool": ""}[kind]


def _rows(limits: Mapping[str, Any], track: Track) -> list[Mapping[str, Any]]:
    """The limits of a track. A lane or model without one is left out."""
    found = (limits[kind].get(_key(kind, track)) for kind in ("type", "lane", "model", "pool"))
    return [row for row in found if row is not None]


def _blocked_by(limits: Mapping[str, Any], stopped: Sequence[str], track: Track) -> WaitingFor | None:
    """A step whose circuit is open, or probed, has no expected start."""
    if limits["lane"].get(track.lane, {"slots": 1})["slots"] == 0:
        return WaitingFor.LANE_PAUSED
    if limits["type"].get(track.node_type, {"slots": 0})["slots"] == 0 or limits["pool"][""]["slots"] == 0:
        return WaitingFor.NO_WORKER
    if track.step in stopped:
        return WaitingFor.CIRCUIT_OPEN
    if limits["model"].get(track.model, {"slots": 1})["slots"] == 0:
        return WaitingFor.MODEL_CAP
    return None


def _flows(tenant: TenantBacklog, clock_us: int, index: Mapping[Track, int]) -> dict[Track, Flow]:
    """A tenant's flows, which share its weight. Below its cap a turn is one node of each track, at its cap nodes go in
    order of arrival: then the tracks drain together."""
    policy = tenant.policy
    works = {track: work for track, work in tenant.tracks.items() if work.waiting and track in index}
    is_at_cap = policy.cap is not None and tenant.running >= policy.cap
    shares = {t: float(work.waiting_us if is_at_cap else work.waiting_us / work.waiting) for t, work in works.items()}
    ratio = INFINITE if policy.cap is None else policy.cap / policy.weight
    found = {}
    for track, work in works.items():
        cost = max(1.0, work.waiting_us / work.waiting)
        turn = cost / policy.weight
        enters_at = 0.0 if work.head_tag_us is None else max(-turn, work.head_tag_us - clock_us - turn)
        weight = policy.weight * shares[track] / sum(shares.values())
        found[track] = Flow(index[track], work.waiting, cost, weight, shares[track], ratio, enters_at)
    for flow in found.values():
        flow.siblings = list(found.values())
    return found


def _between(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """The value where `place` is first reached, on the straight line from the one before; at the ends the outermost."""
    after = bisect_left(places, place)
    if after == 0 or after == len(places):
        return float(values[min(after, len(values) - 1)])
    low, high = places[after - 1], places[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (place - low) / (high - low)


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
    pool = replace(snapshot.pool, steps={})  # an open circuit says nothing about the policies
    oracle = _oracle(replace(snapshot, pool=pool, running=[], waiting=[], clock_us=0, last_us={}, costs={}))
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
