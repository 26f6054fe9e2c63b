"""After a failure, leave Redis alone for a moment: a server that hangs must not cost every caller its time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.platform.redis import RedisAway

logger = Logger("redis")
REST_S = 2.0


class Breaker:
    """What is known of an absent Redis. One for all users of a client: who waits first spares the others."""

    def __init__(self, *, rest_s: float = REST_S, now: Callable[[], float] = time.time) -> None:
        self._rest_s, self._now = rest_s, now
        self._failed_at: float | None = None
        self._silent_at: float | None = None

    def guard(self, metric: str) -> Guard:
        return Guard(self, metric)

    def is_resting(self) -> bool:
        """After any failure, for those who can do without Redis: also one that is full is better left alone."""
        return self._is_recent(self._failed_at)

    def rest(self) -> None:
        self._failed_at = self._now()

    def is_silent(self) -> bool:
        """After a call that was not answered, for everybody: the next one would wait as long."""
        return self._is_recent(self._silent_at)

    def fall_silent(self) -> None:
        self._failed_at = self._silent_at = self._now()

    def _is_recent(self, at: float | None) -> bool:
        return at is not None and 0 <= self._now() - at < self._rest_s


class Guard:
    """`with guard:` lets through to Redis, or raises RedisAway at once while it rests; each refusal is counted.

    A class and not a generator, and made once: it stands before every read of the cache.
    """

    def __init__(self, breaker: Breaker, metric: str) -> None:
        self._breaker, self._metric = breaker, metric

    def __enter__(self) -> None:
        if self._breaker.is_resting():
            metrics.emit(self._metric, 1)
            raise RedisAway

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        from redis.exceptions import RedisError

        if isinstance(error, RedisError):  # also one that is full, loading or read-only: for us it is away
            self._breaker.rest()
            metrics.emit(self._metric, 1)
            logger.warning("redis is away", metric=self._metric, reason=type(error).__name__)
            raise RedisAway from error
