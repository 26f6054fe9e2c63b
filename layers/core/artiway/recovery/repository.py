"""The sweepers' finds and the invariants' rows, as `artiway_service` sees them: over all tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.outbox.repository import Outbox
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.recovery.model import Artefact, Check, Overdue
from artiway.tasks.repository import SQL as TASKS
from artiway.tasks.repository import ready_hints, token_answers, work_messages

SQL = sql.load("artiway.recovery")


class PostgresFinds:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def expired_leases(self, *, limit: int) -> Sequence[Overdue]:
        return self._overdue("expired_leases", {"limit": limit})

    def count_leases(self) -> int:
        return int(self._rows("count_leases", {})[0]["held"])

    def unclaimed(self, *, age_s: int, limit: int) -> Sequence[Overdue]:
        return self._overdue("unclaimed", {"age_s": age_s, "limit": limit})

    def hint_again(self, node_ids: Sequence[UUID], *, age_s: int) -> int:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["hint_again"], {"node_ids": list(node_ids), "age_s": age_s})
            self._outbox.publish(tx, work_messages(rows))
        return len(rows)

    def hint_unready(self, *, age_s: int, limit: int) -> int:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["unready"], {"age_s": age_s, "limit": limit})
            self._outbox.publish(tx, ready_hints(rows))
        return len(rows)

    def long_running(self, *, age_s: int, limit: int) -> Sequence[Overdue]:
        return self._overdue("long_running", {"age_s": age_s, "limit": limit})

    def unheard_executions(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]:
        rows = self._rows("unheard_executions", {"age_s": age_s, "limit": limit})
        return [(row["tenant_id"], row["task_id"]) for row in rows]

    def answer_tokens(self, *, age_s: int, limit: int) -> int:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["answerable_tokens"], {"age_s": age_s, "limit": limit})
            taken = tx.all(TASKS["take_answerable_tokens"], {"node_ids": [row["node_id"] for row in rows]})
            self._outbox.publish(tx, token_answers(taken))
        return len(taken)

    def finished_tasks(self, *, age_s: int, limit: int) -> Sequence[tuple[UUID, UUID]]:
        rows = self._rows("finished_tasks", {"age_s": age_s, "limit": limit})
        return [(row["tenant_id"], row["task_id"]) for row in rows]

    def orphan_holds(self, *, limit: int) -> Sequence[tuple[UUID, UUID, UUID]]:
        rows = self._rows("orphan_holds", {"limit": limit})
        return [(row["tenant_id"], row["user_id"], row["hold_id"]) for row in rows]

    def forget_lost_workers(self, *, age_s: int) -> int:
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


class PostgresLooks:
    def __init__(self, database: Database) -> None:
        self._database = database

    def look(self, name: str, *, counted: str, broken: str, limit: int, grace_s: int) -> Check:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL[counted])
            rows = tx.all(SQL[broken], {"limit": limit, "grace_s": grace_s})
        assert row is not None
        return Check(name, int(row["checked"]), tuple(rows))


class AuditJournal:
    """Operators act beyond any tenant."""

    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def acted(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None:
        with self._database.service_transaction() as tx:
            self._audit.record(tx, actor_id=actor_id, action=action, target=target, details=details)
