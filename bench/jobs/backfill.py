"""Live runs alone, then the same with a backfill beside them, in one run of the line."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from artiway import ids
from artiway.audit.repository import AuditLog
from artiway.jobs.backfills.model import Range, Reprocess
from artiway.jobs.backfills.repository import PostgresBackfills
from artiway.jobs.backfills.service import BackfillService
from artiway.jobs.control import RunControl
from artiway.jobs.definitions.repository import PostgresDefinitions
from artiway.jobs.model import Run
from artiway.jobs.repository import PostgresRuns
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.settings.model import Fixed
from bench.jobs.live import LEAD_S, TENANTS, at_target, until, wait_for_the_end
from bench.jobs.measures import quantiles
from bench.jobs.roles import at_work
from bench.jobs.world import World, add_tenants, definitions, empty, next_minute, store

RUNS = 10_000
PARALLELISM = 50
PER_MINUTE = 3_000
LIMIT_S = 900


class NothingArchived:
    def runs_of_job(self, tenant_id: UUID, job_id: UUID, since: datetime, until: datetime) -> list[Run]:
        return []


def beside(world: World, *, minutes: int) -> dict[str, Any]:
    """Start delay of live HTTP runs in the minutes before a backfill of a tenant and while it lasts."""
    with psycopg.connect(world.admin_url, autocommit=True) as connection, at_target(None) as url:
        empty(connection)
        made = definitions(add_tenants(connection, ["enterprise"] * TENANTS, is_unlimited=True), PER_MINUTE * 8)
        # The quota of its tier paces the backfill. The live tenants have none, so that nothing defers their runs.
        ((tenant_id, user_id),) = add_tenants(connection, ["enterprise"], is_unlimited=False)
        past = replace(
            made[0], job_id=ids.new_id(), tenant_id=tenant_id, user_id=user_id, expr="0 * * * * ?", jitter_s=0
        )
        start = next_minute(LEAD_S)
        middle = start + timedelta(minutes=minutes)
        store(connection, [*made, past], start, url=url, timeout_s=30)
        with at_work(world, ["trigger", "dispatch", "caller", "results"]):
            until(middle)
            total = _start(world, past.tenant_id, past.job_id, past.user_id)
            ended_at = _until_ended(connection)
            wait_for_the_end(connection, start, ended_at)
        alone, beside = _delays(connection, start, middle), _delays(connection, middle, ended_at)
    return {
        "perMinute": PER_MINUTE,
        "backfillRuns": total,
        "parallelism": PARALLELISM,
        "backfillSeconds": (ended_at - middle).total_seconds(),
        "alone": alone,
        "beside": beside,
        "ratio": {name: round(beside[name] / alone[name], 2) for name in alone},
    }


def _start(world: World, tenant_id: UUID, job_id: UUID, user_id: UUID) -> int:
    """As the API does. The hints come with the next pass or result."""
    database, values = Database(world.app_url), Fixed({})
    runs = PostgresRuns(database, Outbox(lambda _tx, _envelopes: None))
    store = PostgresBackfills(PostgresDefinitions(database, AuditLog(), values), runs)
    until_at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=1)
    wanted = Range(until_at - timedelta(minutes=RUNS), until_at, PARALLELISM, Reprocess.NONE)
    service = BackfillService(store, RunControl(runs), NothingArchived(), values)
    return service.start(tenant_id, job_id, wanted, actor_id=user_id, is_dry_run=False)[1]


def _until_ended(connection: psycopg.Connection) -> datetime:
    """When the last run of the backfill ended, or when time is over."""
    deadline = datetime.now(UTC) + timedelta(seconds=LIMIT_S)
    while datetime.now(UTC) < deadline:
        row = connection.execute(
            "SELECT count(*) FILTER (WHERE ended_at IS NULL), max(ended_at) FROM job_run WHERE kind = 'BACKFILL'"
        ).fetchone()
        if row and row[0] == 0 and row[1]:
            return row[1]
        until(datetime.now(UTC) + timedelta(seconds=1))
    return deadline


def _delays(connection: psycopg.Connection, start: datetime, end: datetime) -> dict[str, float]:
    rows = connection.execute(
        "SELECT extract(epoch FROM started_at - assigned_at)::float8 FROM job_run"
        " WHERE kind <> 'BACKFILL' AND assigned_at >= %s AND assigned_at < %s AND started_at IS NOT NULL",
        (start, end),
    ).fetchall()
    return quantiles([row[0] for row in rows])
