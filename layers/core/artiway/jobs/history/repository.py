"""The history of a job in PostgreSQL: its changes, its runs of a range and the fires that made no run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.jobs.definitions.repository import run_of
from artiway.jobs.fires import FireNote
from artiway.jobs.history.reports import Change
from artiway.jobs.model import FireOutcome, Run, Schedule, ScheduleType
from artiway.platform import sql
from artiway.platform.database import Transaction

SQL = sql.load("artiway.jobs.history")


class PostgresHistory:
    """Inside a tenant's transaction."""

    def changes(self, tx: Transaction, job_id: UUID) -> list[Change]:
        rows = tx.all(SQL["changes"], {"job_id": job_id})
        return [Change(**{**row, "schedule": _schedule(row["schedule"])}) for row in rows]

    def runs(self, tx: Transaction, job_id: UUID, since: datetime, until: datetime, *, limit: int) -> list[Run]:
        wanted = {"job_id": job_id, "since": since, "until": until, "limit": limit}
        return [run_of(row) for row in tx.all(SQL["runs_between"], wanted)]

    def notes(self, tx: Transaction, job_id: UUID, since: datetime, until: datetime) -> list[FireNote]:
        rows = tx.all(SQL["notes_between"], {"job_id": job_id, "since": since, "until": until})
        return [FireNote(**{**row, "outcome": FireOutcome(row["outcome"])}) for row in rows]


def _schedule(document: Mapping[str, Any]) -> Schedule:
    """As `schedule_document` wrote it."""
    return Schedule(
        type=ScheduleType(document["type"]),
        expr=document.get("expr"),
        at=_time(document.get("at")),
        timezone=str(document["timezone"]),
        jitter_s=int(document.get("jitterSeconds") or 0),
        starts_at=_time(document.get("startsAt")),
        ends_at=_time(document.get("endsAt")),
        after=tuple(ids.from_wire("job", one) for one in document.get("after") or ()),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
