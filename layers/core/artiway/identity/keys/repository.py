"""The API keys of one tenant, as `artiway_app`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.identity.model import ApiKey
from artiway.ids import to_wire
from artiway.platform import sql
from artiway.platform.database import Database

SQL = sql.load("artiway.identity.keys")


class PostgresKeys:
    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def add(self, key: ApiKey, secret_hash: bytes, *, most: int) -> bool:
        with self._database.tenant_transaction(key.tenant_id) as tx:
            counted = tx.one(SQL["count_api_keys"], {"user_id": key.user_id})
            if counted is not None and counted["keys"] >= most:
                return False
            facts = asdict(key) | {"permissions": sorted(key.permissions), "secret_hash": secret_hash}
            tx.run(SQL["insert_api_key"], facts)
            self._audit.record(
                tx,
                actor_id=key.user_id,
                action="api_key.created",
                target=to_wire("key", key.key_id),
                details={"name": key.name, "permissions": sorted(key.permissions), "is_signed": key.is_signed},
            )
            return True

    def keys(self, tenant_id: UUID, *, user_id: UUID | None, after: UUID | None, limit: int) -> Sequence[ApiKey]:
        with self._database.tenant_transaction(tenant_id) as tx:
            rows = tx.all(SQL["api_keys"], {"user_id": user_id, "after": after, "limit": limit})
        return [ApiKey(**row | {"permissions": frozenset(row["permissions"])}) for row in rows]

    def remove(self, tenant_id: UUID, key_id: UUID, *, user_id: UUID | None, actor_id: UUID) -> bool:
        with self._database.tenant_transaction(tenant_id) as tx:
            if tx.run(SQL["delete_api_key"], {"key_id": key_id, "user_id": user_id}) == 0:
                return False
            self._audit.record(tx, actor_id=actor_id, action="api_key.deleted", target=to_wire("key", key_id))
            return True
