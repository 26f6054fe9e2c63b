"""The scheduler as it runs in production, less the sending: ready, fair queue, dispatch and release with PostgreSQL.

PostgreSQL is durable (fsync on). Each node costs two guarded updates with their history rows and one outbox row, each
in a transaction per batch. Claim and finish are the worker's and the progress function's, one node at a time, and are
not in here. A standing backlog belongs to a tenant that may run nothing, so that it stays.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import redis
from psycopg.conninfo import make_conninfo

from artiway import ids
from artiway.audit.repository import AuditLog
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from artiway.scheduling.dispatcher import Dispatcher
from artiway.scheduling.queue import FairQueue
from artiway.scheduling.repository import PostgresSchedulingStore
from artiway.tasks.repository import PostgresNodes
from bench.wfq.ours import cpu_us
from local.servers import free_port, running, start_postgres

TENANTS = 50
SLOTS = 1_000
TASK_NODES = 100
START_S = 60

_start: Barrier | None = None


@dataclass(frozen=True)
class Gone:
    node_id: UUID
    pool: str = "gpu"
    gpu_us: int | None = 6_000_000


class Now:
    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(frozen=True)
class Load:
    batch: int
    clients: int
    nodes: int
    waiting: int = 0


@dataclass(frozen=True)
class Result:
    """Ready to released, by all clients; and what the servers' CPUs spent on it."""

    load: Load
    nodes_per_s: float
    postgres_us_per_node: float
    redis_us_per_node: float

    def row(self) -> dict[str, Any]:
        return {**asdict(self.load), **{k: v for k, v in asdict(self).items() if k != "load"}}


def measure(redis_url: str, load: Load) -> Result:
    """Ready to released, all nodes, by several schedulers at once. Like a peer's they are connected when it begins."""
    client = redis.Redis.from_url(redis_url)
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(load.clients + 1)
    with (
        tempfile.TemporaryDirectory() as home,
        running(start_postgres(_reachable(home), free_port())) as server,
        spawn.Pool(load.clients, _stand_at, (start,)) as pool,
    ):
        service_url = _prepared(server.url)
        client.flushall()
        made = _insert(make_conninfo(server.url, dbname="artiway"), load)
        _drive(_scheduler(service_url, redis_url)[0], [], load.batch)  # finds no queue, and builds it
        clients = [(service_url, redis_url, made[number :: load.clients], load.batch) for number in range(load.clients)]
        driven = pool.starmap_async(_client, clients, chunksize=1)
        start.wait(START_S)
        before = _cpu_us(server.process.pid), cpu_us(client), time.perf_counter()
        start.wait(START_S)
        done = sum(driven.get())
        after = _cpu_us(server.process.pid), cpu_us(client), time.perf_counter()
    if done != load.nodes - load.clients * load.batch:
        raise RuntimeError(f"{done} of {load.nodes - load.clients * load.batch} nodes were dispatched")
    postgres_us, redis_us, took = (later - sooner for sooner, later in zip(before, after, strict=True))
    return Result(load, done / took, postgres_us / done, redis_us / done)


def rebuild_s(redis_url: str, waiting: int) -> float:
    """Redis was emptied: how long until the scheduler has the queue back from PostgreSQL."""
    client = redis.Redis.from_url(redis_url)
    with tempfile.TemporaryDirectory() as home, running(start_postgres(_reachable(home), free_port())) as server:
        service_url, url = _prepared(server.url), make_conninfo(server.url, dbname="artiway")
        _insert(url, Load(TASK_NODES, 1, waiting))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "UPDATE task_node SET status = 'QUEUED', version = version + 1, ready_at = clock_timestamp()"
            )
            connection.execute("ANALYZE")
        scheduler, queue = _scheduler(service_url, redis_url)
        with _quiet():
            scheduler.refresh("gpu")
            client.flushall()
            started = time.perf_counter()
            scheduler.rebuild("gpu")
            took = time.perf_counter() - started
        found = sum(queue.waiting_by_track().values())
        if found != waiting:
            raise RuntimeError(f"{found} of {waiting} nodes came back")
    return took


