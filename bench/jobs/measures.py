"""What a run of the line shows: delays, duplicates, missed fires, rows and WAL."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from bench.jobs.world import Definition

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
# A run of the window that has not ended so long after it is missed.
GRACE_S = 30


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """By the nearest rank; empty for no value."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {name: round(ordered[math.ceil(len(ordered) * q) - 1], 3) for name, q in QUANTILES.items()}


def counters(connection: psycopg.Connection) -> dict[str, float]:
    connection.execute("SELECT pg_stat_force_next_flush()")
    (wal,) = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone() or (0,)
    (rows,) = connection.execute(
        "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_all_tables WHERE schemaname = 'public'"
    ).fetchone() or (0,)
    (transactions,) = connection.execute(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone() or (0,)
    return {"walBytes": float(wal), "rows": float(rows or 0), "transactions": float(transactions)}


def cpu_s(pid: int) -> float:
    """Of a process and its children, those that have ended included."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        return math.nan
    ticks = 0
    for one in [pid, *map(int, children.read_text().split())]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15] if one == pid else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def unlike(connection: psycopg.Connection, made: Sequence[Definition], start: datetime, minutes: int) -> dict[str, int]:
    """Runs against the list of fires: missed, not wanted, and runs with another time to start than their slot."""
    wanted = {(one.job_id, fire): one.assigned(fire) for one in made for fire in one.fires(start, minutes)}
    listed, unwanted, moved = len(wanted), 0, 0
    with connection.transaction(), connection.cursor("runs") as cursor:
        cursor.itersize = 20_000
        cursor.execute(
            "SELECT job_id, scheduled_at, assigned_at FROM job_run WHERE scheduled_at >= %s AND scheduled_at < %s",
            (start, start + timedelta(minutes=minutes)),
        )
        for job_id, scheduled_at, assigned_at in cursor:
            expected = wanted.pop((job_id, scheduled_at), None)
            unwanted += expected is None
            moved += expected is not None and expected != assigned_at
    return {"listed": listed, "missed": len(wanted), "unwanted": unwanted, "moved": moved}


def delays(connection: psycopg.Connection, found: dict[str, Any], start: datetime, end: datetime) -> dict[str, Any]:
    """Seconds after the time that a run was assigned, for each step that it passes."""
    window = (start, end)
    rows = connection.execute(
        "SELECT run_id::text, extract(epoch FROM assigned_at)::float8, extract(epoch FROM started_at)::float8,"
        "       extract(epoch FROM ended_at)::float8, state, attempt, extract(epoch FROM created_at)::float8"
        "  FROM job_run WHERE scheduled_at >= %s AND scheduled_at < %s",
        window,
    ).fetchall()
    assigned = {row[0]: row[1] for row in rows}
    hinted = _first(found["dispatch"]["hint"])
    notes = found.get("sink") or found["caller"]
    called = Counter(run_id for _, run_ids in notes["call"] for run_id in run_ids)
    calls = _first(notes["call"])
    states = Counter(row[4] for row in rows)
    return {
        "runs": len(rows),
        "states": dict(states),
        "createdAheadSeconds": quantiles([row[1] - row[6] for row in rows]),
        # The message is at the dispatcher; it may be early, then it waits for the second.
        "triggerLatency": quantiles([max(0.0, hinted[run] - at) for run, at in assigned.items() if run in hinted]),
        "startDelay": quantiles([row[2] - row[1] for row in rows if row[2] is not None]),
        "handedOver": quantiles([calls[run] - at for run, at in assigned.items() if run in calls]),
        "ended": quantiles([row[3] - row[1] for row in rows if row[3] is not None]),
        "early": sum(row[2] < row[1] for row in rows if row[2] is not None),
        "notHanded": sum(run not in called for run in assigned),
        "handedTwice": sum(count > 1 for run, count in called.items() if run in assigned),
        "startedTwice": sum(row[5] > 1 for row in rows),
        "notEnded": len(rows) - states.get("SUCCESS", 0),
    }


def _first(notes: Sequence[Sequence[Any]]) -> dict[str, float]:
    first: dict[str, float] = {}
    for at, run_ids in notes:
        for run_id in run_ids:
            first[run_id] = min(first.get(run_id, math.inf), at)
    return first
