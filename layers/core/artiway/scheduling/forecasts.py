"""The forecast of each pool, computed once for a moment and shared by all processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from artiway.errors import Unavailable
from artiway.platform.clock import Clock
from artiway.platform.ports import Cache
from artiway.scheduling.forecast import Forecast, Speed, compute
from artiway.scheduling.model import Backlog, TenantBacklog


class Queue(Protocol):
    def attach(self) -> bool: ...

    def backlog(self) -> Backlog: ...


class Store(Protocol):
    """What PostgreSQL knows of a pool: its backlog, for the time without Redis, and nodes that are not ready yet."""

    def backlog(self, pool: str) -> Backlog: ...

    def pending(self, pool: str) -> Mapping[str, TenantBacklog]: ...


class PoolForecasts:
    """A forecast is at most twice `for_s` old: once in the shared cache, once in the process."""

    def __init__(
        self,
        queue_of: Callable[[str], Queue],
        store: Store,
        speed_of: Callable[[str], Speed],
        cache: Cache,
        clock: Clock,
        *,
        for_s: float,
    ) -> None:
        self._queue_of, self._store, self._speed_of, self._cache = queue_of, store, speed_of, cache
        self._clock, self._for_s = clock, for_s
        self._known: dict[str, tuple[datetime, Forecast]] = {}

    def of(self, pool: str) -> Forecast:
        """For nodes that wait in the queue."""
        return self._shared(f"forecast:{pool}", lambda: compute(self._backlog(pool), self._speed_of(pool)))

    def with_pending(self, pool: str) -> Forecast:
        """For a new task: nodes that wait for their dependencies now will wait in the queue before it."""
        return self._shared(
            f"forecast:{pool}:pending",
            lambda: compute(self._backlog(pool).plus(self._store.pending(pool)), self._speed_of(pool)),
        )

    def _shared(self, key: str, load: Callable[[], dict[str, Any]]) -> Forecast:
        now = self._clock.now()
        if key not in self._known or self._known[key][0] <= now:
            data = self._cache.get(key, load, ttl_s=self._for_s, jitter_s=0)
            assert data is not None
            self._known[key] = (now + timedelta(seconds=self._for_s), Forecast(data))
        return self._known[key][1]

    def _backlog(self, pool: str) -> Backlog:
        queue = self._queue_of(pool)
        try:
            if queue.attach():
                return queue.backlog()
        except Unavailable:  # Redis is away or lost the queue
            pass
        return self._store.backlog(pool)
