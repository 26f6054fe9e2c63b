"""Servers, tenants and definitions of the benchmark, and the list of fires by plain arithmetic.

A definition fires when the minute of its local clock leaves the remainder `turn` by eight, at its own second. So an
eighth of all definitions is due in each minute, and the list needs no cron expression.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg
from psycopg.conninfo import make_conninfo

from artiway import ids
from artiway.jobs.messages import CALLS, RESULTS, SUBMISSIONS
from artiway.jobs.model import RUN_LANES, slot
from artiway.jobs.zones import TZDATA_VERSION
from artiway.platform.migrations import migrate
from local.emulator import client, start_emulator
from local.lambdas import REGION
from local.servers import free_port, running, start_postgres

TURNS = 8
# Offsets in minutes. None of these zones changes its clock within hours of a run of this benchmark, or it is seen.
ZONES = {"UTC": 0, "Asia/Shanghai": 480, "Asia/Kolkata": 330, "Asia/Tokyo": 540, "America/Phoenix": -420}
PRIORITIES = ("CRITICAL", *["HIGH"] * 3, *["NORMAL"] * 12, *["LOW"] * 4)
JITTER_S = 60
VISIBILITY_S = 120
COLUMNS = (
    *("tenant_id", "job_id", "user_id", "name", "schedule_type", "expr", "timezone", "tzdata_version", "jitter_s"),
    *("next_fire_at", "task_type", "task", "priority", "max_attempts", "base_delay_ms", "max_delay_ms"),
    *("concurrency_limit", "overlap_policy", "misfire_policy", "catchup_window_s", "timeout_s"),
)


@dataclass(frozen=True)
class World:
    """Where everything is. It travels to the processes."""

    admin_url: str
    service_url: str
    app_url: str
    sqs_url: str
    queues: dict[str, str]
    folder: str
    postgres_pid: int
    emulator_pid: int


@dataclass(frozen=True)
class Definition:
    job_id: UUID
    tenant_id: UUID
    user_id: UUID
    expr: str
    zone: str
    jitter_s: int
    priority: str
    turn: int
    second: int

    def first_fire(self, start: datetime) -> datetime:
        """At or after the start of a minute."""
        local_minute = start.minute + ZONES[self.zone]
        wait = next(n for n in range(2 * TURNS) if (local_minute + n) % 60 % TURNS == self.turn)
        return start + timedelta(minutes=wait, seconds=self.second)

    def fires(self, start: datetime, minutes: int) -> list[datetime]:
        shown = start.minute + ZONES[self.zone]
        return [
            start + timedelta(minutes=n, seconds=self.second)
            for n in range(minutes)
            if (shown + n) % 60 % TURNS == self.turn
        ]

    def assigned(self, fire: datetime) -> datetime:
        """With the slot of the job, in whole seconds."""
        return fire + timedelta(seconds=int(slot(self.job_id, self.jitter_s).total_seconds()))


@contextlib.contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as home:
        Path(home).chmod(0o755)
        with (
            running(start_postgres(Path(home), free_port())) as postgres,
            running(start_emulator(Path(home) / "emulator", free_port())) as emulator,
        ):
            os.environ |= {
                "AWS_ENDPOINT_URL": emulator.url,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_DEFAULT_REGION": REGION,
            }
            sqs = client("sqs", emulator.url)
            attributes = {"VisibilityTimeout": str(VISIBILITY_S)}
            queues = {
                name: sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
                for name in (*RUN_LANES, CALLS, SUBMISSIONS, RESULTS)
            }
            urls = prepared(postgres.url)
            pids = postgres.process.pid, emulator.process.pid
            yield World(*urls, emulator.url, queues, home, *pids)


def prepared(url: str) -> tuple[str, str, str]:
    """The addresses of the superuser, of the service and of the application."""
    password = secrets.token_urlsafe(12)
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ("artiway_owner", "artiway_app", "artiway_service"):
            connection.execute(f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD '{password}'".encode())
        connection.execute("CREATE DATABASE artiway OWNER artiway_owner")
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        migrate(make_conninfo(url, user="artiway_owner", password=password, dbname="artiway"))
    roles = ("artiway_service", "artiway_app")
    service, app = (make_conninfo(url, user=role, password=password, dbname="artiway") for role in roles)
    return make_conninfo(url, dbname="artiway"), service, app


def add_tenants(connection: psycopg.Connection, tiers: Sequence[str], *, is_unlimited: bool) -> list[tuple[UUID, UUID]]:
    made = []
    for tier in tiers:
        tenant_id, user_id = ids.new_id(), ids.new_id()
        limits = (100_000, 1_000_000) if is_unlimited else (None, None)
        connection.execute(
            "INSERT INTO tenant (tenant_id, name, tier, job_concurrency, job_per_minute) VALUES (%s, %s, %s, %s, %s)",
            (tenant_id, tier, tier, *limits),
        )
        connection.execute("INSERT INTO app_user (tenant_id, user_id) VALUES (%s, %s)", (tenant_id, user_id))
        made.append((tenant_id, user_id))
    return made


def definitions(owners: Sequence[tuple[UUID, UUID]], count: int) -> list[Definition]:
    """A fifth has five fields and a slot of jitter, the rest has seconds of its own."""
    made, zones = [], list(ZONES)
    for number in range(count):
        tenant_id, user_id = owners[number % len(owners)]
        turn, second = number % TURNS, number // TURNS % 60
        has_jitter = number // (TURNS * 60) % 5 == 0
        expr = f"{turn}/{TURNS} * * * *" if has_jitter else f"{second} {turn}/{TURNS} * * * ?"
        made.append(
            Definition(
                job_id=ids.new_id(),
                tenant_id=tenant_id,
                user_id=user_id,
                expr=expr,
                zone=zones[number * 7 // TURNS % len(zones)],
                jitter_s=JITTER_S if has_jitter else 0,
                priority=PRIORITIES[number // 3 % len(PRIORITIES)],
                turn=turn,
                second=0 if has_jitter else second,
            )
        )
    return made


def store(
    connection: psycopg.Connection, made: Sequence[Definition], start: datetime, *, url: str, timeout_s: int
) -> None:
    """The rows that the API would have stored, with the first fire at or after `start`."""
    task = json.dumps({"url": url, "method": "POST"})
    statement = f"COPY job ({', '.join(COLUMNS)}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for one in made:
            first = one.first_fire(start)
            fixed = ("CRON", one.expr, one.zone, TZDATA_VERSION, one.jitter_s, first, "HTTP", task, one.priority)
            rules = (3, 1_000, 300_000, 10, "ALLOW_ALL", "FIRE_ONCE", 480, timeout_s)
            copy.write_row((one.tenant_id, one.job_id, one.user_id, "bench", *fixed, *rules))
    connection.execute("ANALYZE job")


def store_once(
    connection: psycopg.Connection, made: Sequence[Definition], at: datetime, *, url: str, timeout_s: int
) -> None:
    """The same definitions, all with one fire at one second."""
    store_times(connection, made, [at] * len(made), url=url, timeout_s=timeout_s)


def store_times(
    connection: psycopg.Connection, made: Sequence[Definition], times: Sequence[datetime], *, url: str, timeout_s: int
) -> None:
    """The same definitions, each with one fire at its time."""
    store(connection, made, min(times).replace(second=0, microsecond=0), url=url, timeout_s=timeout_s)
    connection.execute(
        "UPDATE job SET schedule_type = 'ONCE', expr = NULL, at = given.at, next_fire_at = given.at, jitter_s = 0"
        " FROM unnest(%s::uuid[], %s::timestamptz[]) AS given (job_id, at) WHERE job.job_id = given.job_id",
        ([one.job_id for one in made], list(times)),
    )
    connection.execute("ANALYZE job")


def empty(connection: psycopg.Connection) -> None:
    connection.execute(
        "TRUNCATE job, job_change, job_run, job_fire_note, run_result, run_log, job_load, job_minute, outbox CASCADE"
    )


def next_minute(wait_s: float) -> datetime:
    """The first whole minute that is at least so far away."""
    at = datetime.now(UTC) + timedelta(seconds=wait_s)
    return at.replace(second=0, microsecond=0) + timedelta(minutes=1)
