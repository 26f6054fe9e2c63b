"""Forecasts in Redis: the tables of a pool and a row for each tenant, so that a reader takes only what it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from artiway.platform.redis import translated
from artiway.platform.redis_keys import forecast, forecast_claim
from artiway.scheduling.forecasts import Stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redis import Redis

KEPT_MS = 60_000


@dataclass(frozen=True)
class RedisForecasts:
    client: Redis

    def read(self, name: str, tenant_id: str, *, known_ms: int | None) -> Stored | None:
        """The newest forecast. Its tables are left out where the caller knows them."""
        key = forecast(name)
        with translated():
            at, row = cast("list[Any]", self.client.hmget(key, ["at", tenant_id]))
            if at is None:
                return None
            tables = None
            if int(at) != known_ms:
                # Written again meanwhile: tables and row are of one moment, and the time is that of an older one.
                tables, row = cast("list[Any]", self.client.hmget(key, ["tables", tenant_id]))
        return Stored(int(at), json.loads(tables) if tables else None, json.loads(row) if row else {})

    def claim(self, name: str, *, for_ms: int) -> bool:
        """Whether the caller is the one that computes the next forecast."""
        with translated():
            return bool(self.client.set(forecast_claim(name), "1", nx=True, px=for_ms))

    def write(self, name: str, at_ms: int, tables: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
        from redis.exceptions import OutOfMemoryError

        fields: dict[Any, Any] = {tenant_id: _json(row) for tenant_id, row in rows.items()}
        with translated():
            pipeline = self.client.pipeline()
            pipeline.delete(forecast(name), forecast_claim(name))
            pipeline.hset(forecast(name), mapping={**fields, "at": str(at_ms), "tables": _json(tables)})
            pipeline.pexpire(forecast(name), KEPT_MS)
            try:
                pipeline.execute()
            except OutOfMemoryError:
                return  # the caller has its forecast; others compute their own


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
