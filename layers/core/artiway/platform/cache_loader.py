"""What happens when nobody has a value: one reader loads it, the others wait for that one, within limits."""

from __future__ import annotations

import json
import random
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from artiway.platform import scripts
from artiway.platform.breaker import Guard
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
    """Whatever waits or grows. Readers outwait a dead loader (`wait_s` > `load_s`), so one succeeds it, not all."""

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
        """Seconds that a text lives. Random, so that what was made together does not end together."""
        if text == "null":
            return min(self.ttl_s, NULL_TTL_S)
        return self.ttl_s + random.uniform(0, self.jitter_s)  # noqa: S311 (spreads, guards nothing)


class _Flight:
    """One loading inside this process; the threads that want the same key wait for it."""

    def __init__(self) -> None:
        self.landed = threading.Event()
        self.text: str | None = None


class Loader:
    """Inside the process one thread goes; among the processes the one that holds the key's token in Redis."""

    def __init__(
        self,
        redis: Redis,
        limits: Limits,
        first: FirstLevel,
        guarded: Guard,
        statistics: Statistics,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._limits, self._first, self._guarded, self._statistics = limits, first, guarded, statistics
        self._now, self._sleep = now, sleep
        self._claim = scripts.load(redis, "cache_claim")
        self._store = scripts.load(redis, "cache_store")
        self._flights: dict[str, _Flight] = {}
        self._guard = threading.Lock()

    def load(self, key: str, load: Callable[[], Any], life: Life) -> str:
        """The value as JSON. A failure of `load` is its reader's own; the next in line tries for itself."""
        give_up_at = self._now() + self._limits.wait_s
        while True:
            with self._guard:
                flight = self._flights.get(key)
                if flight is None:
                    own = self._flights[key] = _Flight()
                    break
            left_s = give_up_at - self._now()
            if left_s <= 0 or not flight.landed.wait(left_s):
                return self._ask(load)
            if flight.text is not None:
                self._statistics.second_level_hits += 1
                return flight.text
        try:
            own.text = self._load_shared(key, load, life, give_up_at)
            return own.text
        finally:
            with self._guard:
                if self._flights.get(key) is own:
                    del self._flights[key]
            own.landed.set()

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """A loading under way began before this: whoever asks from now on does not wait for it."""
        with self._guard:
            for key in filter(is_meant, list(self._flights)):
                del self._flights[key]

    def _load_shared(self, key: str, load: Callable[[], Any], life: Life, give_up_at: float) -> str:
        token = secrets.token_hex(8)
        pause_s = _POLL_S
        while True:
            asked_at = self._now()
            try:
                with self._guarded:
                    word, *found = self._claim(_keys(key), [token, int(self._limits.load_s * 1000)])
            except RedisAway:
                return self._load_alone(key, load)
            if word == "found":
                self._statistics.second_level_hits += 1
                return self._first.keep(key, found[0], found[1], asked_at)
            if word == "claimed":
                return self._load_and_store(key, token, load, life)
            if self._now() >= give_up_at:
                return self._ask(load)
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_POLL_S)

    def _load_and_store(self, key: str, token: str, load: Callable[[], Any], life: Life) -> str:
        asked_at = self._now()  # the value is as old as the question, not as the answer
        try:
            text = self._ask(load)
        except BaseException:
            self._hand_in(key, token, "", 0)  # the next reader need not wait for us
            raise
        expires_at = asked_at + life.of(text)
        ttl_ms = max(0, int((expires_at - self._now()) * 1000))
        stored = f"{int(expires_at * 1000)}:{text}"
        head = self._hand_in(key, token, stored, ttl_ms)
        if head is not None and ttl_ms > 0:
            self._first.keep(key, stored, head, asked_at)
        return text

    def _hand_in(self, key: str, token: str, stored: str, ttl_ms: int) -> str | None:
        """The head under which it was stored; None when it was invalidated meanwhile, or Redis is away."""
        try:
            with self._guarded:
                word, *head = self._store(_keys(key), [token, stored, ttl_ms])
        except RedisAway:
            return None
        return head[0] if word == "stored" else None

    def _load_alone(self, key: str, load: Callable[[], Any]) -> str:
        """Without Redis, nobody can tell us of changes: keep the answer for one sync interval, to spare the source."""
        asked_at = self._now()
        text = self._ask(load)
        expires_at = asked_at + self._limits.sync_s
        self._first.keep(key, f"{int(expires_at * 1000)}:{text}", self._first.head, asked_at)
        return text

    def _ask(self, load: Callable[[], Any]) -> str:
        self._statistics.loads += 1
        return json.dumps(load(), separators=(",", ":"), allow_nan=False)


def _keys(key: str) -> list[str]:
    return [cache_value(key), cache_loading(key), CACHE_HEAD]
