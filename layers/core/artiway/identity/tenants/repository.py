"""The tenants of the platform, as `artiway_service`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.identity.model import (
    JOB_OVERRIDES,
    OVERRIDES,
    OWN_LIMITS,
    LoginTaken,
    NewUser,
    Policy,
    Tenant,
    TenantOrder,
    TenantUser,
    TenantView,
)
from artiway.identity.repository import add_tenant, insert_user
from artiway.ids import to_wire
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.identity.tenants")


class PostgresTenants:
    """Tenants for the platform's administrators, and the policies of many tenants."""

    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def list(self, *, after: UUID | None, limit: int, q: str | None = None) -> Sequence[TenantView]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["list_tenants"], {"tenant_id": None, "after": after, "limit": limit, "q": q})
        return [_view(row) for row in rows]

    def users(self, tenant_id: UUID, *, after: UUID | None, limit: int) -> Sequence[TenantUser]:
        with self._database.service_transaction() as tx:
            self._read(tx, tenant_id)
            rows = tx.all(SQL["users_of_tenant"], {"tenant_id": tenant_id, "after": after, "limit": limit})
        return [TenantUser(**row | {"roles": tuple(row["roles"])}) for row in rows]

    def orders(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[TenantOrder]:
        with self._database.service_transaction() as tx:
            self._read(tx, tenant_id)
            rows = tx.all(SQL["orders_of_tenant"], {"tenant_id": tenant_id, "before": before, "limit": limit})
        return [TenantOrder(**row) for row in rows]

    def add(self, tenant: Tenant, owner: NewUser | None, *, actor_id: UUID) -> TenantView:
        with self._database.service_transaction() as tx:
            add_tenant(tx, self._audit, tenant, actor_id=actor_id, action="tenant.created")
            if owner is not None:
                insert_user(tx, owner, LoginTaken("this e-mail address has an account already"))
            return self._read(tx, tenant.tenant_id)

    def change(self, tenant_id: UUID, changes: Mapping[str, Any], *, actor_id: UUID) -> TenantView:
        with self._database.service_transaction() as tx:
            before = tx.one(SQL["lock_tenant"], {"tenant_id": tenant_id})
            if before is None:
                raise NotFound("there is no such tenant")
            tx.run(SQL["update_tenant"], before | dict(changes))
            self._audit.record(
                tx,
                actor_id=actor_id,
                action="tenant.changed",
                target=to_wire("tnt", tenant_id),
                details={"before": {name: before[name] for name in changes}, "after": dict(changes)},
                tenant_id=tenant_id,
            )
            return self._read(tx, tenant_id)

    def is_platform(self, tenant_id: UUID) -> bool:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["list_tenants"], {"tenant_id": tenant_id, "after": None, "limit": 1, "q": None})
        return row is not None and bool(row["is_platform"])

    def policies(self, tenant_ids: Sequence[UUID]) -> dict[UUID, Policy]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["policies"], {"tenant_ids": [*tenant_ids]})
        return {row["tenant_id"]: Policy(**row) for row in rows}

    def _read(self, tx: Transaction, tenant_id: UUID) -> TenantView:
        row = tx.one(SQL["list_tenants"], {"tenant_id": tenant_id, "after": None, "limit": 1, "q": None})
        if row is None:
            raise NotFound("there is no such tenant")
        return _view(row)


def _view(row: Row) -> TenantView:
    names = ("tenant_id", "name", "tier", "status", "is_platform", *OVERRIDES, *OWN_LIMITS, *JOB_OVERRIDES)
    policy = {name: row[f"policy_{name}"] for name in (*OVERRIDES, "artefact_days")}
    return TenantView(
        tenant=Tenant(**{name: row[name] for name in names}),
        policy=Policy(
            tenant_id=row["tenant_id"], tier=row["tier"], status=row["status"], priority=row["priority"], **policy
        ),
        created_at=row["created_at"],
    )
