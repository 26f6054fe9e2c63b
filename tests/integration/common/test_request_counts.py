"""Requests of a minute: counted whole, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import redis

from artiway.platform import redis_keys
from artiway.platform.breaker import Breaker
from artiway.platform.ratelimit import RateLimiter
from artiway.platform.request_counts import RequestCounter, RequestCounts

MINUTE = datetime(2026, 3, 2, 12, tzinfo=UTC)
BUCKETS = [("tenant:1", 1, 2)]


class Time:
    def __init__(self) -> None:
        self.at = MINUTE - timedelta(seconds=30)

    def __call__(self) -> float:
        return self.at.timestamp()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def counts(valkey: redis.Redis, time: Time) -> RequestCounts:
    """Read once before the minute begins, as the pass of the minute before does."""
    counts = RequestCounts(valkey, now=time)
    assert counts.of_minute(MINUTE - timedelta(minutes=3)) is None
    return counts


@pytest.fixture
def limiter(valkey: redis.Redis, time: Time) -> RateLimiter:
    return RateLimiter(valkey, breaker=Breaker(rest_s=0), requests=RequestCounter(valkey, now=time))


def test_refused_requests_count_too(counts: RequestCounts, limiter: RateLimiter, time: Time):
    time.at = MINUTE + timedelta(seconds=1)
    allowed = [limiter.take(BUCKETS).is_allowed for _ in range(5)]
    assert allowed == [True, True, False, False, False]
    time.at = MINUTE + timedelta(seconds=61)
    limiter.take(BUCKETS)
    assert counts.of_minute(MINUTE) == (5, 0)
    assert counts.of_minute(MINUTE + timedelta(minutes=1)) == (1, 0)


def test_failure_counts_its_request_once(counts: RequestCounts, limiter: RateLimiter, time: Time):
    time.at = MINUTE
    limiter.take(BUCKETS)
    limiter.count_failure(is_counted=True)
    limiter.count_failure(is_counted=False)
    assert counts.of_minute(MINUTE) == (2, 2)


def test_quiet_minute_is_zero(counts: RequestCounts):
    assert counts.of_minute(MINUTE) == (0, 0)


def test_flushed_minute_has_no_count(valkey: redis.Redis, counts: RequestCounts, limiter: RateLimiter, time: Time):
    time.at = MINUTE + timedelta(seconds=10)
    limiter.take(BUCKETS)
    valkey.flushall()
    limiter.take(BUCKETS)
    time.at = MINUTE + timedelta(seconds=125)
    assert counts.of_minute(MINUTE) is None
    # The reading at 12:02:05 began a new time: the minutes before it may have lost requests too.
    time.at = MINUTE + timedelta(seconds=245)
    assert [counts.of_minute(MINUTE + timedelta(minutes=n)) for n in (0, 1, 2)] == [None, None, None]
    assert counts.of_minute(MINUTE + timedelta(minutes=3)) == (0, 0)


def test_uncounted_request_drops_its_minute(
    valkey: redis.Redis, counts: RequestCounts, limiter: RateLimiter, time: Time, monkeypatch
):
    time.at = MINUTE

    def away(*_: object) -> None:
        raise redis.ConnectionError

    working = limiter._take
    monkeypatch.setattr(limiter, "_take", away)
    assert limiter.take(BUCKETS).is_allowed
    monkeypatch.setattr(limiter, "_take", working)
    limiter.take(BUCKETS)
    assert valkey.get(redis_keys.REQUESTS_SINCE) is None
    assert counts.of_minute(MINUTE) is None


def test_missing_redis_has_no_count(time: Time):
    with redis.Redis(port=1, socket_connect_timeout=0.05) as nobody:
        assert RequestCounts(nobody, now=time).of_minute(MINUTE) is None


def test_counts_expire(valkey: redis.Redis, limiter: RateLimiter, time: Time):
    time.at = MINUTE
    limiter.take(BUCKETS)
    assert 0 < valkey.ttl(redis_keys.requests(int(MINUTE.timestamp()) // 60)) <= 3_600
    time.at += timedelta(minutes=1)
    limiter.count_failure(is_counted=False)
    assert 0 < valkey.ttl(redis_keys.requests(int(MINUTE.timestamp()) // 60 + 1)) <= 3_600
