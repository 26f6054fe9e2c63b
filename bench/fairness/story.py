"""One story of arrivals, played on one pool of workers by four schedulers. Time is simulated, decisions are real."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import redis

from artiway.scheduling.model import Completion, Node, Pool, Snapshot, TenantPolicy, Track, microseconds
from artiway.scheduling.queue import FairQueue

WEIGHTS = {"vip": 5, "standard": 2, "free": 1}
PRIORITY = ["vip", "standard", "free"]
SLOTS = 10
NODE_S = 8
TRACK = Track("model", "shared")


@dataclass(frozen=True)
class Story:
    """The free tenant floods, then the VIP and the standard tenant arrive with work of their own."""

    flood: int = 5_000
    vip: int = 1_250
    standard: int = 500
    late_s: float = 60.0

    def ideal_vip_s(self) -> float:
        """Mean response of the VIP if its share of the slots flowed like a liquid."""
        return self.vip / 2 * NODE_S / SLOTS * sum(WEIGHTS.values()) / WEIGHTS["vip"]

    def arrivals(self) -> list[tuple[float, str]]:
        late = [(self.late_s, "vip")] * self.vip + [(self.late_s, "standard")] * self.standard
        return [(0.0, "free")] * self.flood + late


class Scheduler(Protocol):
    name: str

    def add(self, place: int, tenant: str) -> None: ...

    def take(self) -> int | None: ...

    def ended(self, place: int) -> None: ...


class Fifo:
    name = "FIFO"

    def __init__(self) -> None:
        self._queue: deque[int] = deque()

    def add(self, place: int, tenant: str) -> None:
        self._queue.append(place)

    def take(self) -> int | None:
        return self._queue.popleft() if self._queue else None

    def ended(self, place: int) -> None:
        """Nobody counts."""


class StrictPriority(Fifo):
    name = "strict priority"

    def __init__(self) -> None:
        self._queues: dict[str, deque[int]] = {tenant: deque() for tenant in PRIORITY}

    def add(self, place: int, tenant: str) -> None:
        self._queues[tenant].append(place)

    def take(self) -> int | None:
        return next((queue.popleft() for queue in self._queues.values() if queue), None)


class RoundRobin(StrictPriority):
    name = "round robin"

    def take(self) -> int | None:
        for tenant in list(self._queues):
            self._queues[tenant] = self._queues.pop(tenant)
            if self._queues[tenant]:
                return self._queues[tenant].popleft()
        return None


class Ours:
    """The Lua on a real Redis, one decision at a time."""

    name = "ours (weighted fair)"

    def __init__(self, client: redis.Redis) -> None:
        client.flushall()
        self._queue = FairQueue(client, "fairness")
        policies = [TenantPolicy(tenant, weight) for tenant, weight in WEIGHTS.items()]
        self._queue.rebuild(Snapshot(Pool(slots={TRACK.node_type: SLOTS}), policies), now_ms=0)

    def add(self, place: int, tenant: str) -> None:
        self._queue.enqueue([Node(str(place), tenant, "u", TRACK, microseconds(NODE_S))], now_ms=0)

    def take(self) -> int | None:
        chosen = self._queue.dispatch(1, now_ms=0)
        return int(chosen[0].node.node_id) if chosen else None

    def ended(self, place: int) -> None:
        self._queue.complete([Completion(str(place), microseconds(NODE_S))], now_ms=0)


@dataclass
class Outcome:
    name: str
    response_s: dict[str, float]
    worst_s: dict[str, float]
    shares: dict[str, float]
    jain: float
    longest_gap_s: dict[str, float]
    lag_nodes: float
    starts: list[tuple[float, str]] = field(repr=False, default_factory=list)


def play(scheduler: Scheduler, story: Story) -> Outcome:
    arrivals = story.arrivals()
    starts: list[tuple[float, str]] = []
    ends: list[tuple[float, int]] = []
    response: dict[str, list[float]] = defaultdict(list)
    place, now, free = 0, 0.0, SLOTS
    while place < len(arrivals) or ends:
        next_arrival = arrivals[place][0] if place < len(arrivals) else float("inf")
        now = min(next_arrival, ends[0][0] if ends else float("inf"))
        while place < len(arrivals) and arrivals[place][0] <= now:
            scheduler.add(place, arrivals[place][1])
            place += 1
        while ends and ends[0][0] <= now:
            ended = heapq.heappop(ends)[1]
            scheduler.ended(ended)
            response[arrivals[ended][1]].append(now - arrivals[ended][0])
            free += 1
        while free and (taken := scheduler.take()) is not None:
            free -= 1
            starts.append((now, arrivals[taken][1]))
            heapq.heappush(ends, (now + NODE_S, taken))
    return _judge(scheduler.name, story, starts, response)


def _judge(name: str, story: Story, starts: list[tuple[float, str]], response: dict[str, list[float]]) -> Outcome:
    """Shares, Jain and lag over the contended window: from the late arrivals until a tenant has no more work."""
    waiting = {"vip": story.vip, "standard": story.standard, "free": story.flood}
    served = dict.fromkeys(WEIGHTS, 0)
    lag, last = 0.0, dict.fromkeys(WEIGHTS, story.late_s)
    gaps = dict.fromkeys(WEIGHTS, 0.0)
    is_contended = True
    for at, tenant in starts:
        waiting[tenant] -= 1
        if at < story.late_s:
            continue
        gaps[tenant] = max(gaps[tenant], at - last[tenant])
        last[tenant] = at
        if is_contended:
            served[tenant] += 1
            total = sum(served.values())
            behind = (total * WEIGHTS[t] / sum(WEIGHTS.values()) - served[t] for t in WEIGHTS)
            lag = max(lag, *behind)
            is_contended = all(waiting.values())
    total = sum(served.values())
    levels = [served[tenant] / weight for tenant, weight in WEIGHTS.items()]
    return Outcome(
        name=name,
        response_s={t: sum(v) / len(v) for t, v in response.items()},
        worst_s={t: max(v) for t, v in response.items()},
        shares={t: served[t] / total for t in WEIGHTS},
        jain=sum(levels) ** 2 / (len(levels) * sum(x * x for x in levels)),
        longest_gap_s=gaps,
        lag_nodes=lag,
        starts=starts,
    )


def cumulative(outcome: Outcome, until_s: float, points: int = 200) -> Iterator[tuple[float, dict[str, int]]]:
    """Nodes started per tenant over time, for the chart."""
    counts, place = dict.fromkeys(WEIGHTS, 0), 0
    for i in range(points + 1):
        at = until_s * i / points
        while place < len(outcome.starts) and outcome.starts[place][0] <= at:
            counts[outcome.starts[place][1]] += 1
            place += 1
        yield at, dict(counts)
