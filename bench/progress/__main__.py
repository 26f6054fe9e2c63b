"""Writes to PostgreSQL while workers report progress fifty times a second: `python -m bench.progress`.

The handler of the progress function runs in several processes, as on AWS, with PostgreSQL and Valkey; it pushes to a
queue of the emulator. PostgreSQL counts the writes. The second run flushes Valkey every second.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import platform
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import redis
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from artiway import ids
from artiway.platform import sql
from artiway.platform.migrations import migrate
from artiway.platform.redis_keys import task_events
from bench.progress import sandbox
from local.emulator import client, start_emulator
from local.lambdas import REGION
from local.servers import free_port, running, start_postgres, start_valkey

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "progress.json"
SQL = sql.load("bench.progress", "world.sql")
PASSWORD = "bench"
NODES = 4
RATE = 50
SECONDS = 25
INTERVAL_S = 5
SANDBOXES = 3
FLUSH_S = 1
DRAIN_S = 120


@dataclass(frozen=True)
class World:
    """The addresses of the servers and the ids of the running nodes."""

    environment: Mapping[str, str]
    database_url: str
    redis_url: str
    tenant_id: UUID
    task_id: UUID
    node_ids: tuple[UUID, ...]

    def record(self, number: int, percent: int) -> dict[str, Any]:
        """Message `number` as SQS delivers it to a function. The nodes take turns."""
        data = {
            "tenantId": str(self.tenant_id),
            "taskId": str(self.task_id),
            "nodeId": str(self.node_ids[number % len(self.node_ids)]),
            "attempt": 1,
            "workerId": "w",
            "sequence": number + 1,
            "progress": percent,
        }
        return {"messageId": str(number), "body": json.dumps({"type": "progress", "data": data})}


def send(world: World, messages: multiprocessing.Queue[dict[str, Any] | None], *, is_flushed: bool) -> int:
    """Send messages at an even rate, for each node in turn, with rising percentages."""
    total = NODES * RATE * SECONDS
    began = time.monotonic()
    with redis.Redis.from_url(world.redis_url) as valkey:
        for number in range(total):
            due = began + number / (NODES * RATE)
            time.sleep(max(0.0, due - time.monotonic()))
            if is_flushed and number % (NODES * RATE * FLUSH_S) == 0:
                valkey.flushall()
            messages.put(world.record(number, 1 + 98 * number // total))
    return total


def measure(world: World, *, is_flushed: bool) -> dict[str, float]:
    with psycopg.connect(world.database_url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute(b"TRUNCATE write_log")
        connection.execute(b"UPDATE task_node SET progress = 0, progress_at = now() - interval '1 minute'")
        connection.execute(b"TRUNCATE write_log")
        before = settled(connection)
        context = multiprocessing.get_context("spawn")
        messages: multiprocessing.Queue[dict[str, Any] | None] = context.Queue()
        messages.cancel_join_thread()  # do not wait for messages that no process reads
        ready = context.Semaphore(0)
        processes = [
            context.Process(target=sandbox.run, args=(world.environment, messages, ready)) for _ in range(SANDBOXES)
        ]
        for one in processes:
            one.start()
        for _ in processes:
            ready.acquire(timeout=DRAIN_S)
        began = time.monotonic()
        count = send(world, messages, is_flushed=is_flushed)
        sent_s = time.monotonic() - began
        for _ in processes:
            messages.put(None)
        for one in processes:
            one.join(DRAIN_S)
            if one.exitcode != 0:
                raise RuntimeError(f"a sandbox ended with {one.exitcode}")
        took_s = time.monotonic() - began
        after = settled(connection)
        gaps = connection.execute(SQL["gaps"]).fetchone()
        assert gaps is not None
    writes = after["nodes"] - before["nodes"]
    if writes != gaps["writes"] or writes != after["rows"] - before["rows"]:
        raise RuntimeError(f"the two counts of writes differ: {before}, {after}, {gaps}")
    return {
        "messages": count,
        "seconds": round(took_s, 1),
        "messages_per_node_and_s": round(count / NODES / sent_s, 1),
        "writes": writes,
        "writes_per_node_and_5s": round(writes / NODES / (took_s / INTERVAL_S), 2),
        "smallest_gap_s": round(gaps["smallest_s"], 2),
    }


def settled(connection: psycopg.Connection[dict[str, Any]]) -> dict[str, int]:
    """PostgreSQL's statistics after every session has flushed its counters."""
    connection.execute(b"SELECT pg_stat_force_next_flush()")
    known: dict[str, int] = {}
    while (found := connection.execute(SQL["written"]).fetchone()) != known:
        assert found is not None
        known = found
        time.sleep(1.5)  # a running session flushes its counters once a second
    return known


