"""Backfills in PostgreSQL: of one tenant, and of all tenants for the release."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.jobs import fires
from artiway.jobs.backfills.model import (
    PARKED,
    Backfill,
    BackfillStatus,
    KnownRun,
    Progress,
    Reprocess,
    RunningBackfill,
)
from artiway.jobs.definitions.repository import DefinitionTransaction, PostgresDefinitions
from artiway.jobs.model import Job, JobStatus, RunState
from artiway.jobs.repository import PostgresRuns, RunTransaction
from artiway.jobs.runs import DueRun
from artiway.platform import sql
from artiway.platform.database import Row, Transaction

SQL = sql.load("artiway.jobs.backfills")


class _Rows:
    """The statements that both roles use."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def progress(self, backfill: Backfill | RunningBackfill) -> Progress:
        row = self._tx.one(SQL["progress"], {**_key(backfill), "parked": PARKED})
        assert row is not None
        return Progress(**row)

    def remove_parked(self, backfill: Backfill | RunningBackfill, now: datetime, *, reason: str) -> None:
        self._tx.run(SQL["remove_parked"], _key(backfill))
        self._tx.run(SQL["end_parked"], {**_key(backfill), "now": now, "reason": reason})

    def end(
        self, backfill: Backfill | RunningBackfill, status: BackfillStatus, progress: Progress, now: datetime
    ) -> None:
        counts = {"done": progress.done, "failed": progress.failed}
        self._tx.run(SQL["end_backfill"], {**_key(backfill), **counts, "status": status, "now": now})


class TenantBackfills(_Rows):
    """The open transaction of one tenant."""

    def __init__(self, definitions: DefinitionTransaction, runs: RunTransaction) -> None:
        super().__init__(definitions.tx)
        self._definitions, self._runs = definitions, runs

    @property
    def tx(self) -> Transaction:
        return self._tx

    def now(self) -> datetime:
        return self._definitions.now()

    def shed_lanes(self) -> list[str]:
        return self._definitions.shed_lanes()

    def job(self, job_id: UUID) -> Job | None:
        """Locked: two requests for one job come after each other."""
        return self._definitions.job(job_id, is_locked=True)

    def known_runs(self, job_id: UUID, since: datetime, until: datetime) -> list[KnownRun]:
        rows = self._tx.all(SQL["known_runs"], {"job_id": job_id, "since": since, "until": until})
        return [KnownRun(**{**row, "state": RunState(row["state"])}) for row in rows]

    def add(self, backfill: Backfill) -> None:
        self._tx.run(SQL["insert_backfill"], {name: getattr(backfill, name) for name in Backfill.__annotations__})

    def park(self, backfill: Backfill, job: Job, times: Sequence[datetime]) -> None:
        if not times:
            return
        # Not by the list of days that this process has made: the archive may have dropped one since.
        days = sql.array(sorted({at.date().isoformat() for at in times}))
        self._tx.run(SQL["ensure_days"], {"days": days})
        run_ids = [fires.new_run_id(at) for at in times]
        self._tx.run(
            SQL["park_runs"],
            {
                "backfill_id": backfill.backfill_id,
                "job_id": job.job_id,
                "job_version": job.version,
                "task_type": job.definition.task_type,
                "run_ids": sql.array(run_ids),
                "scheduled_ats": _times(times),
                "trace_ids": sql.array(fires.trace_id(run_id, at) for run_id, at in zip(run_ids, times, strict=True)),
                "parked": PARKED,
                "now": backfill.created_at,
            },
        )

    def park_again(self, backfill: Backfill, times: Sequence[datetime]) -> None:
        if times:
            given = {"backfill_id": backfill.backfill_id, "job_id": backfill.job_id, "parked": PARKED}
            self._tx.run(SQL["park_again"], {**given, "scheduled_ats": _times(times)})

    def backfill(self, backfill_id: UUID, *, is_locked: bool = False) -> Backfill | None:
        row = self._tx.one(SQL["lock_backfill" if is_locked else "backfill"], {"backfill_id": backfill_id})
        return None if row is None else _backfill(row)

    def backfills(self, *, job_id: UUID | None, before: UUID | None, limit: int) -> list[Backfill]:
        wanted = {"job_id": job_id, "before": before, "limit": limit}
        return [_backfill(row) for row in self._tx.all(SQL["backfills"], wanted)]

    def waiting_runs(self, backfill: Backfill) -> list[UUID]:
        return [row["run_id"] for row in self._tx.all(SQL["waiting_runs"], _key(backfill))]

    def audit(self, actor_id: UUID, action: str, target: str, details: Mapping[str, Any]) -> None:
        self._definitions.audit(actor_id, action, target, details)


class PostgresBackfills:
    def __init__(self, definitions: PostgresDefinitions, runs: PostgresRuns) -> None:
        self._definitions, self._runs = definitions, runs

    @contextlib.contextmanager
    def open(self, tenant_id: UUID) -> Iterator[TenantBackfills]:
        with self._definitions.open(tenant_id) as definitions, self._runs.joined(definitions.tx) as runs:
            yield TenantBackfills(definitions, runs)


class AllBackfills(_Rows):
    """The open transaction of `artiway_service`."""

    def __init__(self, runs: RunTransaction) -> None:
        super().__init__(runs.tx)
        self.use_indexes, self.send, self.policies = runs.use_indexes, runs.send, runs.policies

    def running_backfills(self, now: datetime, *, limit: int) -> list[RunningBackfill]:
        rows = self._tx.all(SQL["running_backfills"], {"now": now, "limit": limit})
        return [RunningBackfill(**{**row, "job_status": JobStatus(row["job_status"])}) for row in rows]

    def release(self, backfill: RunningBackfill, now: datetime, *, limit: int) -> list[DueRun]:
        """The oldest times first."""
        rows = self._tx.all(SQL["release_runs"], {**_key(backfill), "now": now, "limit": limit})
        self._tx.run(SQL["note_release"], {**_key(backfill), "now": now, "released": backfill.released + len(rows)})
        return sorted((DueRun(**row) for row in rows), key=lambda run: run.run_id)


class PostgresRelease:
    def __init__(self, runs: PostgresRuns) -> None:
        self._runs = runs

    @contextlib.contextmanager
    def open(self) -> Iterator[AllBackfills]:
        with self._runs.open() as runs:
            yield AllBackfills(runs)


def _backfill(row: Row) -> Backfill:
    return Backfill(**{**row, "reprocess": Reprocess(row["reprocess"]), "status": BackfillStatus(row["status"])})


def _key(backfill: Backfill | RunningBackfill) -> dict[str, Any]:
    """With the range, which names the partitions."""
    return {
        "tenant_id": backfill.tenant_id,
        "backfill_id": backfill.backfill_id,
        "since": backfill.since,
        "until": backfill.until,
    }


def _times(times: Sequence[datetime]) -> str:
    return sql.array(at.isoformat() for at in times)
