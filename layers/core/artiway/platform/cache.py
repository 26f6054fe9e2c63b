"""Two levels of cache: a small one in the process, a shared one in Redis. Both may be lost at any time.

How an invalidation reaches other processes: nothing can be pushed to a frozen Lambda environment, so each process
polls. An invalidation appends to a log in Redis and sets the head to its id. The first level is valid for `sync_s`
after the last read of the head. The next read fetches the head with its value in one round trip (MGET); if the head
has moved, the process reads the log and drops what was invalidated. So a process is late by at most `sync_s`, however
many keys it has, and pays one slightly larger read per `sync_s`.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from artiway.platform import metrics, scripts
from artiway.platform.breaker import Breaker
from artiway.platform.cache_level import FirstLevel
from artiway.platform.cache_loader import Life, Limits, Loader
from artiway.platform.cache_statistics import NameStatistics, Statistics, by_name
from artiway.platform.logs import Logger
from artiway.platform.ports import JITTER_S
from artiway.platform.redis import RedisAway
from artiway.platform.redis_keys import CACHE_HEAD, CACHE_LOG, cache_loading, cache_statistics, cache_value

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["Cache", "Limits", "Overview"]

logger = Logger("cache")
T = TypeVar("T")


_LOG_ENTRIES = 1_000
_SCAN_COUNT = 500
_STATISTICS_S = 7_200
_decode = json.JSONDecoder().raw_decode  # our own text has no blanks to skip, and this is the hot path


@dataclass(frozen=True)
class Overview:
    """The names that were read, and how many values of each name Redis has. Not complete if a scan was cut short."""

    names: list[NameStatistics]
    sizes: Mapping[str, int]
    is_complete: bool


class Cache:
    """Values are JSON; every reader gets its own copy. A null is a value and lives at most five minutes."""

    def __init__(
        self,
        redis: Redis,
        limits: Limits | None = None,
        *,
        breaker: Breaker | None = None,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._redis, self._limits, self._now = redis, limits or Limits(), now
        self._invalidate = scripts.load(redis, "cache_invalidate")
        self._first = FirstLevel(self._limits.entries, self._limits.first_level_s)
        self._guarded = (breaker or Breaker(now=now)).guard("CacheRedisAway")
        self._statistics = Statistics(now)
        self._loader = Loader(redis, self._limits, self._first, self._guarded, self._statistics, now=now, sleep=sleep)

    def get(self, key: str, load: Callable[[], T | None], *, ttl_s: float, jitter_s: float = JITTER_S) -> T | None:
        """The value. If no level has it, one reader loads it. It is never older than `ttl_s` + `jitter_s`."""
        now = self._now()
        text = self._first.get(key, now, self._limits.sync_s)
        if text is not None:
            self._statistics.first_level_hit(key)
        else:
            text = self._read(key, now)
            if text is None:
                text = self._loader.load(key, load, Life(ttl_s, jitter_s))
        if self._statistics.is_due(now):
            self._share(self._statistics.report(entries=len(self._first)), now)
        try:
            return cast("T | None", _decode(text)[0])
        except ValueError:
            logger.error("unreadable value in the cache", key=key)
            self.invalidate(key)
            return load()

    def refresh(
        self,
        key: str,
        load: Callable[[], T | None],
        *,
        ttl_s: float,
        jitter_s: float = JITTER_S,
        is_current: Callable[[T], bool] = lambda _value: False,
    ) -> T | None:
        """Load the value again, unless the shared one `is_current`, and replace it in all processes.

        One reader loads; the others get the older value meanwhile. If the load fails, the older value stays.
        """
        self._first.forget(lambda known: known == key)
        older = self._read(key, self._now())
        if older is None:
            return self.get(key, load, ttl_s=ttl_s, jitter_s=jitter_s)
        value = cast("T | None", _decode(older)[0])
        if value is not None and is_current(value):
            return value
        text = self._loader.load_again(key, load, Life(ttl_s, jitter_s))
        if text is None:
            return value
        if text != older:
            self._drop_shared(lambda: self._append(key, []))
        return cast("T | None", _decode(text)[0])

    def invalidate(self, key: str) -> bool:
        """Drop a key in all processes. False if Redis does not answer: others then keep it until its TTL ends."""
        self._drop_here(lambda known: known == key)
        return self._drop_shared(lambda: self._append(key, [cache_value(key), cache_loading(key)]))

    def invalidate_prefix(self, prefix: str) -> bool:
        """Drop all keys with this prefix in all processes."""
        self._drop_here(lambda known: known.startswith(prefix))
        return self._drop_shared(lambda: self._delete(prefix, limit=None))

    def delete_prefix(self, prefix: str, *, limit: int) -> int:
        """Drop the keys with this prefix, at most `limit` of them. Returns how many. Raises RedisAway."""
        self._drop_here(lambda known: known.startswith(prefix))
        with self._guarded:
            return self._delete(prefix, limit=limit)

    def overview(self, *, minutes: int, most_keys: int) -> Overview:
        """The statistics of all processes in the last minutes. Raises RedisAway."""
        minute = int(self._now() // 60)
        with self._guarded:
            pipeline = self._redis.pipeline(transaction=False)
            for past in range(minutes):
                pipeline.hgetall(cache_statistics(minute - past))
            counts: Counter[str] = Counter()
            for row in pipeline.execute():
                counts.update({field: int(count) for field, count in row.items()})
            sizes: Counter[str] = Counter()
            prefix = cache_value("")
            found = self._redis.scan_iter(f"{prefix}*", count=_SCAN_COUNT)
            for key in islice(found, most_keys):
                sizes[key.removeprefix(prefix).partition(":")[0]] += 1
        return Overview(by_name(counts), dict(sizes), is_complete=sum(sizes.values()) < most_keys)

    def warm(self, items: Iterable[tuple[str, Callable[[], Any], float]], *, limit_s: float = 5) -> int:
        """Load each (key, load, ttl_s) in advance. A failure is only logged: the first reader loads again."""
        began = self._now()
        warmed = 0
        for key, load, ttl_s in items:
            if not 0 <= self._now() - began < limit_s:
                logger.warning("warm-up cut short", warmed=warmed)
                break
            try:
                self.get(key, load, ttl_s=ttl_s)
                warmed += 1
            except Exception:
                logger.exception("warm-up failed", key=key)
        metrics.emit("CacheWarmupMilliseconds", (self._now() - began) * 1000, "Milliseconds")
        return warmed

    def _read(self, key: str, asked_at: float) -> str | None:
        """The value in Redis. If the head was read too long ago, the same round trip reads it again."""
        # Without a new head the value is at least as recent as the known head, which is enough.
        head = self._first.head
        try:
            with self._guarded:
                if self._first.is_synced(asked_at, self._limits.sync_s):
                    stored = cast("str | None", self._redis.get(cache_value(key)))
                else:
                    stored, head = cast("list[str | None]", self._redis.mget(cache_value(key), CACHE_HEAD))
                    self._catch_up(head, asked_at)
        except RedisAway:
            return None
        self._statistics.read_took(key, self._now() - asked_at)
        if stored is None:
            return None
        self._statistics.second_level_hit(key)
        return self._first.keep(key, stored, head, asked_at)

    def _catch_up(self, head: str | None, asked_at: float) -> None:
        known = self._first.head
        if head is None:
            # Redis is new or was flushed. It needs a head now, else the next flush would look like no change.
            self._first.move(known, self._append("", []), None, asked_at)
            return
        if head == known:
            self._first.synced(asked_at)
            return
        invalidated: list[str] | None = None
        if known is not None:
            entries = cast("list[tuple[str, dict[str, str]]]", self._redis.xrange(CACHE_LOG, min=known, max=head))
            # The log still has the last known entry, so it has every later one.
            if entries and entries[0][0] == known and entries[-1][0] == head:
                invalidated = [fields["what"] for _, fields in entries[1:]]
        self._first.move(known, head, invalidated, asked_at)

    def _delete(self, prefix: str, *, limit: int | None) -> int:
        values = 0
        # Loading tokens first: a load that began earlier has then either lost its token, or has stored its value
        # before the second scan, which finds it.
        for pattern in (cache_loading(_escaped(prefix)), cache_value(_escaped(prefix))):
            values = 0
            for batch in _batches(islice(self._redis.scan_iter(f"{pattern}*", count=_SCAN_COUNT), limit)):
                values += self._redis.unlink(*batch)
        self._append(f"{prefix}*", [])  # last: until now other processes may have read old values
        return values

    def _share(self, counts: Mapping[str, int], now: float) -> None:
        """Add this process's counts to those of all processes. They are lost without Redis."""
        key = cache_statistics(int(now // 60))
        with contextlib.suppress(RedisAway), self._guarded:
            pipeline = self._redis.pipeline(transaction=False)
            for field, count in counts.items():
                pipeline.hincrby(key, field, count)
            pipeline.expire(key, _STATISTICS_S)
            pipeline.execute()

    def _drop_here(self, is_affected: Callable[[str], bool]) -> None:
        self._loader.forget(is_affected)
        self._first.forget(is_affected)

    def _append(self, what: str, doomed: list[str]) -> str:
        birth = random.randrange(1, 2**31)  # noqa: S311 (makes ids of two logs differ; not a secret)
        return str(self._invalidate([CACHE_LOG, CACHE_HEAD, *doomed], [what, _LOG_ENTRIES, birth]))

    def _drop_shared(self, drop: Callable[[], object]) -> bool:
        try:
            with self._guarded:
                drop()
        except RedisAway:
            metrics.emit("CacheInvalidationsLost", 1)
            return False
        return True


def _escaped(text: str) -> str:
    """Escape the characters that SCAN's MATCH treats as a pattern."""
    return "".join(f"\\{character}" if character in "*?[]\\" else character for character in text)


def _batches(keys: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == _SCAN_COUNT:
            yield batch
            batch = []
    if batch:
        yield batch
