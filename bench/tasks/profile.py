"""The time of a node: by hop from the database's timestamps, and CPU time by process from the kernel."""

from __future__ import annotations

import os
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from artiway.platform import sql

SQL = sql.load("bench.tasks", "hops.sql")
TICKS = os.sysconf("SC_CLK_TCK")


class DatabaseProbe:
    """Reads the stack's database as superuser: polling the API would disturb the measurement."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)

    def is_idle(self) -> bool:
        row = self._connection.execute(SQL["live"]).fetchone()
        return row is not None and row["live"] == 0

    def postpone_checkpoints(self) -> None:
        """Until the end of the run: a checkpoint would add whole pages to the WAL of the nodes after it."""
        self._connection.execute("ALTER SYSTEM SET checkpoint_timeout = '1h'")
        self._connection.execute("ALTER SYSTEM SET max_wal_size = '4GB'")
        self._connection.execute("SELECT pg_reload_conf()")

    def now(self) -> datetime:
        row = self._connection.execute("SELECT clock_timestamp() AS now").fetchone()
        assert row is not None
        now: datetime = row["now"]
        return now

    def hops(self, since: datetime) -> list[dict[str, Any]]:
        rows = self._connection.execute(SQL["hops"], {"since": since}).fetchall()
        return [
            {
                "hop": row["name"],
                "nodes": row["nodes"],
                "p50Ms": round(row["p50_ms"], 1),
                "p95Ms": round(row["p95_ms"], 1),
            }
            for row in rows
        ]


def cpu_ms() -> Counter[str]:
    """CPU milliseconds of the stack's processes so far, including this one."""
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        stats[int(folder.name)] = (text.partition("(")[2].rpartition(")")[0], int(fields[1]), ticks * 1000 / TICKS)
    used: Counter[str] = Counter()
    for pid, (name, _, milliseconds) in stats.items():
        if _is_descendant(pid, stats):
            used[_label(pid, name)] += round(milliseconds)
    return used


def _is_descendant(pid: int, stats: dict[int, tuple[str, int, float]]) -> bool:
    while pid in stats:
        if pid == os.getpid():
            return True
        pid = stats[pid][1]
    return False


def _label(pid: int, name: str) -> str:
    if pid == os.getpid():
        return "stack: Lambda server, edge; client"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if "awslambdaric" in command:
            variables = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
            return next(v.partition("=")[2] for v in variables if v.startswith("AWS_LAMBDA_FUNCTION_NAME="))
    except OSError:
        return name
    known = {"ministack_main": "emulator", "bench.tasks.idle_worker": "idle workers", "postgres": "PostgreSQL"}
    return next((label for word, label in known.items() if any(word in part for part in command)), name)


def show(hops: list[dict[str, Any]], used: dict[str, float]) -> None:
    print(f"  {'hop':50} {'p50 ms':>9} {'p95 ms':>9}")
    for row in hops:
        print(f"  {row['hop']:50} {row['p50Ms']:9.1f} {row['p95Ms']:9.1f}")
    print(f"  {'CPU per node, by process':50} {'ms':>9}")
    for name, milliseconds in sorted(used.items(), key=lambda item: -item[1]):
        if milliseconds >= 0.2:
            print(f"  {name:50} {milliseconds:9.1f}")
    print(f"  {'all':50} {sum(used.values()):9.1f}")
