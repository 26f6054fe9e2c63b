from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from artiway.platform.cache import Cache, Limits
from tests.integration.common.conftest import Time

SYNC_S = Limits().sync_s


class Source:
    """What is cached: a value that counts how often it was asked for."""

    def __init__(self, value: Any) -> None:
        self.value, self.loads = value, 0

    def __call__(self) -> Any:
        self.loads += 1
        return self.value


@pytest.fixture
def make(client: Redis, time: Time) -> Callable[..., Cache]:
    """A process, as the cache sees it: a first level of its own."""

    def make_cache(**limits: float) -> Cache:
        return Cache(client, Limits(**limits), now=time, sleep=time.advance)

    return make_cache


def test_value_is_loaded_once_for_all_processes(make):
    source = Source({"name": "深圳", "sizes": [1, 2.5, None, True]})
    for cache in (make(), make(), make()):
        assert cache.get("k", source, ttl_s=60) == source.value
        assert cache.get("k", source, ttl_s=60) == source.value
    assert source.loads == 1


def test_first_level_answers_without_redis(make, client, valkey):
    cache, source = make(), Source("first")
    cache.get("k", source, ttl_s=60)
    commands = valkey.info("stats")["total_commands_processed"]
    assert [cache.get("k", source, ttl_s=60) for _ in range(50)] == ["first"] * 50
    assert valkey.info("stats")["total_commands_processed"] - commands == 1  # the question itself


def test_readers_get_independent_copies(make):
    cache, source = make(), Source({"list": [1]})
    for _ in range(3):
        copy = cache.get("k", source, ttl_s=60)
        assert copy == {"list": [1]}
        copy["list"].append(2)


def test_null_is_cached_for_five_minutes_at_most(make, client):
    cache, source = make(), Source(None)
    assert cache.get("k", source, ttl_s=86_400) is None
    assert make().get("k", source, ttl_s=86_400) is None
    assert source.loads == 1
    assert 0 < client.pttl("cache:value:k") <= 300_000


def test_null_lives_no_longer_than_its_caller_allows(make, client):
    make().get("k", Source(None), ttl_s=60)
    assert 0 < client.pttl("cache:value:k") <= 60_000


def test_lives_are_spread_over_five_minutes(make, client):
    cache = make()
    for number in range(40):
        cache.get(f"k{number}", Source(number), ttl_s=1_000)
    lives_s = [client.pttl(f"cache:value:k{number}") / 1000 for number in range(40)]
    assert min(lives_s) > 980
    assert max(lives_s) <= 1_300
    assert max(lives_s) - min(lives_s) > 100


def test_no_level_keeps_a_value_past_its_ttl(make, time):
    """The first level takes over what is left of the life, not a new one."""
    source = Source("live")
    make().get("session", source, ttl_s=60, jitter_s=0)
    source.value = "revoked"
    reader = make()
    time.advance(59.5)
    assert reader.get("session", source, ttl_s=60, jitter_s=0) == "live"
    time.advance(0.5)
    reader._redis.unlink("cache:value:session")  # Redis keeps its own time, which stands still here
    assert reader.get("session", source, ttl_s=60, jitter_s=0) == "revoked"


def test_slow_load_does_not_lengthen_life(make, client, time):
    def load() -> str:
        time.advance(20)
        return "slow"

    make(load_s=60).get("k", load, ttl_s=60, jitter_s=0)
    assert 0 < client.pttl("cache:value:k") <= 40_000


def test_first_level_forgets_after_minute(make, client, time):
    cache, source = make(sync_s=3_600), Source(1)
    cache.get("k", source, ttl_s=3_600)
    client.flushall()
    time.advance(59)
    cache.get("k", source, ttl_s=3_600)
    assert source.loads == 1
    time.advance(1)
    cache.get("k", source, ttl_s=3_600)
    assert source.loads == 2


def test_invalidation_reaches_first_level_of_another_process(make, time):
    here, there, source, other = make(), make(), Source("old"), Source("untouched")
    for cache in (here, there):
        cache.get("k", source, ttl_s=600)
        cache.get("other", other, ttl_s=600)
    source.value = "new"
    assert here.invalidate("k")
    assert here.get("k", source, ttl_s=600) == "new"
    time.advance(SYNC_S + 0.001)
    assert there.get("k", source, ttl_s=600) == "new"
    assert there.get("other", other, ttl_s=600) == "untouched"
    assert (source.loads, other.loads) == (2, 1)


