"""A provider's minute in Redis: requests and tokens, taken together or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artiway.generations.providers.model import Target
from artiway.generations.providers.quota import RedisQuota
from artiway.platform import redis_keys

START_MS = 1_800_000_000_000


class Minute:
    """A quota whose clock the test moves."""

    def __init__(self, client):
        self.now_ms = START_MS
        self.quota = RedisQuota(client, server_now_ms=lambda: self.now_ms)

    def take(self, tokens=0, *, after_s=0.0, requests=None, most=None, name="p"):
        self.now_ms += round(after_s * 1_000)
        target = Target(name, "https://p.example.com", "m", requests_per_minute=requests, tokens_per_minute=most)
        return self.quota.take(target, tokens)


@pytest.fixture
def minute(valkey):
    return Minute(valkey)


def test_requests_of_a_minute_are_bounded(minute):
    assert [minute.take(requests=3) for _ in range(4)] == [0, 0, 0, 20]
    assert minute.take(after_s=20, requests=3) == 0
    assert minute.take(requests=3) == 20


def test_tokens_of_a_minute_are_bounded(minute):
    assert [minute.take(400, most=1_000), minute.take(400, most=1_000), minute.take(400, most=1_000)] == [0, 0, 12]
    assert minute.take(400, after_s=12, most=1_000) == 0


def test_refusal_takes_nothing_from_either(minute):
    assert minute.take(900, requests=2, most=1_000) == 0
    assert minute.take(900, requests=2, most=1_000) == 48
    assert minute.take(100, requests=2, most=1_000) == 0  # a request and 100 tokens are still there


def test_request_larger_than_a_minute_waits_for_all(minute):
    assert minute.take(5_000, most=1_000) == 0
    assert minute.take(1, most=1_000) == 1
    assert minute.take(5_000, after_s=30, most=1_000) == 30


def test_unused_tokens_come_back(minute):
    target = Target("p", "https://p.example.com", "m", tokens_per_minute=1_000)
    assert minute.quota.take(target, 1_000) == 0
    minute.quota.give_back(target, 700)
    assert minute.quota.take(target, 700) == 0
    assert minute.quota.take(target, 1) == 1
    minute.quota.give_back(target, 1_000_000)
    assert [minute.quota.take(target, 1_000), minute.quota.take(target, 1)] == [0, 1]


def test_provider_without_limits_leaves_no_key(minute, valkey):
    assert minute.take(1_000_000) == 0
    assert valkey.keys("provider_quota:*") == []


def test_quota_expires_and_providers_are_apart(minute, valkey):
    assert [minute.take(requests=1, name="a"), minute.take(requests=1, name="b")] == [0, 0]
    assert 0 < valkey.pttl(redis_keys.provider_quota("a")) <= 61_000


def test_lost_redis_lets_everything_pass(capsys):
    quota = RedisQuota(redis.Redis(port=1))
    target = Target("p", "https://p.example.com", "m", requests_per_minute=1, tokens_per_minute=1)
    assert [quota.take(target, 5) for _ in range(3)] == [0, 0, 0]
    quota.give_back(target, 5)
    assert "ProviderQuotaAway" in capsys.readouterr().out


def test_race_takes_no_more_than_the_minute(valkey):
    minute = Minute(valkey)
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: minute.take(100, requests=1_000, most=1_000, name="race"), range(40)))
    assert waits.count(0) == 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), min_size=1, max_size=30))
def test_no_window_exceeds_minute_and_burst(valkey, steps):
    """In any time t at most a full bucket and what flows in during t is taken."""
    valkey.delete(redis_keys.provider_quota("window"))
    minute, limit, taken = Minute(valkey), 600, []
    for tokens, after_s in steps:
        if minute.take(tokens, after_s=after_s, most=limit, name="window") == 0:
            taken.append((minute.now_ms, tokens))
    for place, (begin_ms, _) in enumerate(taken):
        total = 0
        for now_ms, tokens in taken[place:]:
            total += tokens
            assert total * 60_000 <= limit * 60_000 + (now_ms - begin_ms) * limit
