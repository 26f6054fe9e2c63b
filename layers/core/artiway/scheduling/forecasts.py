"""The forecast of each pool: computed by one caller at a time, shared by all processes, a few seconds old."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from artiway.errors import Unavailable
from artiway.platform.clock import Clock
from artiway.scheduling.forecast import Forecast, Speed, compute
from artiway.scheduling.model import Backlog, TenantBacklog

# While one caller computes, the others use a forecast up to this old. Without one they wait, a little.
STALE_MS = 30_000
CLAIM_MS = 10_000
WAIT_S = 0.05
WAITS = 40


@dataclass(frozen=True)
class Stored:
    """A forecast as it was stored. `tables` is None where the reader knows them; `row` is of one tenant."""

    at_ms: int
    tables: Mapping[str, Any] | None
    row: Mapping[str, Any]


class Queue(Protocol):
    def attach(self) -> bool: ...

    def backlog(self) -> Backlog: ...


class Store(Protocol):
    """What PostgreSQL knows of a pool: its backlog, for the time without Redis, and nodes that are not ready yet."""

    def backlog(self, pool: str) -> Backlog: ...

    def pending(self, pool: str) -> Mapping[str, TenantBacklog]: ...


class Shared(Protocol):
    """Forecasts that all processes see. Raises Unavailable without Redis."""

    def read(self, name: str, tenant_id: str, *, known_ms: int | None) -> Stored | None: ...

    def claim(self, name: str, *, for_ms: int) -> bool: ...

    def write(self, name: str, at_ms: int, tables: Mapping[str, Any], rows: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class _Known:
    at_ms: int
    tables: Mapping[str, Any]
    rows: Mapping[str, Any] | None = None


class PoolForecasts:
    def __init__(
        self,
        queue_of: Callable[[str], Queue],
        store: Store,
        speed_of: Callable[[str], Speed],
        shared: Shared,
        clock: Clock,
        *,
        for_s: float,
        pause: Callable[[float], None],
    ) -> None:
        """A forecast is used for `for_s`; then the next caller computes a new one."""
        self._queue_of, self._store, self._speed_of, self._shared = queue_of, store, speed_of, shared
        self._clock, self._for_ms, self._pause = clock, int(for_s * 1_000), pause
        self._known: dict[str, _Known] = {}

    def of(self, pool: str, tenant_id: str) -> Forecast:
        """For nodes of a tenant that wait in the queue."""
        return self._forecast(pool, pool, tenant_id, lambda: self._backlog(pool))

    def with_pending(self, pool: str, tenant_id: str) -> Forecast:
        """For a new task: nodes that wait for their dependencies now will wait in the queue before it."""
        return self._forecast(
            f"{pool}+pending", pool, tenant_id, lambda: self._backlog(pool).plus(self._store.pending(pool))
        )

    def _forecast(self, name: str, pool: str, tenant_id: str, load: Callable[[], Backlog]) -> Forecast:
        def make() -> _Known:
            made = compute(load(), self._speed_of(pool))
            # Counted from here: on a machine so slow that it is old by now, it would else never be used.
            self._known[name] = _Known(self._now_ms(), made.tables, made.rows)
            return self._known[name]

        try:
            return self._shared_forecast(name, tenant_id, make)
        except Unavailable:  # without Redis each process has its own
            known = self._known.get(name)
            if known is None or known.rows is None or self._now_ms() - known.at_ms >= self._for_ms:
                known = make()
            assert known.rows is not None
            return Forecast(known.tables, known.rows.get(tenant_id, {}))

    def _shared_forecast(self, name: str, tenant_id: str, make: Callable[[], _Known]) -> Forecast:
        for _ in range(WAITS):
            found = self._read(name, tenant_id)
            age_ms = None if found is None else self._now_ms() - found.at_ms
            if found is not None and age_ms is not None and age_ms < self._for_ms:
                break
            if self._shared.claim(name, for_ms=CLAIM_MS):
                made = make()
                assert made.rows is not None
                self._shared.write(name, made.at_ms, made.tables, made.rows)
                return Forecast(made.tables, made.rows.get(tenant_id, {}))
            if found is not None and age_ms is not None and age_ms < STALE_MS:
                break
            self._pause(WAIT_S)
        else:
            made = make()
            assert made.rows is not None
            return Forecast(made.tables, made.rows.get(tenant_id, {}))
        return Forecast(self._known[name].tables, found.row)

    def _read(self, name: str, tenant_id: str) -> Stored | None:
        known = self._known.get(name)
        found = self._shared.read(name, tenant_id, known_ms=None if known is None else known.at_ms)
        if found is not None and found.tables is not None:
            self._known[name] = _Known(found.at_ms, found.tables)
        elif found is not None and (known is None or found.at_ms != known.at_ms):
            return None  # it was deleted between two reads
        return found

    def _backlog(self, pool: str) -> Backlog:
        queue = self._queue_of(pool)
        try:
            if queue.attach():
                return queue.backlog()
        except Unavailable:  # Redis is away or lost the queue
            pass
        return self._store.backlog(pool)

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1_000)