def test_one_head_read_confirms_the_first_level(make, time, valkey):
    """The head travels with a value, so a process pays one read in an interval, however many keys it holds."""
    cache = make()
    for number in range(20):
        cache.get(f"k{number}", Source(number), ttl_s=600)
    time.advance(SYNC_S + 0.001)
    commands = valkey.info("stats")["total_commands_processed"]
    for number in range(20):
        cache.get(f"k{number}", Source(number), ttl_s=600)
    assert valkey.info("stats")["total_commands_processed"] - commands == 2  # one MGET, and the question itself


def test_invalidation_drops_only_its_own_keys(make, valkey, time):
    here, there = make(), make()
    for number in range(20):
        there.get(f"k{number}", Source(number), ttl_s=600)
    here.invalidate("k7")
    time.advance(SYNC_S + 0.001)
    assert there.get("k0", Source("another"), ttl_s=600) == 0
    assert len(there._first) == 19


def test_flush_does_not_hide_invalidation_before_it(make, client, time):
    here, there, source = make(), make(), Source("old")
    there.get("k", source, ttl_s=600)
    there.get("k", source, ttl_s=600)
    source.value = "new"
    here.invalidate("k")
    client.flushall()
    time.advance(SYNC_S + 0.001)
    there.get("any other", Source(0), ttl_s=600)  # which looks at the head
    assert there.get("k", source, ttl_s=600) == "new"


def test_process_behind_the_log_drops_all_entries(make, client, time):
    here, there, source = make(), make(), Source("old")
    here.invalidate("anything")
    there.get("k", source, ttl_s=600)
    source.value = "new"
    here.invalidate("k")
    client.xtrim("cache:log", maxlen=0)
    here.invalidate("something else")
    time.advance(SYNC_S + 0.001)
    there.get("any other", Source(0), ttl_s=600)  # which looks at the head
    assert there.get("k", source, ttl_s=600) == "new"


def test_prefix_invalidation_drops_only_its_keys(make, client, valkey, time):
    here, there = make(), make()
    for number in range(1_200):
        client.set(f"cache:value:tenant:1:{number}", "9999999999999:1")
    kept = Source("kept")
    for cache in (here, there):
        cache.get("tenant:10:a", kept, ttl_s=600)
        cache.get("tenant:1:a", Source("doomed"), ttl_s=600)
    assert here.invalidate_prefix("tenant:1:")
    assert list(client.scan_iter("cache:value:*")) == ["cache:value:tenant:10:a"]
    time.advance(SYNC_S + 0.001)
    assert there.get("tenant:10:a", kept, ttl_s=600) == "kept"
    assert there.get("tenant:1:a", Source("fresh"), ttl_s=600) == "fresh"
    assert kept.loads == 1
    assert "cmdstat_keys" not in valkey.info("commandstats")


@pytest.mark.parametrize("prefix", ["a*", "a?", "a[b]", "a\\"])
def test_prefix_is_text_and_not_pattern(make, prefix):
    cache = make()
    cache.get(f"{prefix}x", Source("doomed"), ttl_s=600)
    cache.get("abx", Source("kept"), ttl_s=600)
    cache.invalidate_prefix(prefix)
    assert cache.get(f"{prefix}x", Source("new"), ttl_s=600) == "new"
    assert cache.get("abx", Source("new"), ttl_s=600) == "kept"


@pytest.mark.parametrize("what", ["key", "prefix"])
def test_value_read_before_invalidation_is_not_stored(make, what):
    """Load the old value; meanwhile it is changed and invalidated; the loader must not put the old one back."""
    loader, writer, reader = make(), make(), make()

    def load() -> str:
        if what == "key":
            writer.invalidate("order:1")
        else:
            writer.invalidate_prefix("order:")
        return "old"

    assert loader.get("order:1", load, ttl_s=600) == "old"
    for cache in (reader, loader):
        assert cache.get("order:1", Source("new"), ttl_s=600) == "new"


