"""`python -m bench.why [--quick]`: why a task waits and what a new one may expect, with 20,000 nodes waiting.

Each caller is a process with its own connections, as an environment of the function is. The method before copied the
pool and ran the scheduler over every node; it is timed on the same data.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.conninfo import make_conninfo

from artiway import bootstrap
from artiway.platform import sql
from artiway.platform.migrations import migrate
from artiway.scheduling.model import Completion, Snapshot
from artiway.scheduling.oracle import Oracle
from bench.why.callers import ASK, call, meet, quiet
from local.servers import free_port, running, start_postgres, start_valkey

RESULTS = Path(__file__).parent.parent / "results"
SQL = sql.load("bench.why", "world.sql")
ROLES = ("artiway_owner", "artiway_app", "artiway_service")
WAITING = 20_000
TENANTS = (10, 1_000)
CALLERS = (1, 8)
POOL = "gpu"
# A slow answer is a figure here, not a failure.
TIME_LIMITS = [
    f"ARTIWAY_{name}_S"
    for name in (
        "DATABASE_CONNECT_TIMEOUT",
        "DATABASE_BEGIN_TIMEOUT",
        "DATABASE_REQUEST_TIMEOUT",
        "REDIS_TIMEOUT",
        "REDIS_CONNECT_TIMEOUT",
    )
]


@contextlib.contextmanager
def world(tenants: int) -> Iterator[list[tuple[UUID, UUID]]]:
    """Servers with waiting nodes, reached by the settings in the environment. Yields tenants and tasks that wait."""
    with (
        tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder,
        running(start_valkey(Path(folder) / "valkey", free_port())) as valkey,
        running(start_postgres(_reachable(folder), free_port())) as postgres,
        quiet(),
    ):
        urls = _prepared(postgres.url)
        os.environ |= {
            "ARTIWAY_DATABASE_URL": urls["artiway_app"],
            "ARTIWAY_SERVICE_DATABASE_URL": urls["artiway_service"],
            "ARTIWAY_REDIS_URL": valkey.url,
            "ARTIWAY_WORKER_SILENCE_S": "3600",
            "ARTIWAY_LOG_LEVEL": "ERROR",
            **dict.fromkeys(TIME_LIMITS, "10"),
            "ARTIWAY_DATABASE_STATEMENT_TIMEOUT_MS": "60000",
        }
        with psycopg.connect(make_conninfo(postgres.url, dbname="artiway"), autocommit=True) as connection:
            connection.execute(SQL["add_tenants"], {"tenants": tenants})
            connection.execute(SQL["add_tasks"], {"waiting": WAITING})
            connection.execute(SQL["add_worker"])
            connection.execute(SQL["make_ready"])
            connection.execute("ANALYZE")
            bootstrap.forget_all()
            bootstrap.scheduler().reconcile(POOL)
            bootstrap.scheduler().dispatch(POOL)
            rows = connection.execute(SQL["waiting_tasks"]).fetchall()
        yield [(row[0], row[1]) for row in rows]
        bootstrap.forget_all()


def measure(name: str, tasks: Sequence[tuple[UUID, UUID]], *, callers: int, seconds: float) -> dict[str, Any]:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(callers, meet, (spawn.Barrier(callers),)) as pool:
        parts = pool.starmap(call, [(name, tasks, seconds)] * callers, chunksize=1)
    took = sorted(ms for part, _ in parts for ms in part)
    return {
        "call": name,
        "callers": callers,
        "calls": len(took),
        "p50Ms": round(took[len(took) // 2], 1),
        "p95Ms": round(took[len(took) * 95 // 100], 1),
        "cpuMsPerCall": round(sum(cpu for _, cpu in parts) / len(took), 2),
    }


def before(tasks: Sequence[tuple[UUID, UUID]]) -> dict[str, Any]:
    """Copy the pool and run the scheduler until the node of one task starts."""
    graph = bootstrap.tasks().graph(tenant_id=tasks[0][0], task_id=tasks[0][1])
    began, cpu = time.perf_counter(), time.process_time()
    run_until(bootstrap.scheduling_store().snapshot(POOL), str(graph.nodes[0].node_id))
    return {
        "call": "why, by copying the pool",
        "callers": 1,
        "calls": 1,
        "p50Ms": round((time.perf_counter() - began) * 1000, 1),
        "cpuMsPerCall": round((time.process_time() - cpu) * 1000, 1),
    }


def run_until(snapshot: Snapshot, node_id: str) -> float:
    oracle = Oracle()
    oracle.load(snapshot)
    ends = [(float(run.charged_us), run.node.node_id) for run in snapshot.running]
    heapq.heapify(ends)
    now = 0.0
    while True:
        for chosen in oracle.dispatch(WAITING):
            if chosen.node.node_id == node_id:
                return now
            heapq.heappush(ends, (now + chosen.charged_us, chosen.node.node_id))
        now, ended = heapq.heappop(ends)
        oracle.complete([Completion(ended)])


def _prepared(url: str) -> dict[str, str]:
    password = secrets.token_urlsafe(12)
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD '{password}'".encode())
        connection.execute("CREATE DATABASE artiway OWNER artiway_owner")
    urls = {role: make_conninfo(url, user=role, password=password, dbname="artiway") for role in ROLES}
    migrate(urls["artiway_owner"])
    return urls


def _reachable(folder: str) -> Path:
    Path(folder).chmod(0o755)
    return Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for tenants in TENANTS:
        with world(tenants) as tasks:
            found = [
                measure(name, tasks, callers=callers, seconds=3 if arguments.quick else 10)
                for name in ASK
                for callers in CALLERS
            ]
            if not arguments.quick:
                found.append(before(tasks))
        rows += [{"tenants": tenants, "waiting": WAITING, **row} for row in found]
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    RESULTS.mkdir(exist_ok=True)
    result = {"rows": rows, "machine": {"cores": os.cpu_count(), "load": os.getloadavg()[0]}}
    (RESULTS / "why.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
