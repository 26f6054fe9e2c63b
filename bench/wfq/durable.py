"""The scheduler as it runs in production, less the sending: ready, fair queue, dispatch and release with PostgreSQL.

PostgreSQL is durable (fsync on). Each node costs two guarded updates with their history rows and one outbox row, each
in a transaction per batch. Claim and finish are the worker's and the progress function's, one node at a time, and are
not in here.
"""

from __future__ import annotations

import multiprocessing
import secrets
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
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
from artiway.scheduling.repository import PostgresBook
from artiway.tasks.repository import PostgresNodes
from local.servers import free_port, running, start_postgres

TENANTS = 50
SLOTS = 1_000
TASK_NODES = 100


@dataclass(frozen=True)
class Gone:
    node_id: UUID
    pool: str = "gpu"
    gpu_us: int | None = 6_000_000


class Now:
    def now(self) -> datetime:
        return datetime.now(UTC)


def nodes_per_s(redis_url: str, *, nodes: int, batch: int, clients: int) -> float:
    """Ready to released, all nodes, by several schedulers at once."""
    with (
        tempfile.TemporaryDirectory() as home,
        running(start_postgres(_reachable(home), free_port())) as server,
    ):
        service_url = _prepared(server.url)
        redis.Redis.from_url(redis_url).flushall()
        made = _insert(make_conninfo(server.url, dbname="artiway"), nodes)
        parts = [made[number::clients] for number in range(clients)]
        with multiprocessing.get_context("spawn").Pool(clients) as pool:
            pool.starmap(_drive, [(service_url, redis_url, part[:batch], batch) for part in parts])  # warm
            started = time.perf_counter()
            done = pool.starmap(_drive, [(service_url, redis_url, part[batch:], batch) for part in parts])
            took = time.perf_counter() - started
    if sum(done) != nodes - clients * batch:
        raise RuntimeError(f"{sum(done)} of {nodes - clients * batch} nodes were dispatched")
    return sum(done) / took


def _drive(service_url: str, redis_url: str, nodes: list[UUID], batch: int) -> int:
    database = Database(service_url)
    queue = FairQueue(redis.Redis.from_url(redis_url), "gpu")
    scheduler = Dispatcher(
        PostgresNodes(database, Outbox(lambda *_: None)),
        PostgresBook(database, AuditLog(), silence_s=3600, window_s=3600, samples=100, prefetch=0),
        lambda _pool: queue,
        Now(),
    )
    sent = 0
    for start in range(0, len(nodes), batch):
        part = nodes[start : start + batch]
        sent += scheduler.ready(part)
        sent += scheduler.left([Gone(node_id) for node_id in part])
    return sent


def _prepared(url: str) -> str:
    password = secrets.token_urlsafe(12)
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ("artiway_owner", "artiway_app", "artiway_service"):
            connection.execute(f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD '{password}'".encode())
        connection.execute("CREATE DATABASE artiway OWNER artiway_owner")
    migrate(make_conninfo(url, user="artiway_owner", password=password, dbname="artiway"))
    return make_conninfo(url, user="artiway_service", password=password, dbname="artiway")


def _insert(url: str, count: int) -> list[UUID]:
    """Tasks as submissions leave them: nodes pending, nothing to wait for."""
    made: list[UUID] = []
    with psycopg.connect(url, autocommit=True) as connection:
        tenants = [(ids.new_id(), ids.new_id()) for _ in range(TENANTS)]
        for tenant_id, user_id in tenants:
            connection.execute(
                "INSERT INTO tenant (tenant_id, name, tier, concurrency) VALUES (%s, 'T', 'vip', 100000)", (tenant_id,)
            )
            connection.execute("INSERT INTO app_user (tenant_id, user_id) VALUES (%s, %s)", (tenant_id, user_id))
        connection.execute(
            "INSERT INTO worker (worker_id, pool, types, slots) VALUES ('w', 'gpu', ARRAY['cutout'], %s)", (SLOTS,)
        )
        for place in range(0, count, TASK_NODES):
            tenant_id, user_id = tenants[place // TASK_NODES % TENANTS]
            task_id, nodes = ids.new_id(), [ids.new_id() for _ in range(TASK_NODES)]
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
            made += nodes
        connection.execute("ANALYZE")
    return made


def _reachable(home: str) -> Path:
    Path(home).chmod(0o755)
    return Path(home)


if __name__ == "__main__":
    from local.servers import start_valkey

    with tempfile.TemporaryDirectory() as place, running(start_valkey(Path(place), free_port())) as valkey:
        for clients in (1, 2, 4):
            print(
                clients, "clients:", round(nodes_per_s(valkey.url, nodes=20_000, batch=100, clients=clients)), "nodes/s"
            )
