"""Our queue under load: a cycle enqueues a batch, then completes the last one and dispatches the next in one call."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import redis

from artiway.scheduling.model import Completion, Dispatched, Node, Pool, Snapshot, TenantPolicy, Track
from artiway.scheduling.queue import FairQueue

POOL = "bench"
TRACKS = [Track("cutout", "vip_short"), Track("model", "vip_short", "sdxl"), Track("compose", "free_default")]
COST_US = {"cutout": 6_000_000, "model": 8_000_000, "compose": 4_000_000}
SLOTS = 100_000
WARM_UP_S = 0.3


class Target(Protocol):
    """What is measured. A queue with the database behind it fits in here as well as the bare one."""

    def enqueue(self, nodes: list[Node]) -> None: ...

    def settle(self, ended: list[str], limit: int) -> list[Dispatched]: ...


class RedisOnly:
    """The Lua alone, as the scheduler function calls it."""

    def __init__(self, url: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.queue = FairQueue(self.client, POOL)
        if not self.queue.attach():
            raise RuntimeError("prepare the queue first")

    def enqueue(self, nodes: list[Node]) -> None:
        self.queue.enqueue(nodes, now_ms=_now_ms())

    def settle(self, ended: list[str], limit: int) -> list[Dispatched]:
        ends = [Completion(node_id) for node_id in ended]
        settled = self.queue.complete(ends, now_ms=_now_ms(), dispatch=limit, confirmed=ended)
        return list(settled.dispatched)


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
    target, arriving = RedisOnly(url), _arriving(load)
    running: list[str] = []
    done, ends = 0, time.perf_counter() + seconds
    while time.perf_counter() < ends:
        target.enqueue(list(itertools.islice(arriving, load.batch)))
        running = [one.node.node_id for one in target.settle(running, load.batch)]
        done += len(running)
    target.settle(running, 0)
    return done


def _verbs(url: str, load: Load, seconds: float) -> tuple[float, float, float]:
    """Nodes per second of enqueue, dispatch and complete, each in calls of its own, as the client sees them."""
    queue, arriving = RedisOnly(url).queue, _arriving(load)
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


def latency_ms(target: Target, *, per_s: int, seconds: float, tenants: int) -> list[float]:
    """Open loop: a node is due every 1/per_s; its latency runs from then until it is dispatched."""
    arriving = _nodes(f"due-{time.time_ns()}", range(tenants), seed=3)
    due_at: dict[str, float] = {}
    latencies: list[float] = []
    running: list[str] = []
    started, sent, total = time.perf_counter(), 0, int(per_s * seconds)
    while len(latencies) < total:
        due = min(total, int((time.perf_counter() - started) * per_s) + 1)
        batch = []
        for node in itertools.islice(arriving, due - sent):
            due_at[node.node_id] = started + sent / per_s
            batch.append(node)
            sent += 1
        if not batch:
            time.sleep(max(0.0, started + sent / per_s - time.perf_counter()))
            continue
        target.enqueue(batch)
        running = [one.node.node_id for one in target.settle(running, len(batch))]
        now = time.perf_counter()
        latencies.extend((now - due_at.pop(node_id)) * 1000 for node_id in running if node_id in due_at)
    target.settle(running, 0)
    return latencies


def bare_round_trips(url: str, seconds: float = 1.0) -> tuple[float, float]:
    """EVALSHA of a script that does nothing, the floor of any queue: calls per second, Redis µs per call."""
    client = redis.Redis.from_url(url)
    digest = client.script_load("return 1")
    calls, before, started = 0, cpu_us(client), time.perf_counter()
    while time.perf_counter() - started < seconds:
        client.evalsha(digest, 0)
        calls += 1
    return calls / (time.perf_counter() - started), (cpu_us(client) - before) / calls
