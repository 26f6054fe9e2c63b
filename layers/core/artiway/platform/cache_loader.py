"""Loads a missing value: one reader loads it, the others wait for that reader, with time limits."""

from __future__ import annotations

import json
import random
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artiway.platform import scripts
from artiway.platform.breaker import BreakerGuard
from artiway.platform.cache_level import FirstLevel
from artiway.platform.cache_statistics import Statistics
from artiway.platform.redis import RedisAway
from artiway.platform.redis_keys import CACHE_HEAD, cache_loading, cache_value

if TYPE_CHECKING:
    from redis import Redis

NULL_TTL_S = 300
_POLL_S = 0.005
_LONGEST_POLL_S = 0.05


@dataclass(frozen=True)
class Limits:
    """Readers wait longer than a dead loader's token lives (`wait_s` > `load_s`), so only one takes over."""

    entries: int = 1_000
    first_level_s: float = 60
    sync_s: float = 1
    load_s: float = 3
    wait_s: float = 8


@dataclass(frozen=True)
class Life:
    ttl_s: float
    jitter_s: float

    def of(self, text: str) -> float:
        """The TTL of a text in seconds. Random, so that values stored together do not expire together."""
        if text == "null":
            return min(self.ttl_s, NULL_TTL_S)
        return self.ttl_s + random.uniform(0, self.jitter_s)  # noqa: S311 (spreads expiry; not a secret)


class _Load:
    """One load inside this process. Threads that want the same key wait for it."""

    def __init__(self) -> None:
        self.finished = threading.Event()
        self.text: str | None = None


class Loader:
    """One thread per process loads a key, and of all processes the one that has the key's token in Redis."""

    def __init__(
        self,
        redis: Redis,
        limits: Limits,
        first: FirstLevel,
        guarded: BreakerGuard,
        statistics: Statistics,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._limits, self._first, self._guarded, self._statistics = limits, first, guarded, statistics
        self._now, self._sleep = now, sleep
        self._claim = scripts.load(redis, "cache_claim")
        self._store = scripts.load(redis, "cache_store")
        self._loads: dict[str, _Load] = {}
        self._guard = threading.Lock()

    def load(self, key: str, load: Callable[[], Any], life: Life) -> str:
        """The value as JSON. An exception of `load` reaches its own reader only; the next reader tries again."""
        give_up_at = self._now() + self._limits.wait_s
        while True:
            with self._guard:
                load_in_progress = self._loads.get(key)
                if load_in_progress is None:
                    own = self._loads[key] = _Load()
                    break
            remaining_s = give_up_at - self._now()
            if remaining_s <= 0 or not load_in_progress.finished.wait(remaining_s):
                return self._call(key, load)
            if load_in_progress.text is not None:
                self._statistics.second_level_hit(key)
                return load_in_progress.text
        try:
            own.text = self._load_shared(key, load, life, give_up_at)
            return own.text
        finally:
            with self._guard:
                if self._loads.get(key) is own:
                    del self._loads[key]
            own.finished.set()

    def load_again(self, key: str, load: Callable[[], Any], life: Life) -> str | None:
        """Replace the value in Redis. None if another reader loads it now."""
        token = secrets.token_hex(8)
        try:
            with self._guarded:
                outcome, *_ = self._claim(_keys(key), [token, int(self._limits.load_s * 1000), "1"])
        except RedisAway:
            return self._load_alone(key, load)
        return self._load_and_store(key, token, load, life) if outcome == "claimed" else None

    def forget(self, is_affected: Callable[[str], bool]) -> None:
        """A load in progress began before this invalidation, so new readers do not wait for it."""
        with self._guard:
            for key in filter(is_affected, list(self._loads)):
                del self._loads[key]

    def _load_shared(self, key: str, load: Callable[[], Any], life: Life, give_up_at: float) -> str:
        token = secrets.token_hex(8)
        pause_s = _POLL_S
        while True:
            asked_at = self._now()
            try:
                with self._guarded:
                    outcome, *found = self._claim(_keys(key), [token, int(self._limits.load_s * 1000), "0"])
            except RedisAway:
                return self._load_alone(key, load)
            if outcome == "found":
                self._statistics.second_level_hit(key)
                return self._first.keep(key, found[0], found[1], asked_at)
            if outcome == "claimed":
                return self._load_and_store(key, token, load, life)
            if self._now() >= give_up_at:
                return self._call(key, load)
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def _load_and_store(self, key: str, token: str, load: Callable[[], Any], life: Life) -> str:
        asked_at = self._now()  # the value's age counts from the start of the load
        try:
            text = self._call(key, load)
        except BaseException:
            self._store_value(key, token, "", 0)  # releases the token, so that the next reader need not wait
            raise
        expires_at = asked_at + life.of(text)
        ttl_ms = max(0, int((expires_at - self._now()) * 1000))
        stored = f"{int(expires_at * 1000)}:{text}"
        head = self._store_value(key, token, stored, ttl_ms)
        if head is not None and ttl_ms > 0:
            self._first.keep(key, stored, head, asked_at)
        return text

    def _store_value(self, key: str, token: str, stored: str, ttl_ms: int) -> str | None:
        """The head under which it was stored. None if it was invalidated meanwhile or Redis does not answer."""
        try:
            with self._guarded:
                outcome, *head = self._store(_keys(key), [token, stored, ttl_ms])
        except RedisAway:
            return None
        return head[0] if outcome == "stored" else None

    def _load_alone(self, key: str, load: Callable[[], Any]) -> str:
        """Without Redis no invalidation arrives: keep the value for one sync interval only."""
        asked_at = self._now()
        text = self._call(key, load)
        expires_at = asked_at + self._limits.sync_s
        self._first.keep(key, f"{int(expires_at * 1000)}:{text}", self._first.head, asked_at)
        return text

    def _call(self, key: str, load: Callable[[], Any]) -> str:
        self._statistics.loaded(key)
        return json.dumps(load(), separators=(",", ":"), allow_nan=False)


def _keys(key: str) -> list[str]:
    return [cache_value(key), cache_loading(key), CACHE_HEAD]
