"""Two levels of cache: a small one in the process, a shared one in Redis. Both may vanish; neither may lie for long.

How an invalidation reaches other processes: nothing can be pushed to a frozen Lambda environment, so each process asks.
An invalidation appends to a log in Redis and moves its head. The first level is trusted only for `sync_s` after the
last look at the head; the next read then fetches the head beside its value, in one round trip (MGET), and a head that
moved leads to what must be forgotten. So a process is late by at most `sync_s`, however many keys it holds, and pays
one slightly larger read per `sync_s` for it.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from artiway.platform import metrics, scripts
from artiway.platform.breaker import Breaker
from artiway.platform.cache_level import FirstLevel
from artiway.platform.cache_loader import Life, Limits, Loader
from artiway.platform.cache_statistics import Statistics
from artiway.platform.logs import Logger
from artiway.platform.redis import RedisAway
from artiway.platform.redis_keys import CACHE_HEAD, CACHE_LOG, cache_loading, cache_value

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["Cache", "Limits"]

logger = Logger("cache")
T = TypeVar("T")

JITTER_S = 300
_LOG_ENTRIES = 1_000
_SCAN_COUNT = 500
_decode = json.JSONDecoder().raw_decode  # we wrote the text ourselves: no blanks to skip on the hot path


class Cache:
    """Values are JSON; every reader gets a copy of its own. A null is a value, kept for five minutes at most."""

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
        self.statistics = Statistics(now)
        self._loader = Loader(redis, self._limits, self._first, self._guarded, self.statistics, now=now, sleep=sleep)

    def get(self, key: str, load: Callable[[], T | None], *, ttl_s: float, jitter_s: float = JITTER_S) -> T | None:
        """The value, loaded by one reader if nobody has it. It is never older than `ttl_s` + `jitter_s`."""
        now = self._now()
        text = self._first.get(key, now, self._limits.sync_s)
        if text is not None:
            self.statistics.first_level_hits += 1
        else:
            text = self._read(key, now)
            if text is None:
                text = self._loader.load(key, load, Life(ttl_s, jitter_s))
        if self.statistics.is_due(now):
            self.statistics.report(entries=len(self._first))
        try:
            return cast("T | None", _decode(text)[0])
        except ValueError:
            logger.error("unreadable value in the cache", key=key)
            self.invalidate(key)
            return load()

    def invalidate(self, key: str) -> bool:
        """Forget a key everywhere. False when Redis is away: other processes then keep it until its TTL ends."""
        self._forget_here(lambda known: known == key)
        return self._forget_shared(lambda: self._announce(key, [cache_value(key), cache_loading(key)]))

    def invalidate_prefix(self, prefix: str) -> bool:
        """Forget all keys that begin so."""
        self._forget_here(lambda known: known.startswith(prefix))

        def forget() -> None:
            # Tokens first: a loading that began before us has then either lost its token, or stored its value early
            # enough for the second scan to be sure to see it.
            for pattern in (cache_loading(_escaped(prefix)), cache_value(_escaped(prefix))):
                for batch in _batches(self._redis.scan_iter(f"{pattern}*", count=_SCAN_COUNT)):
                    self._redis.unlink(*batch)
            self._announce(f"{prefix}*", [])  # last: what others read meanwhile may still be old

        return self._forget_shared(forget)

    def warm(self, items: Iterable[tuple[str, Callable[[], Any], float]], *, limit_s: float = 5) -> int:
        """Load (key, load, ttl_s) ahead of need. Whatever goes wrong here is left to the first reader."""
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
        """From Redis; when the last look is too old, with a look at what was invalidated in the same round trip."""
        # Without a new look the value is at least as young as the head that we know, which is all that is asked of it.
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
        self.statistics.read_took(self._now() - asked_at)
        if stored is None:
            return None
        self.statistics.second_level_hits += 1
        return self._first.keep(key, stored, head, asked_at)

    def _catch_up(self, head: str | None, asked_at: float) -> None:
        known = self._first.head
        if head is None:
            # A new Redis, or one that was emptied. Without a head of its own, the next loss would look like no change.
            self._first.move(known, self._announce("", []), None, asked_at)
            return
        if head == known:
            self._first.synced(asked_at)
            return
        news: list[str] | None = None
        if known is not None:
            entries = cast("list[tuple[str, dict[str, str]]]", self._redis.xrange(CACHE_LOG, min=known, max=head))
            # The log still holds the last entry that we saw, so it holds all that came after.
            if entries and entries[0][0] == known and entries[-1][0] == head:
                news = [fields["what"] for _, fields in entries[1:]]
        self._first.move(known, head, news, asked_at)

    def _forget_here(self, is_meant: Callable[[str], bool]) -> None:
        self._loader.forget(is_meant)
        self._first.forget(is_meant)

    def _announce(self, what: str, doomed: list[str]) -> str:
        birth = random.randrange(1, 2**31)  # noqa: S311 (tells logs apart, guards nothing)
        return str(self._invalidate([CACHE_LOG, CACHE_HEAD, *doomed], [what, _LOG_ENTRIES, birth]))

    def _forget_shared(self, forget: Callable[[], object]) -> bool:
        try:
            with self._guarded:
                forget()
        except RedisAway:
            metrics.emit("CacheInvalidationsLost", 1)
            return False
        return True


def _escaped(text: str) -> str:
    """A prefix is a text, not a pattern."""
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in text)


def _batches(keys: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == _SCAN_COUNT:
            yield batch
            batch = []
    if batch:
        yield batch
