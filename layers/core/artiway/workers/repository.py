"""The assets of the tenant whose node a worker holds."""

from __future__ import annotations

from uuid import UUID

from artiway.platform import sql
from artiway.platform.database import Database
from artiway.workers.model import Asset

SQL = sql.load("artiway.workers")


class PostgresAssets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def asset(
        self, tenant_id: UUID, *, node_id: UUID, attempt: int, worker_id: str, pool: str | None, asset_id: UUID
    ) -> Asset | None:
        """None: the worker does not hold the node."""
        held = {"node_id": node_id, "attempt": attempt, "worker_id": worker_id, "pool": pool, "asset_id": asset_id}
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["asset"], held)
        return None if row is None else Asset(**row)
