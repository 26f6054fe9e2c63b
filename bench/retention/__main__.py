"""Passes of the retention and of the invariants over finished nodes of a year: `python -m bench.retention`.

    python -m bench.retention [--nodes 100000 1000000] [--passes 3]

For each size it prints the rows and blocks that PostgreSQL counts for a pass, and its time. A bounded pass reads as
much at a million nodes as at a hundred thousand; only the full check grows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from artiway.platform.settings import Settings
from artiway.platform.sql import load
from artiway.recovery.invariants import Invariants
from artiway.recovery.mirror import SlotMirror
from artiway.recovery.model import Health
from artiway.recovery.repository import PostgresInvariantQueries, PostgresSlots
from artiway.retention.repository import PostgresExpiredRows
from artiway.retention.rules import RULES
from artiway.retention.service import RetentionService
from artiway.settings.model import Defaults, Fixed, SettingValues
from local.servers import free_port, running, start_postgres

SQL = load("bench.retention", "world.sql")
RESULTS = Path(__file__).parents[1] / "results" / "retention.json"
NODES_PER_TASK = 7
PASSWORD = "bench"
ROWS = ("tenants", "users", "tasks", "nodes", "dependencies", "history", "events", "artefacts", "holds", "ledger")
MORE = ("accounts", "webhooks", "deliveries", "passed")


@contextlib.contextmanager
def database(folder: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a superuser and of the service role."""
    folder.chmod(0o755)
    with running(start_postgres(folder, free_port(), is_durable=False)) as server:
        with psycopg.connect(server.url, autocommit=True) as superuser:
            superuser.execute(f"CREATE ROLE artiway_owner LOGIN CREATEROLE PASSWORD '{PASSWORD}'".encode())
            superuser.execute("CREATE DATABASE artiway OWNER artiway_owner")
        owner = make_conninfo(server.url, dbname="artiway", user="artiway_owner", password=PASSWORD)
        with psycopg.connect(owner, autocommit=True) as connection:
            for role in ("artiway_app", "artiway_service"):
                connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'".encode())
        migrate(owner)
        service = make_conninfo(server.url, dbname="artiway", user="artiway_service", password=PASSWORD)
        yield make_conninfo(server.url, dbname="artiway"), service


def fill(connection: psycopg.Connection[Any], nodes: int) -> None:
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET work_mem = '256MB'")
    for name in (*ROWS, *MORE):
        text = SQL[name].replace(b"%(tasks)s", str(nodes // NODES_PER_TASK).encode())
        connection.execute(text)
    connection.execute("RESET session_replication_role")
    connection.execute("VACUUM ANALYZE")


class Meter:
    """Rows and blocks that PostgreSQL counts, and the time."""

    def __init__(self, superuser: psycopg.Connection[Any], service: Database) -> None:
        self._superuser, self._service = superuser, service

    def _flushed(self) -> tuple[int, int]:
        with self._service.service_transaction() as tx:
            tx.all(b"SELECT pg_stat_force_next_flush()")
        with self._service.service_transaction() as tx:
            tx.all(b"SELECT 1")
        for query in ("SELECT pg_stat_force_next_flush()", "SELECT 1", "SELECT pg_stat_clear_snapshot()"):
            self._superuser.execute(query)
        counted = [self._superuser.execute(SQL[name]).fetchone() for name in ("read", "blocks")]
        return tuple(row[0] for row in counted if row)  # type: ignore[return-value]

    def measure(self, act: Callable[[], int]) -> dict[str, Any]:
        """`act` returns how many rows it deleted or checked."""
        before = self._flushed()
        began = time.monotonic()
        done = act()
        seconds = time.monotonic() - began
        rows, blocks = (after - earlier for after, earlier in zip(self._flushed(), before, strict=True))
        return {"done": done, "rowsRead": rows, "blocks": blocks, "seconds": round(seconds, 2)}


def run(superuser_url: str, service_url: str, nodes: int, *, passes: int) -> dict[str, Any]:
    began = time.monotonic()
    with (
        psycopg.connect(superuser_url, autocommit=True) as superuser,
        contextlib.closing(Database(service_url, statement_timeout_ms=600_000, request_timeout_s=1_200)) as service,
    ):
        fill(superuser, nodes)
        found: dict[str, Any] = {"nodes": nodes, "filledSeconds": round(time.monotonic() - began, 1)}
        mirror = SlotMirror(PostgresSlots(service), lambda pool: NotImplemented, pools=())
        invariants = Invariants(PostgresInvariantQueries(service), mirror, Defaults())
        settings = Settings()

        def purged(values: SettingValues) -> int:
            retention = RetentionService(
                PostgresExpiredRows(service), values, monotonic=time.monotonic, batches=settings.retention_batches
            )
            return sum(retention.run(within_s=settings.retention_work_s).values())

        def checked(health: Health) -> int:
            assert health.is_ok, [check for check in health.checks if not check.is_ok]
            return sum(check.checked for check in health.checks)

        meter = Meter(superuser, service)
        superuser.execute(SQL["minute"])
        found["changes of a minute"] = meter.measure(lambda: checked(invariants.check_changes()))
        found["slice of a night"] = meter.measure(
            lambda: checked(invariants.check_slice(within_s=settings.invariant_work_s))
        )
        found["full check"] = meter.measure(lambda: checked(invariants.check()))
        longest = Fixed({period: int(period.maximum or 0) for rule in RULES for period in rule.periods})
        found["retention, nothing due"] = meter.measure(lambda: purged(longest))
        found["retention"] = [meter.measure(lambda: purged(Defaults())) for _ in range(passes)]
        found["ledgerBytes"] = superuser.execute(SQL["ledger_bytes"]).fetchone()[0]  # type: ignore[index]
    return found


def show(found: dict[str, Any]) -> None:
    print(f"{found['nodes']:,} finished nodes of a year (made in {found['filledSeconds']} s)")
    lines = {name: value for name, value in found.items() if isinstance(value, dict)}
    lines |= {f"retention, pass {number}": value for number, value in enumerate(found["retention"], 1)}
    print(f"  {'pass':24}{'done':>12}{'rows read':>14}{'blocks':>12}{'seconds':>9}")
    for name, value in lines.items():
        print(f"  {name:24}{value['done']:>12,}{value['rowsRead']:>14,}{value['blocks']:>12,}{value['seconds']:>9}")
    print(f"  a ledger entry takes {found['ledgerBytes']} bytes with its indexes\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    results = []
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder, database(Path(folder)) as urls:
            results.append(run(*urls, nodes, passes=options.passes))
        show(results[-1])
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"python": platform.python_version(), "sizes": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
