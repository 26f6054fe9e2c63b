"""`python -m bench.jobs.storage`: bytes of a run with its result and log, in PostgreSQL and in the archive.

One day of runs as the engine writes them: a result and two lines of log each, one run in twenty with two attempts.
"""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from artiway import ids
from artiway.jobs.archive.repository import PostgresArchive
from artiway.jobs.archive.service import ArchiveService
from artiway.jobs.zones import TZDATA_VERSION
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from artiway.settings.model import Fixed
from local.database import bootstrap, in_database
from local.servers import free_port, running, start_postgres

RUNS = 20_000
JOBS = 500
DAYS_AGO = 10
KINDS = ("job_run", "run_result", "run_log")
HOT_DAYS, COLD_DAYS = 7, 173
RATES = {"2,500": 2_500 * 1_440, "37,500": 37_500 * 1_440}
SQL = sql.load("bench.jobs", "storage.sql")


class CountedObjects:
    """Keeps the objects in memory: the bytes of a run do not depend on where they lie."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, key: str, content: bytes) -> None:
        self.contents[key] = content

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        content = self.contents.get(key)
        return None if content is None else content[offset : None if length is None else offset + length]

    def delete(self, key: str) -> None:
        self.contents.pop(key, None)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running(start_postgres(Path(folder), free_port())) as server:
        urls = bootstrap(server.url, Path(folder))
        migrate(urls["artiway_owner"])
        with psycopg.connect(in_database(server.url), autocommit=True) as connection:
            hot = _hot_bytes(connection)
            objects = CountedObjects()
            store = PostgresArchive(Database(urls["artiway_service"]))
            archive = ArchiveService(store, objects, Fixed({}), monotonic=time.monotonic)
            began = time.monotonic()
            counts = archive.run(within_s=300)
            took_s = time.monotonic() - began
            index = connection.execute("SELECT pg_total_relation_size('run_archive_part')").fetchone()
        cold = sum(len(content) for content in objects.contents.values())
    assert index is not None
    print(f"{RUNS} runs, {counts}, {RUNS / took_s:.0f} runs a second")
    print(f"bytes a run: hot {hot / RUNS:.0f}, cold {cold / RUNS:.0f}, index {index[0] / RUNS:.2f}")
    for name, runs in RATES.items():
        hot_gb, cold_gb = runs * HOT_DAYS * hot / RUNS / 1e9, runs * COLD_DAYS * cold / RUNS / 1e9
        print(f"{name} runs a minute: {hot_gb:.0f} GB in PostgreSQL, {cold_gb:.0f} GB in S3")


def _hot_bytes(connection: psycopg.Connection) -> int:
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS_AGO)
    tenant, user = ids.new_id(), ids.new_id()
    connection.execute("INSERT INTO tenant (tenant_id, name, tier) VALUES (%s, 'bench', 'enterprise')", (tenant,))
    connection.execute(
        "INSERT INTO app_user (tenant_id, user_id, email) VALUES (%s, %s, 'bench@example.com')", (tenant, user)
    )
    connection.execute("SELECT job_partition_ensure(%s)", (day.date(),))
    given = {"tenant": tenant, "user": user, "tzdata": TZDATA_VERSION, "jobs": JOBS, "each": RUNS // JOBS, "day": day}
    for statement in SQL.values():
        connection.execute(statement, given)
    size = 0
    for kind in KINDS:
        part = f"{kind}_{day:%Y%m%d}"
        connection.execute(f"VACUUM ANALYZE {part}".encode())
        row = connection.execute("SELECT pg_total_relation_size(%s)", (part,)).fetchone()
        assert row is not None
        size += row[0]
    return size


if __name__ == "__main__":
    main()
