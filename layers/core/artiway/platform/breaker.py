"""After a failure, leave Redis alone for a moment: a server that hangs must not cost every caller its time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.platform.redis import RedisAway

logger = Logger("redis")
REST_S = 2.0


class Breaker:
    """Lets its users through to Redis, or raises RedisAway at once while Redis rests. Each refusal is counted.

    One for all users of a client, so that the first who finds Redis gone spares the others the wait.
    """

    def __init__(self, *, rest_s: float = REST_S, now: Callable[[], float] = time.time) -> None:
        self._rest_s, self._now = rest_s, now
        self._failed_at = float("-inf")

    @contextlib.contextmanager
    def guarded(self, metric: str) -> Iterator[None]:
        from redis.exceptions import RedisError

        if 0 <= self._now() - self._failed_at < self._rest_s:
            metrics.emit(metric, 1)
            raise RedisAway
        try:
            yield
        except RedisError as error:  # also one that is full, loading or read-only: for us it is away
            self._failed_at = self._now()
            metrics.emit(metric, 1)
            logger.warning("redis is away", metric=metric, reason=type(error).__name__)
            raise RedisAway from error
