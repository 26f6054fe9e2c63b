"""After a failure, leave Redis alone for a moment: a server that hangs must not cost every caller its time limit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.platform.redis import RedisAway

logger = Logger("redis")
REST_S = 1.0


class Breaker:
    """Lets one user of Redis through, or raises RedisAway at once while it rests. Each refusal is counted."""

    def __init__(self, metric: str, *, rest_s: float = REST_S, now: Callable[[], float] = time.time) -> None:
        self._metric, self._rest_s, self._now = metric, rest_s, now
        self._failed_at = float("-inf")

    @property
    def is_resting(self) -> bool:
        return 0 <= self._now() - self._failed_at < self._rest_s

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        from redis.exceptions import RedisError

        if self.is_resting:
            metrics.emit(self._metric, 1)
            raise RedisAway
        try:
            yield
        except RedisError as error:  # also one that is full, loading or read-only: for us it is away
            self._failed_at = self._now()
            metrics.emit(self._metric, 1)
            logger.warning("redis is away", user=self._metric, reason=type(error).__name__)
            raise RedisAway from error
