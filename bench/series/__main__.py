"""`python -m bench.series`: the time to close a minute and to read a week, with few and with many finished nodes.

The minutes are equally busy in every row of the table; only what was finished before them grows.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from artiway.platform import sql
from artiway.platform.clock import Clock
from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from artiway.series.model import MINUTE, SERIES, floor
from artiway.series.repository import PostgresSeries
from artiway.series.service import SeriesService
from artiway.settings.model import Defaults
from bench.why.callers import quiet
from local.servers import free_port, running, start_postgres

SQL = sql.load("bench.series", "world.sql")
RESULTS = Path(__file__).parent.parent / "results"
ROLES = ("artiway_owner", "artiway_app", "artiway_service")
TENANTS, WAITING, PER_SECOND, MINUTES = 1_000, 20_000, 20, 10
FINISHED = (20_000, 200_000)


class Unknown:
    def of_minute(self, minute: datetime) -> None:
        return None


class Moved(Clock):
    at: datetime

    def now(self) -> datetime:
        return self.at


@contextlib.contextmanager
def world(finished: int, now: datetime) -> Iterator[tuple[Database, psycopg.Connection[Any]]]:
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        Path(folder).chmod(0o755)
        with running(start_postgres(Path(folder) / "postgres", free_port())) as postgres, quiet():
            service = _prepared(postgres.url)
            with psycopg.connect(make_conninfo(postgres.url, dbname="artiway"), autocommit=True) as connection:
                connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
                named = {"tenants": TENANTS, "until": now, "since": now, "gap_s": 1 / PER_SECOND}
                connection.execute(SQL["add_waiting"], {**named, "nodes": WAITING})
                connection.execute(SQL["add_finished"], {**named, "nodes": finished})
                connection.execute("VACUUM ANALYZE")
                with contextlib.closing(Database(service, statement_timeout_ms=60_000)) as database:
                    yield database, connection


def _prepared(url: str) -> str:
    """A database with the schema. Returns the address of the service's role."""
    password = secrets.token_urlsafe(12)
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD '{password}'".encode())
        connection.execute("CREATE DATABASE artiway OWNER artiway_owner")
    urls = {role: make_conninfo(url, user=role, password=password, dbname="artiway") for role in ROLES}
    migrate(urls["artiway_owner"])
    return urls["artiway_service"]


def measure(finished: int) -> dict[str, Any]:
    now = floor(datetime.now(UTC), MINUTE)
    clock = Moved()
    with world(finished, now) as (database, connection):
        service = SeriesService(
            PostgresSeries(database, database, pools=("gpu", "enterprise"), beat_s=lambda: 10),
            Unknown(),
            dict,
            Defaults(),
            clock,
        )
        first = now - (MINUTES + 2) * MINUTE
        connection.execute("INSERT INTO series_pass (closed_until) VALUES (%s)", [first])
        took = []
        for number in range(MINUTES):
            clock.at = first + (number + 2) * MINUTE
            took.append(_ms(service.close_minutes))
        rows = connection.execute("SELECT count(*) FROM series_minute").fetchone()
        read = [_ms(lambda: service.read(SERIES["wait_p95"], now - timedelta(days=7), now, 3_600)) for _ in range(5)]
    assert rows is not None
    return {
        "finishedNodes": finished,
        "closeMs": round(statistics.median(took), 1),
        "slowestCloseMs": round(max(took), 1),
        "rowsPerMinute": rows[0] // MINUTES,
        "readMs": round(statistics.median(read), 1),
    }


def _ms(call: Any) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    print(f"{WAITING:,} nodes wait, {PER_SECOND} complete each second, {TENANTS:,} tenants")
    print("| finished nodes | close a minute, median ms | slowest ms | rows of a minute | read 7 days, ms |")
    print("| --- | --- | --- | --- | --- |")
    found = []
    for finished in FINISHED:
        found.append(one := measure(finished))
        print(
            f"| {one['finishedNodes']:,} | {one['closeMs']} | {one['slowestCloseMs']} | {one['rowsPerMinute']}"
            f" | {one['readMs']} |",
            flush=True,
        )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "series.json").write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
