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
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from artiway.platform import metrics, scripts
from artiway.platform.breaker import Breaker
from artiway.platform.cache_level import Entry, FirstLevel
from artiway.platform.cache_statistics import Statistics
from artiway.platform.logs import Logger
from artiway.platform.redis import RedisAway

if TYPE_CHECKING:
    from redis import Redis

logger = Logger("cache")
T = TypeVar("T")

JITTER_S = 300
NULL_TTL_S = 300
_HEAD = "cache:head"
_LOG = "cache:log"
_LOG_ENTRIES = 1_000
_SCAN_COUNT = 500
_POLL_S = 0.005
_LONGEST_POLL_S = 0.05
_decode = json.JSONDecoder().raw_decode  # we wrote the text ourselves: no blanks to skip on the hot path


@dataclass(frozen=True)
class Limits:
    """Whatever waits or grows. Readers outwait a dead loader (`wait_s` > `load_s`), so one succeeds it, not all."""

    entries: int = 1_000
    first_level_s: float = 60
    sync_s: float = 1
    load_s: float = 3
    wait_s: float = 8


class _Flight:
    """One loading inside this process; the threads that want the same key wait for it."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.text: str | None = None


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
        self._redis, self._limits, self._now, self._sleep = redis, limits or Limits(), now, sleep
        self._claim = scripts.load(redis, "cache_claim")
        self._store = scripts.load(redis, "cache_store")
        self._invalidate = scripts.load(redis, "cache_invalidate")
        self._first = FirstLevel(self._limits.entries)
        self._flights: dict[str, _Flight] = {}
        self._flights_guard = threading.Lock()
        self._guarded = (breaker or Breaker(now=now)).guard("CacheRedisAway")
        self.statistics = Statistics(now)

    def get(self, key: str, load: Callable[[], T | None], *, ttl_s: float, jitter_s: float = JITTER_S) -> T | None:
        """The value, loaded by one reader if nobody has it. It is never older than `ttl_s` + `jitter_s`."""
        now = self._now()
        text = self._first.get(key, now, self._limits.sync_s)
        if text is not None:
            self.statistics.first_level_hits += 1
        else:
            text = self._read(key, now)
            if text is None:
                text = self._load_once(key, load, ttl_s=ttl_s, jitter_s=jitter_s)
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
        return self._forget_shared(lambda: self._announce(key, [_value(key), _loading(key)]))

    def invalidate_prefix(self, prefix: str) -> bool:
        """Forget all keys that begin so."""
        self._forget_here(lambda known: known.startswith(prefix))

        def forget() -> None:
            # Tokens first: a loading that began before us has then either lost its token, or stored its value early
            # enough for the second scan to be sure to see it.
            for pattern in (_loading(_escaped(prefix)), _value(_escaped(prefix))):
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
                    stored = cast("str | None", self._redis.get(_value(key)))
                else:
                    stored, head = cast("list[str | None]", self._redis.mget(_value(key), _HEAD))
                    self._catch_up(head, asked_at)
        except RedisAway:
            return None
        self.statistics.read_took(self._now() - asked_at)
        if stored is None:
            return None
        self.statistics.second_level_hits += 1
        return self._keep(key, stored, head, asked_at)

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
            entries = cast("list[tuple[str, dict[str, str]]]", self._redis.xrange(_LOG, min=known, max=head))
            # The log still holds the last entry that we saw, so it holds all that came after.
            if entries and entries[0][0] == known and entries[-1][0] == head:
                news = [fields["what"] for _, fields in entries[1:]]
        self._first.move(known, head, news, asked_at)

    def _keep(self, key: str, stored: str, head: str | None, asked_at: float) -> str:
        expires_ms, _, text = stored.partition(":")
        if not expires_ms.isdecimal():
            return ""  # not ours, and no JSON: the reader finds out
        expires_at = min(int(expires_ms) / 1000, asked_at + self._limits.first_level_s)
        self._first.put(key, Entry(text, expires_at, checked_at=asked_at), head)
        return text

    def _load_once(self, key: str, load: Callable[[], T | None], *, ttl_s: float, jitter_s: float) -> str:
        """Inside the process one thread goes; among the processes one holds the token."""
        give_up_at = self._now() + self._limits.wait_s
        while True:
            with self._flights_guard:
                flight = self._flights.get(key)
                is_leader = flight is None
                if flight is None:
                    flight = self._flights[key] = _Flight()
            if is_leader:
                try:
                    flight.text = self._load_shared(key, load, give_up_at, ttl_s=ttl_s, jitter_s=jitter_s)
                    return flight.text
                finally:
                    with self._flights_guard:
                        if self._flights.get(key) is flight:
                            del self._flights[key]
                    flight.landed.set()
            left_s = give_up_at - self._now()
            if left_s <= 0 or not flight.landed.wait(left_s):
                return self._from_source(load, None)
            if flight.text is not None:
                self.statistics.second_level_hits += 1
                return flight.text

    def _load_shared(
        self, key: str, load: Callable[[], T | None], give_up_at: float, *, ttl_s: float, jitter_s: float
    ) -> str:
        token = secrets.token_hex(8)
        keys = [_value(key), _loading(key), _HEAD]
        pause_s = _POLL_S
        while True:
            asked_at = self._now()
            try:
                with self._guarded:
                    word, *found = self._claim(keys, [token, int(self._limits.load_s * 1000)])
            except RedisAway:
                return self._from_source(load, key)
            if word == "found":
                self.statistics.second_level_hits += 1
                return self._keep(key, found[0], found[1], asked_at)
            if word == "claimed":
                return self._load_and_store(key, token, load, ttl_s=ttl_s, jitter_s=jitter_s)
            if self._now() >= give_up_at:
                return self._from_source(load, None)
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def _load_and_store(
        self, key: str, token: str, load: Callable[[], T | None], *, ttl_s: float, jitter_s: float
    ) -> str:
        keys = [_value(key), _loading(key), _HEAD]
        asked_at = self._now()  # the value is as old as the question, not as the answer
        try:
            text = self._from_source(load, None)
        except BaseException:
            self._finish(keys, token, "", 0)  # the next reader need not wait for us
            raise
        jitter_s = random.uniform(0, jitter_s)  # noqa: S311 (spreads expiries, guards nothing)
        life_s = min(ttl_s, NULL_TTL_S) if text == "null" else ttl_s + jitter_s
        expires_at = asked_at + life_s
        ttl_ms = int((expires_at - self._now()) * 1000)
        stored = f"{int(expires_at * 1000)}:{text}"
        outcome = self._finish(keys, token, stored, max(0, ttl_ms))
        if outcome is not None and ttl_ms > 0:
            self._keep(key, stored, outcome[0], asked_at)
        return text

    def _finish(self, keys: list[str], token: str, stored: str, ttl_ms: int) -> list[str | None] | None:
        """Hand in what was loaded; None when it was not wanted any more, or could not be handed in."""
        try:
            with self._guarded:
                word, *head = self._store(keys, [token, stored, ttl_ms])
        except RedisAway:
            return None
        return (head or [None]) if word == "stored" else None

    def _from_source(self, load: Callable[[], T | None], key_while_away: str | None) -> str:
        """Ask the source itself. Without Redis the answer is kept for `sync_s` in this process, to spare the source."""
        self.statistics.loads += 1
        asked_at = self._now()
        text = json.dumps(load(), separators=(",", ":"), allow_nan=False)
        if key_while_away is not None:
            expires_at = asked_at + self._limits.sync_s
            self._first.put(key_while_away, Entry(text, expires_at, checked_at=asked_at), self._first.head)
        return text

    def _forget_here(self, is_meant: Callable[[str], bool]) -> None:
        """A loading under way began before this: whoever asks from now on does not wait for it."""
        with self._flights_guard:
            for key in filter(is_meant, list(self._flights)):
                del self._flights[key]
        self._first.forget(is_meant)

    def _announce(self, what: str, doomed: list[str]) -> str:
        birth = random.randrange(1, 2**31)  # noqa: S311 (tells logs apart, guards nothing)
        return str(self._invalidate([_LOG, _HEAD, *doomed], [what, _LOG_ENTRIES, birth]))

    def _forget_shared(self, forget: Callable[[], object]) -> bool:
        try:
            with self._guarded:
                forget()
        except RedisAway:
            metrics.emit("CacheInvalidationsLost", 1)
            return False
        return True


def _value(key: str) -> str:
    return f"cache:value:{key}"


def _loading(key: str) -> str:
    return f"cache:loading:{key}"


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
