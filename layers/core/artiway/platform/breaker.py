"""A circuit breaker for Redis: after a failure no call is made for a moment, so that not every caller waits."""

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
    """Remembers failures. All users of a client share one breaker, so only the first of them waits."""

    def __init__(self, *, rest_s: float = REST_S, now: Callable[[], float] = time.time) -> None:
        self._rest_s, self._now = rest_s, now
        self._failed_at: float | None = None
        self._silent_at: float | None = None

    def guard(self, metric: str) -> BreakerGuard:
        return BreakerGuard(self, metric)

    def is_resting(self) -> bool:
        """After any recent failure, also an error such as out of memory. For callers that can work without Redis."""
        return self._is_recent(self._failed_at)

    def rest(self) -> None:
        self._failed_at = self._now()

    def is_silent(self) -> bool:
        """After a recent call without an answer. For all callers: the next call would wait as long."""
        return self._is_recent(self._silent_at)

    def fall_silent(self) -> None:
        self._failed_at = self._silent_at = self._now()

    def _is_recent(self, at: float | None) -> bool:
        return at is not None and 0 <= self._now() - at < self._rest_s


class BreakerGuard:
    """`with guard:` runs the block, or raises RedisAway at once while the breaker is open; each refusal is counted.

    A class and not a generator, made once: every read of the cache passes through it.
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

        if isinstance(error, RedisError):  # also out of memory, loading or read-only: none of them can serve us
            self._breaker.rest()
            metrics.emit(self._metric, 1)
            logger.warning("redis is away", metric=self._metric, reason=type(error).__name__)
            raise RedisAway from error
