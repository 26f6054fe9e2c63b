from __future__ import annotations

import random
import threading
from fractions import Fraction

import pytest

from artiway.platform.ratelimit import Decision, RateLimiter
from tests.conftest import soaked


@pytest.fixture
def limiter(client, time) -> RateLimiter:
    return RateLimiter(client, server_now_ms=time.ms)


def test_burst_passes_and_then_rate_holds(limiter, time):
    bucket = [("tenant:1", 5, 10)]
    assert [limiter.take(bucket).is_allowed for _ in range(12)] == [True] * 10 + [False] * 2
    time.advance(0.2)
    assert [limiter.take(bucket).is_allowed for _ in range(2)] == [True, False]
    time.advance(60)
    assert [limiter.take(bucket).is_allowed for _ in range(12)] == [True] * 10 + [False] * 2


def test_decision_has_the_header_values(limiter):
    bucket = [("tenant:1", 5, 10)]
    assert limiter.take(bucket) == Decision(True, limit=10, remaining=9, reset_s=1, retry_after_s=0)
    for _ in range(8):
        limiter.take(bucket)
    assert limiter.take(bucket) == Decision(True, limit=10, remaining=0, reset_s=2, retry_after_s=0)
    assert limiter.take(bucket) == Decision(False, limit=10, remaining=0, reset_s=2, retry_after_s=1)


def test_refusal_by_one_bucket_takes_nothing_from_others(limiter):
    tenant, user = ("tenant:1", 1, 100), ("user:1", 1, 2)
    decisions = [limiter.take([tenant, user]) for _ in range(5)]
    assert [decision.is_allowed for decision in decisions] == [True, True, False, False, False]
    assert limiter.take([tenant]).remaining == 97


def test_answer_speaks_of_bucket_that_binds(limiter):
    assert limiter.take([("tenant:1", 1, 100), ("user:1", 1, 2)]).limit == 2
    assert limiter.take([("tenant:1", 1, 100), ("user:1", 1, 2)]).limit == 2
    refused = limiter.take([("user:1", 1, 2), ("tenant:1", 1, 100)])
    assert (refused.is_allowed, refused.limit, refused.retry_after_s) == (False, 2, 1)


def test_request_passes_after_waiting_retry_after(limiter, time):
    buckets = [("fast", 10, 1), ("slow", 1, 1)]
    limiter.take(buckets)
    refused = limiter.take(buckets)
    assert refused.retry_after_s == 1
    time.advance(refused.retry_after_s)
    assert limiter.take(buckets).is_allowed


def test_smaller_burst_acts_at_once(limiter):
    limiter.take([("tenant:1", 5, 100)])
    assert limiter.take([("tenant:1", 5, 3)]).remaining == 2


def test_clock_that_steps_back_neither_refills_nor_takes(limiter, time):
    assert limiter.take([("k", 1, 3)]).remaining == 2
    time.advance(-3_600)
    assert limiter.take([("k", 1, 3)]).remaining == 1
    assert limiter.take([("k", 1, 3)]).remaining == 0


def test_full_bucket_is_forgotten(limiter, client):
    limiter.take([("k", 5, 10)])
    assert 0 < client.pttl("rate:k") <= 1_200


def test_server_clock_is_used_by_default(client):
    limiter = RateLimiter(client)
    assert [limiter.take([("k", 1, 2)]).is_allowed for _ in range(2)] == [True, True]
    stored = int(client.hget("rate:k", "at_ms"))
    seconds, _ = client.time()
    assert abs(stored - seconds * 1000) < 60_000


def test_many_at_once_take_exactly_burst(client, time):
    limiter = RateLimiter(client, server_now_ms=time.ms)
    allowed: list[bool] = []

    def ask() -> None:
        allowed.extend([limiter.take([("k", 1, 100)]).is_allowed for _ in range(25)])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (allowed.count(True), len(allowed)) == (100, 200)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(soaked(40)))
def test_script_agrees_with_exact_arithmetic(limiter, time, seed):
    dice = random.Random(seed)
    buckets = [(f"b{number}", dice.choice([1, 3, 7, 50, 999]), dice.choice([1, 2, 10, 200])) for number in range(3)]
    levels = {key: Fraction(burst) for key, _, burst in buckets}
    at_ms = dict.fromkeys(levels, time.ms())
    for _ in range(60):
        time.advance(dice.choice([0, 0, 0.001, 0.037, 1, 2.5]))
        asked = dice.sample(buckets, dice.randint(1, 3))
        now_levels = {
            key: min(Fraction(burst), levels[key] + Fraction((time.ms() - at_ms[key]) * rate, 1000))
            for key, rate, burst in asked
        }
        expected = all(level >= 1 for level in now_levels.values())
        decision = limiter.take(asked)
        assert decision.is_allowed == expected
        if expected:
            assert decision.remaining == min(level - 1 for level in now_levels.values()) // 1
            for key, level in now_levels.items():
                levels[key], at_ms[key] = level - 1, time.ms()
        else:
            wait_s = max((1 - level) / rate for (key, rate, _), level in zip(asked, now_levels.values(), strict=True))
            assert decision.retry_after_s - 1 < wait_s <= decision.retry_after_s


def test_without_redis_everything_passes_and_metric_says_so(nobody_there, metric):
    limiter = RateLimiter(nobody_there)
    decisions = [limiter.take([("k", 1, 5), ("j", 1, 3)]) for _ in range(20)]
    assert all(decision.is_allowed for decision in decisions)
    assert decisions[-1].limit == 3
    assert sum(metric("RateLimiterAway")) == 20


@pytest.mark.parametrize(
    "buckets",
    [[], [("k", 1, 1)] * 9, [("", 1, 1)], [("k", 0, 1)], [("k", 1, 0)], [("k", -1, 1)], [("k", 1, 10**9)]],
)
def test_invalid_buckets_are_refused_before_any_write(limiter, client, buckets):
    with pytest.raises(ValueError, match="bucket"):
        limiter.take(buckets)
    assert list(client.scan_iter("rate:*")) == []
