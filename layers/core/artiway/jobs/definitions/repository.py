"""Definitions, runs and secrets of a tenant in PostgreSQL."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.jobs.definitions.model import LogLine, RunFilter, RunOfTenant, Secret, schedule_document
from artiway.jobs.limits import limits_of
from artiway.jobs.model import (
    FireOutcome,
    Job,
    JobLimits,
    JobStatus,
    NoSuchJob,
    Run,
    RunKind,
    RunState,
    TaskType,
)
from artiway.jobs.rows import job_of
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction
from artiway.settings.model import SettingValues

SQL = sql.load("artiway.jobs.definitions")
# Between the time in a run's id and its scheduled time.
SLACK = timedelta(days=1)
_RUN_FIELDS = [field.name for field in fields(Run)]


class DefinitionTransaction:
    """The open transaction of one tenant."""

    def __init__(self, tx: Transaction, audit: AuditLog, values: SettingValues) -> None:
        self._tx, self._audit, self._values = tx, audit, values

    @property
    def tx(self) -> Transaction:
        return self._tx

    def now(self) -> datetime:
        moment: datetime = self._one("now")["now"]
        return moment.astimezone(UTC)

    def is_tenant(self) -> bool:
        return self._tx.one(SQL["tenant_policy"]) is not None

    def limits(self) -> JobLimits:
        row = self._tx.one(SQL["tenant_policy"])
        if row is None:
            raise NoSuchJob
        return limits_of(row, self._values)

    def lock_jobs(self) -> None:
        self._tx.run(SQL["lock_jobs"])

    def owner(self) -> UUID | None:
        row = self._tx.one(SQL["owner"])
        return None if row is None else row["user_id"]

    # Jobs

    def count(self) -> int:
        return int(self._one("count_jobs")["number"])

    def add(self, job: Job, *, tzdata_version: str) -> None:
        self._tx.run(SQL["insert_job"], _row_of(job, tzdata_version))

    def save(self, job: Job, *, tzdata_version: str) -> None:
        self._tx.run(SQL["update_job"], _row_of(job, tzdata_version))

    def job(self, job_id: UUID, *, is_locked: bool = False) -> Job | None:
        row = self._tx.one(SQL["lock_job" if is_locked else "job"], {"job_id": job_id})
        return None if row is None else job_of(row)

    def jobs(self, *, status: JobStatus | None, name: str | None, before: UUID | None, limit: int) -> list[Job]:
        wanted = {"status": status, "name": name, "before": before, "limit": limit}
        return [job_of(row) for row in self._tx.all(SQL["jobs"], wanted)]

    def locked_by_name(self, names: Collection[str]) -> list[Job]:
        return [job_of(row) for row in self._tx.all(SQL["lock_by_name"], {"names": sorted(names)})] if names else []

    def note_change(self, job: Job, action: str, *, actor_id: UUID) -> None:
        self._tx.run(
            SQL["insert_change"],
            {
                "job_id": job.job_id,
                "version": job.version,
                "action": action,
                "actor_id": actor_id,
                "note": job.note,
                "schedule": json.dumps(schedule_document(job.definition.schedule)),
                "at": job.updated_at,
            },
        )

    def note_fires(self, job: Job, times: Sequence[datetime], outcome: FireOutcome, reason: str) -> None:
        """One note for each time: between two of them a run may have started."""
        wanted = {"job_id": job.job_id, "times": list(times), "outcome": outcome, "reason": reason}
        self._tx.run(SQL["insert_fire_notes"], wanted)

    def started_in_minute(self) -> int:
        return int(self._one("started_in_minute")["started"])

    def shed_lanes(self) -> list[str]:
        row = self._tx.one(SQL["shed_lanes"])
        return [] if row is None else list(row["lanes"])

    # Secrets

    def unknown_secrets(self, names: Collection[str]) -> list[str]:
        if not names:
            return []
        known = {row["name"] for row in self._tx.all(SQL["known_secrets"], {"names": sorted(names)})}
        return sorted(set(names) - known)

    def has_signing_key(self) -> bool:
        return bool(self._one("has_signing_key")["is_found"])

    def add_signing_key(self, ciphertext: bytes) -> None:
        self._tx.run(SQL["insert_signing_key"], {"ciphertext": ciphertext})

    def rotate_signing_key(self, ciphertext: bytes, *, keep_s: int) -> datetime | None:
        return self._one("rotate_signing_key", {"ciphertext": ciphertext, "keep_s": keep_s})["previous_until"]  # type: ignore[no-any-return]

    def secrets(self) -> list[Secret]:
        return [Secret(**row) for row in self._tx.all(SQL["secrets"])]

    def count_other_secrets(self, name: str) -> int:
        return int(self._one("count_other_secrets", {"name": name})["number"])

    def put_secret(self, name: str, ciphertext: bytes) -> Secret:
        return Secret(**self._one("put_secret", {"name": name, "ciphertext": ciphertext}))

    def lock_secret(self, name: str) -> bool:
        return self._tx.one(SQL["lock_secret"], {"name": name}) is not None

    def delete_secret(self, name: str) -> None:
        self._tx.run(SQL["delete_secret"], {"name": name})

    def jobs_naming(self, name: str) -> list[Job]:
        return [job_of(row) for row in self._tx.all(SQL["jobs_naming"], {"name": name})]

    # Runs

    def run(self, run_id: UUID) -> Run | None:
        row = self._tx.one(SQL["run"], {"run_id": run_id, **days_of([run_id])})
        return None if row is None else run_of(row)

    def runs(self, wanted: RunFilter, *, before: UUID | None, limit: int) -> list[Run]:
        query = "runs" if wanted.job_id is None else "runs_of_job"
        return [run_of(row) for row in self._tx.all(SQL[query], {**_filter(wanted), "before": before, "limit": limit})]

    def log_lines(self, run: Run, *, after: UUID | None, limit: int) -> list[LogLine]:
        wanted = {"run_id": run.run_id, "since": run.created_at - SLACK, "after": after, "limit": limit}
        return [LogLine(**row) for row in self._tx.all(SQL["log_lines"], wanted)]

    def has_job(self, job_id: UUID) -> bool:
        return bool(self._one("is_job_there", {"job_id": job_id})["is_found"])

    def discard_dead(self, tenant_id: UUID, run_ids: Sequence[UUID]) -> list[UUID]:
        wanted = {"tenant_id": tenant_id, "run_ids": list(run_ids)}
        return [row["run_id"] for row in self._tx.all(SQL["discard_dead"], wanted)]

    def audit(self, actor_id: UUID, action: str, target: str, details: Mapping[str, Any]) -> None:
        self._audit.record(self._tx, actor_id=actor_id, action=action, target=target, details=details)

    def _one(self, query: str, parameters: Mapping[str, Any] | None = None) -> Row:
        row = self._tx.one(SQL[query], parameters)
        assert row is not None
        return row


class PostgresDefinitions:
    def __init__(self, database: Database, audit: AuditLog, values: SettingValues) -> None:
        self._database, self._audit, self._values = database, audit, values

    @contextlib.contextmanager
    def open(self, tenant_id: UUID) -> Iterator[DefinitionTransaction]:
        with self._database.tenant_transaction(tenant_id) as tx:
            yield DefinitionTransaction(tx, self._audit, self._values)


class PostgresRunSearch:
    """As `artiway_service`: the runs of all tenants."""

    def __init__(self, reader: Database) -> None:
        self._reader = reader

    def search(
        self, tenant_id: UUID | None, wanted: RunFilter, *, before: UUID | None, limit: int
    ) -> list[RunOfTenant]:
        parameters = {"tenant_id": tenant_id, **_filter(wanted), "before": before, "limit": limit}
        with self._reader.service_transaction() as tx:
            return [_of_tenant(row) for row in tx.all(SQL["search_runs"], parameters)]

    def tenants_of(self, run_ids: Sequence[UUID]) -> dict[UUID, UUID]:
        """By run. An unknown run is left out."""
        if not run_ids:
            return {}
        with self._reader.service_transaction() as tx:
            rows = tx.all(SQL["tenants_of_runs"], {"run_ids": list(run_ids), **days_of(run_ids)})
        return {row["run_id"]: row["tenant_id"] for row in rows}

    def count_dead(self) -> int:
        with self._reader.service_transaction() as tx:
            row = tx.one(SQL["count_dead"])
        assert row is not None
        return int(row["number"])

    def dead(self, *, limit: int) -> list[RunOfTenant]:
        with self._reader.service_transaction() as tx:
            return [_of_tenant(row) for row in tx.all(SQL["dead_runs"], {"limit": limit})]


def days_of(run_ids: Sequence[UUID]) -> dict[str, datetime]:
    """The days in which runs with these ids can lie: an id begins with the scheduled time."""
    # Bounded, because an id of a request can name any time.
    moments = [datetime.fromtimestamp(min(run_id.int >> 80, 250_000_000_000_000) / 1_000, UTC) for run_id in run_ids]
    return {"since": min(moments) - SLACK, "until": max(moments) + SLACK}


def _filter(wanted: RunFilter) -> dict[str, Any]:
    return {
        "job_id": wanted.job_id,
        "state": wanted.state,
        "kind": wanted.kind,
        "is_dead": wanted.is_dead,
        "since": wanted.since,
        "until": wanted.until,
    }


def _of_tenant(row: Row) -> RunOfTenant:
    return RunOfTenant(run_of(row), str(row["job_name"] or ""))


def run_of(row: Row) -> Run:
    return Run(
        **{
            **{name: row[name] for name in _RUN_FIELDS},
            "kind": RunKind(row["kind"]),
            "state": RunState(row["state"]),
            "task_type": TaskType(row["task_type"]),
        }
    )


def _row_of(job: Job, tzdata_version: str) -> dict[str, Any]:
    definition, schedule = job.definition, job.definition.schedule
    return {
        "job_id": job.job_id,
        "user_id": job.user_id,
        "name": definition.name,
        "status": job.status,
        "version": job.version,
        "schedule_type": schedule.type,
        "expr": schedule.expr,
        "at": schedule.at,
        "timezone": schedule.timezone,
        "tzdata_version": tzdata_version,
        "jitter_s": schedule.jitter_s,
        "starts_at": schedule.starts_at,
        "ends_at": schedule.ends_at,
        "next_fire_at": job.next_fire_at,
        "last_fire_at": job.last_fire_at,
        "task_type": definition.task_type,
        "task": json.dumps(definition.task, ensure_ascii=False),
        "priority": definition.priority,
        "max_attempts": definition.retry.max_attempts,
        "base_delay_ms": definition.retry.base_delay_ms,
        "max_delay_ms": definition.retry.max_delay_ms,
        "concurrency_limit": definition.concurrency_limit,
        "overlap_policy": definition.overlap_policy,
        "misfire_policy": definition.misfire_policy,
        "catchup_window_s": definition.catchup_window_s,
        "timeout_s": definition.timeout_s,
        "note": job.note,
        "paused_by": job.paused_by,
        "paused_at": job.paused_at,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
    }
