"""The API keys of one tenant, as `artiway_app`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.identity.model import ApiKey, KeyLimits, TokenNotAccepted, TooManyKeys, as_details
from artiway.ids import to_wire
from artiway.platform import sql
from artiway.platform.database import Database, Row

SQL = sql.load("artiway.identity.keys")


class PostgresKeys:
    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def add(self, key: ApiKey, secret_hash: bytes, *, limits: KeyLimits) -> None:
        with self._database.tenant_transaction(key.tenant_id) as tx:
            tx.run(SQL["lock_api_keys"])
            counted = tx.one(SQL["count_api_keys"], {"user_id": key.user_id})
            assert counted is not None
            if counted["of_user"] >= limits.per_user:
                raise TooManyKeys("person", limits.per_user)
            if counted["of_tenant"] >= limits.per_tenant:
                raise TooManyKeys("tenant", limits.per_tenant)
            facts = asdict(key) | {"permissions": sorted(key.permissions), "secret_hash": secret_hash}
            if tx.run(SQL["insert_api_key"], facts) == 0:
                raise TokenNotAccepted
            details = {"name": key.name, "permissions": key.permissions, "is_signed": key.is_signed}
            parent = None if key.parent_key_id is None else to_wire("key", key.parent_key_id)
            self._audit.record(
                tx,
                actor_id=key.user_id,
                action="api_key.created",
                target=to_wire("key", key.key_id),
                details=as_details(details | {"parent": parent}),
            )

    def key(self, tenant_id: UUID, key_id: UUID) -> ApiKey | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["api_key"], {"key_id": key_id})
        return None if row is None else _key(row)

    def keys(
        self, tenant_id: UUID, *, user_id: UUID | None, root_id: UUID | None, after: UUID | None, limit: int
    ) -> Sequence[ApiKey]:
        facts = {"user_id": user_id, "root_id": root_id, "after": after, "limit": limit}
        with self._database.tenant_transaction(tenant_id) as tx:
            return [_key(row) for row in tx.all(SQL["api_keys"], facts)]

    def remove(
        self, tenant_id: UUID, key_id: UUID, *, user_id: UUID | None, root_id: UUID | None, actor_id: UUID
    ) -> Sequence[UUID]:
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["lock_api_keys"])
            rows = tx.all(SQL["delete_api_key"], {"key_id": key_id, "user_id": user_id, "root_id": root_id})
            removed: list[UUID] = sorted(row["key_id"] for row in rows)
            for removed_id in removed:
                self._audit.record(tx, actor_id=actor_id, action="api_key.deleted", target=to_wire("key", removed_id))
        return removed


def _key(row: Row) -> ApiKey:
    return ApiKey(**row | {"permissions": frozenset(row["permissions"])})
