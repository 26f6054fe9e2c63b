"""`python -m local.promises [hours]`: actual / promised duration of the tasks that completed on the running stack."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from artiway.platform.sql import load
from local.shop import running_facts

SQL = load("local", "promises.sql")
HOURS = 24.0


@dataclass(frozen=True)
class Promises:
    """Quartiles of actual / promised: above 1 a task took longer than was promised."""

    tasks: int
    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.tasks} tasks, median {self.median:.2f}, quartiles {self.low:.2f} and {self.high:.2f}"


def kept(database_url: str, *, since: datetime) -> Promises | None:
    """The promises of tasks that were submitted since then and completed. None without such a task."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(SQL["kept_promises"], {"since": since}).fetchone()
    assert row is not None
    return Promises(row[0], *row[1]) if row[0] else None


def main() -> int:
    facts = running_facts(Path(os.environ.get("ARTIWAY_HOME", ".artiway")))
    if not facts:
        print("no stack is running", file=sys.stderr)
        return 1
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else HOURS
    found = kept(facts["databaseUrl"], since=datetime.now(UTC) - timedelta(hours=hours))
    print(f"actual / promised duration: {found or 'no task has completed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
