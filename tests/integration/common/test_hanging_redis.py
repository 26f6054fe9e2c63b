"""A Redis that takes connections and never answers is worse than none: each question costs its time limit."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from uuid import uuid4

import pytest

from artiway.delivery.feed.queue import RedisFeed
from artiway.errors import Unavailable
from artiway.identity.access.repository import SpentNonces
from artiway.platform import redis as platform_redis
from artiway.platform.breaker import REST_S, Breaker
from artiway.platform.cache import Cache
from artiway.platform.lock import Locks, LockUnavailable
from artiway.platform.ratelimit import RateLimiter
from artiway.scheduling.queue import FairQueue
from tests.fakes.clock import FixedClock


@pytest.fixture
def hanging(serve):
    """The server, and a client of it."""
    server = serve(lambda connection: connection.recv(1))
    with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{server.port}/0", timeout_s=0.1)) as client:
        yield server, client


def test_one_waits_and_spares_others_wait(hanging, time, metric):
    server, client = hanging
    breaker = Breaker(now=time)
    cache = Cache(client, breaker=breaker, now=time)
    limiter, locks = RateLimiter(client, breaker=breaker), Locks(client, breaker=breaker)
    assert cache.get("k", lambda: "from the source", ttl_s=60) == "from the source"
    asked = len(server.asked)
    assert asked > 0

    assert cache.get("another", lambda: "too", ttl_s=60) == "too"
    assert limiter.take([("k", 1, 1)]).is_allowed
    with pytest.raises(LockUnavailable):
        locks.acquire("x", ttl_s=10)
    assert len(server.asked) == asked
    time.advance(REST_S)
    limiter.take([("k", 1, 1)])
    assert len(server.asked) > asked


def test_cache_works_again_once_redis_does(client, hanging, time):
    _, hung = hanging
    breaker = Breaker(now=time)
    RateLimiter(hung, breaker=breaker).take([("k", 1, 1)])
    cache, loads = Cache(client, breaker=breaker, now=time), []
    cache.get("k", lambda: loads.append(1) or "v", ttl_s=60)
    assert client.keys("cache:*") == []
    time.advance(REST_S)
    for _ in range(3):
        Cache(client, breaker=breaker, now=time).get("k", lambda: loads.append(1) or "v", ttl_s=60)
    assert len(loads) == 2


def test_users_without_guard_are_spared_too(serve, time, database):
    """Callers that need Redis, or have their own fallback, share the client and so its breaker."""
    server, breaker = serve(lambda connection: connection.recv(1)), Breaker(now=time)
    address = f"redis://127.0.0.1:{server.port}/0"
    with contextlib.closing(platform_redis.connect(address, timeout_s=0.1, breaker=breaker)) as client:
        with pytest.raises(Unavailable):
            RedisFeed(client, interval_ms=1).progress([uuid4()])
        asked = len(server.asked)
        assert asked == 1

        with pytest.raises(Unavailable):
            FairQueue(client, "gpu").attach()
        nonces = SpentNonces(database, client, FixedClock())
        assert not nonces.spend(uuid4(), uuid4(), "nonce", for_=timedelta(minutes=1))  # PostgreSQL knows no such key
        assert RateLimiter(client, breaker=breaker).take([("k", 1, 1)]).is_allowed
        assert len(server.asked) == asked
        time.advance(REST_S)
        with pytest.raises(Unavailable):
            FairQueue(client, "gpu").attach()
        assert len(server.asked) > asked


def test_timeout_is_not_retried(hanging):
    server, client = hanging
    with pytest.raises(Unavailable), platform_redis.translated():
        client.ping()
    assert len(server.asked) == 1


def test_full_redis_is_still_used_by_others(client, time):
    """Full is not silent: what only reads goes on, and operators see why."""
    breaker = Breaker(now=time)
    breaker.rest()
    client.breaker = breaker
    assert breaker.is_resting()
    assert client.ping()
