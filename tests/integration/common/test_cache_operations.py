"""Refresh, statistics, deletion by prefix and warm-up of the cache, on a real Redis."""

from __future__ import annotations

import pytest

from artiway.platform.cache import Cache, Limits
from artiway.platform.cache_statistics import CLASSES_MS, REPORT_S
from artiway.platform.redis import RedisAway


def fails() -> int:
    raise RuntimeError("no source")


class TestRefresh:
    def test_refreshed_value_reaches_other_processes(self, client, time):
        one, other = Cache(client, now=time), Cache(client, now=time)
        assert (one.get("k", lambda: 1, ttl_s=3_600), other.get("k", lambda: 1, ttl_s=3_600)) == (1, 1)
        assert one.refresh("k", lambda: 2, ttl_s=3_600) == 2
        time.advance(2)
        assert (one.get("k", fails, ttl_s=3_600), other.get("k", fails, ttl_s=3_600)) == (2, 2)

    def test_current_value_is_not_loaded_again(self, client, time):
        cache = Cache(client, now=time)
        cache.get("k", lambda: 1, ttl_s=3_600)
        assert cache.refresh("k", fails, ttl_s=3_600, is_current=lambda value: value == 1) == 1

    def test_failed_refresh_keeps_the_older_value(self, client, time, valkey):
        cache = Cache(client, now=time)
        cache.get("k", lambda: 1, ttl_s=3_600)
        with pytest.raises(RuntimeError):
            cache.refresh("k", fails, ttl_s=3_600)
        assert cache.get("k", fails, ttl_s=3_600) == 1
        assert valkey.get("cache:loading:k") is None  # the next refresh need not wait

    def test_second_refresher_gets_the_older_value(self, client, time):
        one, other = Cache(client, now=time), Cache(client, now=time)
        one.get("k", lambda: 1, ttl_s=3_600)
        inner: list[int | None] = []

        def load() -> int:
            inner.append(other.refresh("k", fails, ttl_s=3_600))
            return 2

        assert one.refresh("k", load, ttl_s=3_600) == 2
        assert inner == [1]

    def test_invalidation_during_refresh_wins(self, client, time):
        one, other = Cache(client, now=time), Cache(client, now=time)
        one.get("k", lambda: 1, ttl_s=3_600)

        def load() -> int:
            other.invalidate("k")
            return 2

        one.refresh("k", load, ttl_s=3_600)
        assert other.get("k", lambda: 3, ttl_s=3_600) == 3

    def test_missing_value_and_lost_redis_are_loaded(self, client, time, nobody_there):
        assert Cache(client, now=time).refresh("k", lambda: 1, ttl_s=3_600) == 1
        assert Cache(nobody_there, now=time).refresh("k", lambda: 2, ttl_s=3_600) == 2


class TestDeletion:
    def test_only_cached_values_with_prefix_are_deleted(self, client, time, valkey):
        cache, other = Cache(client, now=time), Cache(client, now=time)
        for key in ("geo:1", "geo:2", "geo*", "settings"):
            cache.get(key, lambda: 1, ttl_s=3_600)
            other.get(key, fails, ttl_s=3_600)
        for key in ("rate:geo:1", "geo:1", "{artiway:wfq:gpu}:epoch", "lock:geo:"):
            valkey.set(key, "1")
        assert cache.delete_prefix("geo:", limit=100) == 2
        assert {"rate:geo:1", "geo:1", "{artiway:wfq:gpu}:epoch", "lock:geo:"} <= set(valkey.keys())
        time.advance(2)
        assert other.get("geo:1", lambda: 2, ttl_s=3_600) == 2
        assert other.get("geo*", fails, ttl_s=3_600) == 1

    def test_deletion_is_bounded(self, client, time, valkey):
        cache = Cache(client, now=time)
        for number in range(30):
            cache.get(f"geo:{number}", lambda: 1, ttl_s=3_600)
        assert cache.delete_prefix("geo:", limit=10) == 10
        assert len(valkey.keys("cache:value:*")) == 20

    def test_deletion_without_redis_says_so(self, nobody_there, time):
        with pytest.raises(RedisAway):
            Cache(nobody_there, now=time).delete_prefix("geo:", limit=10)


class TestStatistics:
    def test_counts_of_all_processes_are_added(self, client, time):
        one, other = Cache(client, now=time), Cache(client, now=time)
        for cache in (one, other):
            for _ in range(4):
                cache.get("geo:1", lambda: 1, ttl_s=3_600)
        time.advance(REPORT_S)
        for cache in (one, other):
            cache.get("settings", lambda: 1, ttl_s=3_600)
        overview = one.overview(minutes=60, most_keys=100)
        found = {statistics.name: statistics for statistics in overview.names}
        geo = found["geo"]
        assert (geo.first_level_hits, geo.second_level_hits, geo.loads, geo.hit_rate) == (6, 1, 1, 7 / 8)
        assert geo.read_p95_ms in CLASSES_MS
        assert (overview.sizes, overview.is_complete) == ({"geo": 1, "settings": 1}, True)
        time.advance(3_600)
        assert one.overview(minutes=60, most_keys=100).names == []

    def test_size_is_counted_up_to_its_limit(self, client, time):
        cache = Cache(client, now=time)
        for number in range(10):
            cache.get(f"geo:{number}", lambda: 1, ttl_s=3_600)
        overview = cache.overview(minutes=1, most_keys=4)
        assert (overview.sizes, overview.is_complete) == ({"geo": 4}, False)

    def test_statistics_expire(self, client, time, valkey):
        cache = Cache(client, now=time)
        time.advance(REPORT_S)
        cache.get("geo:1", lambda: 1, ttl_s=3_600)
        (key,) = valkey.keys("cache:statistics:*")
        assert 0 < valkey.ttl(key) <= 7_200


def test_warm_up_ends_with_its_limit(client, time):
    cache = Cache(client, Limits(), now=time)

    def slow() -> int:
        time.advance(0.6)
        return 1

    assert cache.warm([(f"k{number}", slow, 60) for number in range(5)], limit_s=1) == 2


def test_warm_up_survives_failing_loads(client, time, nobody_there):
    assert Cache(client, now=time).warm([("a", fails, 60), ("b", lambda: 1, 60)]) == 1
    assert Cache(nobody_there, now=time).warm([("a", fails, 60), ("b", lambda: 1, 60)]) == 1