def _cpu_us(postmaster: int) -> float:
    """Of all PostgreSQL processes, those that have ended included. Linux says; elsewhere it stays unknown."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children")
    if not children.exists():
        return math.nan
    ticks = 0
    for pid in [postmaster, *map(int, children.read_text().split())]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # Own time in user and system mode, and for the first one that of its children that were waited for.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15] if pid == postmaster else fields[11:13]))
    return ticks * 1e6 / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Logs and metrics are lines on standard output, where our tables are."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _scheduler(service_url: str, redis_url: str) -> tuple[Dispatcher, FairQueue]:
    database = Database(service_url)
    queue = FairQueue(redis.Redis.from_url(redis_url), "gpu")
    scheduler = Dispatcher(
        PostgresNodes(database, Outbox(lambda *_: None)),
        PostgresSchedulingStore(database, AuditLog(), silence_s=3600, window_s=3600, samples=100, prefetch=0),
        lambda _pool: queue,
        Now(),
    )
    return scheduler, queue


def _stand_at(start: Barrier) -> None:
    global _start
    _start = start


def _client(service_url: str, redis_url: str, nodes: list[UUID], batch: int) -> int:
    """The first batch warms up; the rest waits until everybody is there."""
    assert _start is not None
    scheduler, _ = _scheduler(service_url, redis_url)
    _drive(scheduler, nodes[:batch], batch)
    for _ in ("here", "go"):
        _start.wait(START_S)
    return _drive(scheduler, nodes[batch:], batch)


def _drive(scheduler: Dispatcher, nodes: list[UUID], batch: int) -> int:
    sent = 0
    with _quiet():
        scheduler.refresh("gpu")
        for start in range(0, len(nodes), batch):
            part = nodes[start : start + batch]
            sent += scheduler.ready(part)
            sent += scheduler.release([Gone(node_id) for node_id in part])
    return sent


def _prepared(url: str) -> str:
    password = secrets.token_urlsafe(12)
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ("artiway_owner", "artiway_app", "artiway_service"):
            connection.execute(f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD '{password}'".encode())
        connection.execute("CREATE DATABASE artiway OWNER artiway_owner")
    with _quiet():
        migrate(make_conninfo(url, user="artiway_owner", password=password, dbname="artiway"))
    return make_conninfo(url, user="artiway_service", password=password, dbname="artiway")


def _insert(url: str, load: Load) -> list[UUID]:
    """Tasks as submissions leave them: nodes pending, nothing to wait for."""
    made: list[UUID] = []
    with psycopg.connect(url, autocommit=True) as connection:
        tenants = [_tenant(connection, "ACTIVE") for _ in range(TENANTS)]
        waiter = _tenant(connection, "SUSPENDED")
        connection.execute(
            "INSERT INTO worker (worker_id, pool, types, slots) VALUES ('w', 'gpu', ARRAY['cutout'], %s)", (SLOTS,)
        )
        for place in range(0, load.nodes, TASK_NODES):
            made += _task(connection, tenants[place // TASK_NODES % TENANTS], TASK_NODES)
        for _ in range(0, load.waiting, TASK_NODES):
            _task(connection, waiter, TASK_NODES)
        connection.execute("ANALYZE")  # as a quiet hour left it: nothing is waiting yet
        connection.execute(
            "UPDATE task_node SET status = 'QUEUED', version = version + 1, ready_at = clock_timestamp()"
            " WHERE tenant_id = %s",
            (waiter[0],),
        )
    return made[: load.nodes]


def _tenant(connection: psycopg.Connection, status: str) -> tuple[UUID, UUID]:
    tenant_id, user_id = ids.new_id(), ids.new_id()
    connection.execute(
        "INSERT INTO tenant (tenant_id, name, tier, concurrency, status) VALUES (%s, 'T', 'vip', 100000, %s)",
        (tenant_id, status),
    )
    connection.execute("INSERT INTO app_user (tenant_id, user_id) VALUES (%s, %s)", (tenant_id, user_id))
    return tenant_id, user_id


def _task(connection: psycopg.Connection, owner: tuple[UUID, UUID], count: int) -> list[UUID]:
    tenant_id, user_id = owner
    task_id, nodes = ids.new_id(), [ids.new_id() for _ in range(count)]
    connection.execute(
        "INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points)"
        " VALUES (%s, %s, %s, 'cutout', %s, 'vip_short', 'gpu', 1)",
        (tenant_id, task_id, user_id, ids.new_id()),
    )
    connection.execute(
        "INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool,"
        " cost_us, is_result, in_degree) SELECT %s, id, %s, %s, place, 'n' || place, 'cutout', 's',"
        " 'vip_short', 'gpu', 6000000, true, 0 FROM unnest(%s::uuid[]) WITH ORDINALITY AS made (id, place)",
        (tenant_id, task_id, user_id, nodes),
    )
    return nodes


def _reachable(home: str) -> Path:
    Path(home).chmod(0o755)
    return Path(home)
