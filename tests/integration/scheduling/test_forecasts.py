"""One forecast for all processes: one caller computes it, the others read it, also while it is computed anew."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import redis

from artiway.platform import redis as platform_redis
from artiway.scheduling.forecast import Speed
from artiway.scheduling.forecast_store import RedisForecasts
from artiway.scheduling.forecasts import CLAIM_MS, STALE_MS, WAITS, PoolForecasts
from artiway.scheduling.model import Backlog, Pool, TenantBacklog, TenantPolicy, Track, TrackBacklog
from local.servers import free_port
from tests.fakes.clock import FixedClock

CUTOUT = Track("cutout", "vip_short")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FOR_S = 2


class Pools:
    """A queue and a database that count how often they are read."""

    def __init__(self) -> None:
        self.queue_reads = self.store_reads = 0
        self.waiting = 10

    def attach(self) -> bool:
        return True

    def _backlog(self) -> Backlog:
        work = TrackBacklog(self.waiting, self.waiting * 1_000_000, 0, 1, 1_000_000)
        tenant = TenantBacklog(TenantPolicy("A"), 0, 0, 1, {CUTOUT: work})
        return Backlog(0, Pool({"cutout": 1}), {}, {"A": tenant})

    def pending(self, _pool: str) -> dict[str, TenantBacklog]:
        return {}


class Queue(Pools):
    def backlog(self) -> Backlog:
        self.queue_reads += 1
        return self._backlog()


class Store(Pools):
    def backlog(self, _pool: str) -> Backlog:
        self.store_reads += 1
        return self._backlog()


class World:
    def __init__(self, client: redis.Redis) -> None:
        self.shared, self.clock = RedisForecasts(client), FixedClock(NOON)
        self.queue, self.store = Queue(), Store()
        self.pauses = 0

    def process(self) -> PoolForecasts:
        return PoolForecasts(
            lambda _pool: self.queue,
            self.store,
            lambda _pool: Speed(),
            self.shared,
            self.clock,
            for_s=FOR_S,
            pause=lambda _: self.pause(),
        )

    def pause(self) -> None:
        self.pauses += 1

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)


@pytest.fixture
def world(valkey: redis.Redis) -> World:
    return World(valkey)


def last_start(forecasts: PoolForecasts) -> int:
    found = forecasts.of("gpu", "A").start(CUTOUT, 9)
    assert found is not None
    return found.start_us


def test_processes_share_one_computation(world: World) -> None:
    first, second = world.process(), world.process()
    assert last_start(first) == last_start(second) == last_start(first)
    assert world.queue.queue_reads == 1
    world.advance(FOR_S)
    world.queue.waiting = 20
    last_start(second)
    last_start(first)
    assert world.queue.queue_reads == 2


def test_old_forecast_serves_while_another_computes(world: World) -> None:
    process = world.process()
    known = last_start(process)
    world.advance(FOR_S)
    assert world.shared.claim("gpu", for_ms=CLAIM_MS)
    assert last_start(process) == last_start(world.process()) == known
    assert (world.queue.queue_reads, world.pauses) == (1, 0)


@pytest.mark.parametrize("is_known", [True, False])
def test_caller_without_usable_forecast_waits_a_little(world: World, is_known: bool) -> None:
    if is_known:
        last_start(world.process())
        world.advance(STALE_MS / 1_000)
    reads = world.queue.queue_reads
    assert world.shared.claim("gpu", for_ms=CLAIM_MS)
    last_start(world.process())
    assert (world.queue.queue_reads - reads, world.pauses) == (1, WAITS)


def test_tenant_without_work_has_a_forecast_too(world: World) -> None:
    found = world.process().of("gpu", "B").arrival(CUTOUT, cost_us=1_000_000, weight=1)
    assert found is not None
    assert found.start_us > 0


@pytest.fixture
def away() -> Iterator[World]:
    with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.1)) as client:
        yield World(client)


def test_without_redis_each_process_computes_alone(away: World) -> None:
    process = away.process()
    for _ in range(3):
        last_start(process)
    assert away.queue.queue_reads == 1
    away.advance(FOR_S)
    last_start(process)
    assert away.queue.queue_reads == 2
