"""Our queue under load: a cycle enqueues a batch and dispatches as many in one call, then ends those."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import redis

from artiway.scheduling.model import Completion, Node, Pool, Snapshot, TenantPolicy, Track
from artiway.scheduling.queue import FairQueue

POOL = "bench"
TRACKS = [Track("cutout", "vip_short"), Track("model", "vip_short", "sdxl"), Track("compose", "free_default")]
COST_US = {"cutout": 6_000_000, "model": 8_000_000, "compose": 4_000_000}
SLOTS = 100_000
WARM_UP_S = 0.3
SLOW_CALLS = 10_000


class Target:
    """The Lua alone, as the scheduler function calls it."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.queue = FairQueue(self.client, POOL)
        if not self.queue.attach():
            raise RuntimeError("prepare the queue first")

    def admit(self, nodes: list[Node]) -> list[str]:
        """As many as come go. Answers who goes."""
        admitted = self.queue.admit(nodes, now_ms=_now_ms(), dispatch=len(nodes))
        return [one.node.node_id for one in admitted.dispatched]

    def end(self, node_ids: list[str]) -> None:
        ends = [Completion(node_id) for node_id in node_ids]
        self.queue.complete(ends, now_ms=_now_ms(), confirmed=node_ids)


@dataclass(frozen=True)
class Load:
    tenants: int
    waiting: int
    capped_percent: int = 0
    batch: int = 100
    clients: int = 1
    seconds: float = 3.0

    @property
    def backlog(self) -> tuple[int, int, int]:
        """What has to stand in the queue beforehand. Loads on the same backlog share it: what goes in comes out."""
        return self.tenants, self.waiting, self.capped_percent


@dataclass(frozen=True)
class Result:
    """Whole cycles by all clients; then each verb alone, by one client in the same batches."""

    load: Load
    nodes_per_s: float
    redis_us_per_node: float
    enqueue_per_s: float
    dispatch_per_s: float
    complete_per_s: float

    def row(self) -> dict[str, Any]:
        return {**asdict(self.load), **{k: v for k, v in asdict(self).items() if k != "load"}}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def prepare(url: str, load: Load) -> float:
    """Fill the queue with its standing backlog; answers the seconds that the rebuild took."""
    client = redis.Redis.from_url(url)
    client.flushall()
    policies = [TenantPolicy(f"t{i}", 1 + i % 5, cap=0 if _is_capped(i, load) else None) for i in range(load.tenants)]
    waiting = list(itertools.islice(_nodes("standing", range(load.tenants), seed=1), load.waiting))
    slots = dict.fromkeys(COST_US, SLOTS)
    queue = FairQueue(client, POOL)
    started = time.perf_counter()
    queue.rebuild(Snapshot(Pool(slots=slots), policies, waiting=waiting), now_ms=_now_ms())
    return time.perf_counter() - started


def _is_capped(place: int, load: Load) -> bool:
    """Spread over the tenants, so that each weight is capped as often as the others."""
    return place * 37 % 100 < load.capped_percent


def _nodes(name: str, tenants: Any, seed: int) -> Iterator[Node]:
    dice = random.Random(seed)
    for i in itertools.count():
        track = TRACKS[i % len(TRACKS)]
        yield Node(f"{name}-{i}", f"t{dice.choice(tenants)}", f"u{i % 2}", track, COST_US[track.node_type])


def cpu_us(client: redis.Redis) -> float:
    info: Any = client.info("cpu")
    return float(info["used_cpu_user"] + info["used_cpu_sys"]) * 1e6


def measure(url: str, load: Load) -> Result:
    """A steady load: what goes in comes out, while the standing backlog stays."""
    with multiprocessing.get_context("spawn").Pool(load.clients) as pool:
        client = redis.Redis.from_url(url)
        pool.starmap(_drive, [(url, load, WARM_UP_S)] * load.clients)
        before, started = cpu_us(client), time.perf_counter()
        nodes = sum(pool.starmap(_drive, [(url, load, load.seconds)] * load.clients))
        took, used = time.perf_counter() - started, cpu_us(client) - before
        verbs = pool.apply(_verbs, (url, load, load.seconds / 2))
    return Result(load, nodes / took, used / nodes, *verbs)


