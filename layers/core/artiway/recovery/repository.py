"""Queries of the sweeps and of the invariants over all tenants, as `artiway_service`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.recovery.model import Artefact, Check, Overdue, Scope
from artiway.tasks.repository import ready_messages, token_answers, work_messages

SQL = sql.load("artiway.recovery")
_NAMED = tuple(field.name for field in fields(Scope))
_TABLES = ("task", "account", "hold", "order", "entry")


class PostgresOverdueQueries:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def expired_leases(self, *, limit: int) -> Sequence[Overdue]:
        return self._overdue("expired_leases", {"limit": limit})

    def count_leases(self) -> int:
        return int(self._rows("count_leases", {})[0]["held"])

    def unclaimed(self, *, age_s: int, limit: int) -> Sequence[Overdue]:
        return self._overdue("unclaimed", {"age_s": age_s, "limit": limit})

    def stopped(self, *, age_s: int, limit: int) -> Sequence[Overdue]:
        return self._overdue("stopped", {"age_s": age_s, "limit": limit})

    def resend_work_messages(self, node_ids: Sequence[UUID], *, age_s: int) -> int:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["resend_work_messages"], {"node_ids": list(node_ids), "age_s": age_s})
            self._outbox.publish(tx, work_messages(rows))
        return len(rows)

    def resend_ready_messages(self, *, age_s: int, limit: int) -> int:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["unready"], {"age_s": age_s, "limit": limit})
            self._outbox.publish(tx, ready_messages(rows))
        return len(rows)

    def long_running(self, *, age_s: int, limit: int) -> Sequence[Overdue]:
        return self._overdue("long_running", {"age_s": age_s, "limit": limit})

    def stale_executions(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]:
        rows = self._rows("stale_executions", {"age_s": age_s, "limit": limit})
        return [(row["tenant_id"], row["task_id"]) for row in rows]

    def answer_tokens(self, *, age_s: int, limit: int) -> int:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["answerable_tokens"], {"age_s": age_s, "limit": limit})
            self._outbox.publish(tx, token_answers(rows))
        return len(rows)

    def finished_tasks(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]:
        rows = self._rows("finished_tasks", {"age_s": age_s, "limit": limit})
        return [(row["tenant_id"], row["task_id"]) for row in rows]

    def orphan_holds(self, *, limit: int) -> Sequence[tuple[UUID, UUID, UUID]]:
        rows = self._rows("orphan_holds", {"limit": limit})
        return [(row["tenant_id"], row["user_id"], row["hold_id"]) for row in rows]

    def delete_lost_workers(self, *, age_s: int) -> int:
        with self._database.service_transaction() as tx:
            return tx.run(SQL["lost_workers"], {"age_s": age_s})

    def expired_objects(self, *, limit: int) -> Sequence[Artefact]:
        return [Artefact(**row) for row in self._rows("expired_objects", {"limit": limit})]

    def note_deleted(self, objects: Sequence[Artefact]) -> None:
        with self._database.service_transaction() as tx:
            for kind, verb in (("artefact", "note_deleted_artefacts"), ("upload", "note_deleted_uploads")):
                tx.run(SQL[verb], {"item_ids": [one.item_id for one in objects if one.kind == kind]})

    def _overdue(self, name: str, parameters: dict[str, Any]) -> list[Overdue]:
        return [Overdue(**row) for row in self._rows(name, parameters)]

    def _rows(self, name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        with self._database.service_transaction() as tx:
            return tx.all(SQL[name], parameters)


class PostgresInvariantQueries:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._taken: Mapping[str, Any] | None = None

    def run(self, name: str, *, counted: str, broken: str, scope: Scope | None, limit: int, grace_s: int) -> Check:
        named = {one: None if scope is None else sql.array(getattr(scope, one)) for one in _NAMED}
        with self._database.service_transaction() as tx:
            if scope is not None:
                tx.run(SQL["use_indexes"])
            row = tx.one(SQL[counted], named)
            statement = SQL[broken] if scope is None else SQL.get(f"{broken}_in_scope", SQL[broken])
            rows = tx.all(statement, {**named, "limit": limit, "grace_s": grace_s})
        assert row is not None
        return Check(name, int(row["checked"]), tuple(rows))

    def last_pass(self) -> tuple[datetime, datetime | None, Scope]:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["last_pass"])
        assert row is not None
        self._taken = row["found"]
        return row["now"], row["checked_until"], scope_of(row["suspects"]) | scope_of(row["found"])

    def note_pass(self, until: datetime, suspects: Scope) -> None:
        """What a slice found was checked again with the suspects, unless the slice found more meanwhile."""
        with self._database.service_transaction() as tx:
            tx.run(SQL["note_pass"], {"until": until, "suspects": _text(suspects)})
            tx.run(SQL["forget_found"], {"found": json.dumps(self._taken)})

    def add_suspects(self, suspects: Scope) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["keep_found"], {"found": _text(suspects)})

    def note_broken(self, broken: Sequence[str], mended: Sequence[str]) -> Mapping[str, datetime]:
        with self._database.service_transaction() as tx:
            tx.run(SQL["forget_mended"], {"mended": list(mended)})
            if not broken:
                return {}
            row = tx.one(SQL["keep_broken"], {"broken": list(broken)})
        assert row is not None
        return {name: datetime.fromisoformat(at) for name, at in row["position"].items()}

    def changed_between(self, since: datetime, until: datetime) -> Scope:
        with self._database.service_transaction() as tx:
            tx.run(SQL["use_indexes"])
            row = tx.one(SQL["changed_between"], {"since": since, "until": until})
        assert row is not None
        return Scope(**row)

    def slices(self, *, chunk: int) -> PostgresSlices:
        return PostgresSlices(self._database, chunk)


class PostgresSlices:
    """The rows of all tables, in the order of their keys, in parts. The position is kept in the database."""

    def __init__(self, database: Database, chunk: int) -> None:
        self._database, self._chunk = database, chunk
        with database.service_transaction() as tx:
            row = tx.one(SQL["slice_position"])
        self._position: dict[str, Any] = dict.fromkeys(_TABLES) if row is None else row["position"]
        self._ended: set[str] = set()

    def next(self) -> Scope | None:
        if self._ended == set(_TABLES):
            return None
        wanted = {table: json.dumps(self._position.get(table)) for table in _TABLES}
        skipped = {f"no_{table}": table in self._ended for table in _TABLES}
        with self._database.service_transaction() as tx:
            tx.run(SQL["use_indexes"])
            row = tx.one(SQL["next_slice"], {**wanted, **skipped, "zero": str(UUID(int=0)), "limit": self._chunk})
        assert row is not None
        ends, counts = row.pop("ends"), row.pop("counts")
        self._ended |= {table for table in _TABLES if counts[table] < self._chunk}
        self._position = {table: None if table in self._ended else ends[table] for table in _TABLES}
        return Scope(**row)

    def keep(self) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["keep_slice_position"], {"position": json.dumps(self._position)})


def scope_of(stored: Mapping[str, Any] | None) -> Scope:
    """From JSON, where ids are texts."""
    values: dict[str, Any] = dict(stored or {})
    for name in values.keys() - {"ledger_first", "ledger_last"}:
        values[name] = [UUID(value) for value in values[name]]
    return Scope(**values)


def _text(scope: Scope) -> str:
    return json.dumps(asdict(scope), default=str)


class PostgresSlots:
    def __init__(self, database: Database) -> None:
        self._database = database

    def held(self, pool: str) -> set[UUID]:
        with self._database.service_transaction() as tx:
            return {row["node_id"] for row in tx.all(SQL["slots_of_pool"], {"pool": pool})}

    def unexplained(
        self, *, surplus: Sequence[UUID], missing: Sequence[UUID], limit: int, grace_s: int
    ) -> Sequence[Mapping[str, Any]]:
        rest = {"limit": limit, "grace_s": grace_s}
        with self._database.service_transaction() as tx:
            return [
                *tx.all(SQL["surplus_slots"], {"node_ids": list(surplus), **rest}),
                *tx.all(SQL["missing_slots"], {"node_ids": list(missing), **rest}),
            ]


class AuditJournal:
    """Actions of operators concern no single tenant."""

    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def record(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None:
        with self._database.service_transaction() as tx:
            self._audit.record(tx, actor_id=actor_id, action=action, target=target, details=details)
