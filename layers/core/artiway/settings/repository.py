"""Overrides of settings in PostgreSQL. Every role may read them; only the service role changes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.settings.model import Override

SQL = sql.load("artiway.settings")


class PostgresSettingReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    def overrides(self) -> Sequence[Override]:
        return [Override(**row) for row in self._database.read_shared(SQL["overrides"])]


class PostgresSettings(PostgresSettingReader):
    def __init__(self, service_database: Database, audit: AuditLog) -> None:
        super().__init__(service_database)
        self._audit = audit

    def put(self, key: str, value: Any, *, actor_id: UUID | None) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_setting"], {"key": key})
            before = tx.one(SQL["override"], {"key": key})
            tx.run(SQL["put"], {"key": key, "value": json.dumps(value, ensure_ascii=False), "actor_id": actor_id})
            details = {"before": before and before["value"], "after": value}
            self._audit.record(tx, actor_id=actor_id, action="setting.changed", target=key, details=details)

    def delete(self, key: str, *, actor_id: UUID | None) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_setting"], {"key": key})
            before = tx.one(SQL["override"], {"key": key})
            if before is None:
                return
            tx.run(SQL["delete"], {"key": key})
            self._audit.record(
                tx, actor_id=actor_id, action="setting.restored", target=key, details={"before": before["value"]}
            )