def _arriving(load: Load) -> Iterator[Node]:
    runnable = [i for i in range(load.tenants) if not _is_capped(i, load)]
    return _nodes(f"live-{os.getpid()}-{time.time_ns()}", runnable, seed=2)


def _drive(url: str, load: Load, seconds: float) -> int:
    """Closed loop; answers how many nodes went through. What runs at the end is given back."""
    target, arriving = Target(url), _arriving(load)
    done, ends = 0, time.perf_counter() + seconds
    while time.perf_counter() < ends:
        running = target.admit(list(itertools.islice(arriving, load.batch)))
        target.end(running)
        done += len(running)
    return done


def _verbs(url: str, load: Load, seconds: float) -> tuple[float, float, float]:
    """Nodes per second of enqueue, dispatch and complete, each in calls of its own, as the client sees them."""
    queue, arriving = Target(url).queue, _arriving(load)
    done, took = 0, [0.0, 0.0, 0.0]
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        batch = list(itertools.islice(arriving, load.batch))
        marks = [time.perf_counter()]
        queue.enqueue(batch, now_ms=_now_ms())
        marks.append(time.perf_counter())
        taken = [one.node.node_id for one in queue.dispatch(load.batch, now_ms=_now_ms())]
        marks.append(time.perf_counter())
        queue.complete([Completion(node_id) for node_id in taken], now_ms=_now_ms(), confirmed=taken)
        marks.append(time.perf_counter())
        done += len(taken)
        took = [spent + after - before for spent, before, after in zip(took, marks, marks[1:], strict=False)]
    return done / took[0], done / took[1], done / took[2]


def dispatch_rates(
    urls: dict[str, str], loads: dict[str, Load], *, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Dispatch rates of queues side by side, each in a Redis of its own, in turns: what slows one round slows
    them all."""
    for name, load in loads.items():
        prepare(urls[name], load)
    rates: dict[str, list[float]] = {name: [] for name in loads}
    for place in range(-1, rounds):  # the first one warms up
        for name in sorted(loads, reverse=place % 2 == 1):
            rate = _verbs(urls[name], loads[name], seconds)[1]
            if place >= 0:
                rates[name].append(rate)
    return rates


def latency_ms(target: Target, *, per_s: int, seconds: float, load: Load) -> list[float]:
    """Open loop: a node is due every 1/per_s; its latency runs until it is in the queue and the next one goes, which is
    the node itself where nobody else waits."""
    arriving = _arriving(load)
    latencies: list[float] = []
    started, sent, total = time.perf_counter(), 0, int(per_s * seconds)
    while sent < total:
        due = min(total, int((time.perf_counter() - started) * per_s) + 1)
        if due == sent:
            time.sleep(max(0.0, started + sent / per_s - time.perf_counter()))
            continue
        running = target.admit(list(itertools.islice(arriving, due - sent)))
        if len(running) < due - sent:
            raise RuntimeError(f"{due - sent} came and {len(running)} went")
        now = time.perf_counter()
        latencies.extend((now - started - place / per_s) * 1000 for place in range(sent, due))
        sent = due
        target.end(running)
    return latencies


def longest_call_ms(client: redis.Redis) -> float:
    """The longest that one call kept Redis from all others, since this was asked last."""
    calls: Any = client.slowlog_get(SLOW_CALLS)
    client.config_set("slowlog-log-slower-than", 1_000)
    client.config_set("slowlog-max-len", SLOW_CALLS)
    client.slowlog_reset()
    return max((call["duration"] for call in calls), default=0) / 1000


def bare_round_trips(url: str, seconds: float = 1.0) -> tuple[float, float]:
    """EVALSHA of a script that does nothing, the floor of any queue: calls per second, Redis µs per call."""
    client = redis.Redis.from_url(url)
    digest = client.script_load("return 1")
    calls, before, started = 0, cpu_us(client), time.perf_counter()
    while time.perf_counter() - started < seconds:
        client.evalsha(digest, 0)
        calls += 1
    return calls / (time.perf_counter() - started), (cpu_us(client) - before) / calls