@contextlib.contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        home.chmod(0o755)
        with (
            running(start_postgres(home, free_port())) as postgres,
            running(start_valkey(home, free_port(), is_durable=False)) as valkey,
            running(start_emulator(home / "aws", free_port())) as emulator,
        ):
            yield prepared(postgres.url, valkey.url, emulator.url)


def prepared(postgres_url: str, redis_url: str, aws_url: str) -> World:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for role in ("artiway_owner", "artiway_app", "artiway_service"):
            connection.execute(f"CREATE ROLE {role} LOGIN CREATEROLE PASSWORD '{PASSWORD}'".encode())
        connection.execute(b"CREATE DATABASE artiway OWNER artiway_owner")
    urls = {
        role: make_conninfo(postgres_url, user=f"artiway_{role}", password=PASSWORD, dbname="artiway")
        for role in ("owner", "app", "service")
    }
    migrate(urls["owner"])
    facts = {name: ids.new_id() for name in ("tenant_id", "user_id", "task_id")}
    node_ids = tuple(ids.new_id() for _ in range(NODES))
    database_url = make_conninfo(postgres_url, dbname="artiway")
    with psycopg.connect(database_url, autocommit=True) as connection:
        for name in ("tenant", "user", "task", "nodes", "write_log", "write_log_function", "write_log_trigger"):
            connection.execute(SQL[name], {**facts, "node_ids": list(node_ids)})
    with redis.Redis.from_url(redis_url) as valkey:
        valkey.xadd(task_events(facts["task_id"]), {"event": "started", "body": "{}"}, id="1-0")
    push_queue = client("sqs", aws_url).create_queue(QueueName="push")["QueueUrl"]
    environment = {
        "ARTIWAY_DATABASE_URL": urls["app"],
        "ARTIWAY_SERVICE_DATABASE_URL": urls["service"],
        "ARTIWAY_REDIS_URL": redis_url,
        "ARTIWAY_QUEUE_ADDRESS": push_queue.removesuffix("/push"),
        "ARTIWAY_QUEUES": '{"push": "push"}',
        "AWS_ENDPOINT_URL": aws_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    return World(environment, database_url, redis_url, facts["tenant_id"], facts["task_id"], node_ids)


def main() -> None:
    with world() as prepared_world:
        rows = {
            "Valkey running": measure(prepared_world, is_flushed=False),
            "Valkey flushed every second": measure(prepared_world, is_flushed=True),
        }
    print(f"{NODES} nodes, {SANDBOXES} processes of the progress function, batches of at most {sandbox.BATCH}")
    print(f"{'':<30}{'messages':>10}{'per node, s':>13}{'writes':>8}{'per node, 5 s':>15}{'smallest gap':>14}")
    for name, row in rows.items():
        print(
            f"{name:<30}{row['messages']:>10}{row['messages_per_node_and_s']:>13}{row['writes']:>8}"
            f"{row['writes_per_node_and_5s']:>15}{row['smallest_gap_s']:>12} s"
        )
    goals = {
        f"at most one write per node and {INTERVAL_S} s": all(
            row["writes_per_node_and_5s"] <= 1 and row["smallest_gap_s"] >= INTERVAL_S for row in rows.values()
        ),
        f"at {RATE} messages per node and second": all(
            row["messages_per_node_and_s"] >= 0.9 * RATE for row in rows.values()
        ),
    }
    for goal, is_met in goals.items():
        print(f"{'met   ' if is_met else 'MISSED'}  {goal}")
    RESULTS.parent.mkdir(exist_ok=True)
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    RESULTS.write_text(json.dumps({"machine": machine, "runs": rows, "goals": goals}, indent=2) + "\n")


if __name__ == "__main__":
    main()
