"""The audit log in PostgreSQL. An entry is part of the transaction of its change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.audit.model import (
    MOST_ITEMS,
    AuditEntry,
    AuditFilter,
    AuditPage,
    clean_text,
    from_cursor,
    storable,
    to_cursor,
)
from artiway.platform import sql, tracing
from artiway.platform.database import Database, Transaction
from artiway.platform.logs import masked

SQL = sql.load("artiway.audit")


class AuditLog:
    def record(
        self,
        tx: Transaction,
        *,
        actor_id: UUID | None,
        action: str,
        target: str,
        details: Mapping[str, Any] | None = None,
        tenant_id: UUID | None = None,
    ) -> None:
        """Store an entry in the transaction of the change. Secrets in the details are masked.

        `tenant_id` is the tenant concerned, for a transaction without a tenant.
        """
        entry = {
            "audit_id": ids.new_id(),
            "tenant_id": tenant_id,
            "actor_id": actor_id,
            "action": clean_text(action, 100),
            "target": clean_text(target, 200),
            "details": storable(masked(details or {})),
            "trace_id": tracing.current(),
        }
        tx.run(SQL["record"], entry)

    def find(
        self, tx: Transaction, wanted: AuditFilter, *, cursor: str | None = None, limit: int = MOST_ITEMS
    ) -> AuditPage:
        """One page, newest first: the tenant's entries in a tenant transaction, all in a service transaction."""
        limit = max(1, min(limit, MOST_ITEMS))
        after_at, after_id = from_cursor(cursor) if cursor else (None, None)
        rows = tx.all(SQL["find"], {**asdict(wanted), "after_at": after_at, "after_id": after_id, "limit": limit + 1})
        items = [AuditEntry(**row) for row in rows[:limit]]
        return AuditPage(items, to_cursor(items[-1]) if len(rows) > limit else None)


class AuditTrail:
    """The entries of all tenants, for operators."""

    def __init__(self, service_database: Database, reader: Database, log: AuditLog) -> None:
        self._service, self._reader, self._log = service_database, reader, log

    def record(self, *, actor_id: UUID | None, action: str, target: str, details: Mapping[str, Any]) -> None:
        """Store an entry of an act that changes no row."""
        with self._service.service_transaction() as tx:
            self._log.record(tx, actor_id=actor_id, action=action, target=target, details=details)

    def user_of_email(self, email: str) -> UUID | None:
        with self._reader.service_transaction() as tx:
            row = tx.one(SQL["user_of_email"], {"email": email.strip().lower()})
        return None if row is None else UUID(str(row["user_id"]))

    def find(self, wanted: AuditFilter, *, cursor: str | None, limit: int) -> AuditPage:
        with self._reader.service_transaction() as tx:
            return self._log.find(tx, wanted, cursor=cursor, limit=limit)