def test_flush_in_middle_only_costs_loads(make, client, time):
    cache, source = make(), Source("value")

    def load() -> str:
        client.flushall()
        return source()

    assert cache.get("k", load, ttl_s=600) == "value"
    for _ in range(3):
        time.advance(SYNC_S + 0.001)
        client.flushall()
        assert cache.get("k", source, ttl_s=600) == "value"
    assert source.loads == 4


def test_failed_load_raises_and_releases_its_token(make, client):
    cache = make()
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: 1 // 0, ttl_s=600)
    assert client.keys("cache:loading:*") == []
    assert cache.get("k", Source("value"), ttl_s=600) == "value"


def test_value_without_json_form_releases_its_token(make, client):
    with pytest.raises(TypeError):
        make().get("k", Source(object()), ttl_s=600)
    assert client.keys("cache:loading:*") == []


@pytest.mark.parametrize("garbage", ["", "x", "12", "12:", "12:{", "zwölf:1", "9999999999999:{", "true", '"text"'])
def test_garbage_in_redis_is_replaced_by_source(make, client, garbage):
    client.set("cache:value:k", garbage)
    source = Source("value")
    assert make().get("k", source, ttl_s=600) == "value"
    assert make().get("k", source, ttl_s=600) == "value"
    assert make().get("k", source, ttl_s=600) == "value"
    assert source.loads <= 2


def test_waiting_reader_loads_after_its_time_limit(make, client):
    client.set("cache:loading:k", "a reader that never ends")
    assert make(wait_s=2).get("k", Source("mine"), ttl_s=600) == "mine"
    assert client.get("cache:value:k") is None


def test_without_redis_the_source_is_read_and_counted(nobody_there, time, metric):
    cache, source = Cache(nobody_there, now=time, sleep=time.advance), Source("value")
    assert cache.get("k", source, ttl_s=600) == "value"
    assert sum(metric("CacheRedisAway")) >= 1
    assert cache.get("k", source, ttl_s=600) == "value"
    assert source.loads == 1  # kept in the process for a moment, to limit loads of the source
    source.value = "new"
    time.advance(SYNC_S + 0.001)
    assert cache.get("k", source, ttl_s=600) == "new"
    assert not cache.invalidate("k")
    assert not cache.invalidate_prefix("k")
    assert sum(metric("CacheInvalidationsLost")) == 2


def test_redis_that_refuses_writes_counts_as_unavailable(make, client, valkey):
    """Full memory: reading works, storing does not."""
    memory = valkey.config_get("maxmemory")["maxmemory"]
    try:
        valkey.config_set("maxmemory", 1)
        assert make().get("k", Source("value"), ttl_s=600) == "value"
    finally:
        valkey.config_set("maxmemory", memory)


def test_first_level_holds_thousand_entries_and_drops_oldest(make):
    cache = make()
    for number in range(1_001):
        cache.get(f"k{number}", Source(number), ttl_s=600)
    assert len(cache._first) == 1_000
    assert cache._first.get("k0", cache._now(), 60) is None


def test_warm_up_cannot_stop_start(make, nobody_there, time, metric):
    def broken() -> None:
        raise RuntimeError("the source is down")

    def slow() -> int:
        time.advance(4)
        return 1

    cache = make()
    assert cache.warm([("a", broken, 60), ("b", Source(1), 60)]) == 1
    assert cache.get("b", Source(2), ttl_s=60) == 1
    assert cache.warm([(f"slow{number}", slow, 60) for number in range(9)], limit_s=5) == 2
    assert Cache(nobody_there, now=time).warm([("a", broken, 60), ("b", Source(1), 60)]) == 1
    assert len(metric("CacheWarmupMilliseconds")) == 3


def test_cache_metrics_are_reported_once_a_minute(make, time, capsys):
    cache = make()
    for _ in range(3):
        cache.get("k", Source(1), ttl_s=600)
    assert "CacheHits" not in capsys.readouterr().out
    time.advance(60)
    cache.get("k", Source(1), ttl_s=600)
    written = capsys.readouterr().out
    assert '"CacheHits":[3.0]' in written
    assert '"CacheMisses":[1.0]' in written
    assert '"CacheHitRate":[75.0]' in written
    assert '"CacheEntries":[1.0]' in written
    assert '"CacheReadMilliseconds":[' in written
