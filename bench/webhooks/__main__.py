"""What one tenant's webhooks cost another tenant: `python -m bench.webhooks [--quick]`.

A tenant tries to register 2,000 webhooks, a second one registers none. They take turns: each submits 40 tasks, and
meanwhile a third tenant submits tasks of one node, one after the other. Its median with webhooks, divided by its median
without, must be at most 1.5. Both come from one run, so what else the machine does falls on both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from bench.tasks.__main__ import LIMIT_SECONDS, POLICY, POLL_SECONDS, SLOTS
from bench.tasks.idle_worker import IdleWorkers
from local import photos
from local.servers import free_port
from local.shop import Person, Platform, Refused
from local.stack import Stack

RESULTS = Path(__file__).parent.parent / "results" / "webhooks.json"
REGISTRATIONS = 2_000
TASKS = 40
PROBES = 10
ROUNDS = 4
CLIENTS = 8
GOAL_RATIO = 1.5


ACCEPTED = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def target(port: int) -> AsyncIterator[str]:
    """An address that takes every delivery, at next to no cost."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b"0")
        await reader.readexactly(int(length))
        writer.write(ACCEPTED)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", port)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class DatabaseProbe:
    """The stack's database, as its superuser: looking there disturbs less than asking the API."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def has_ended(self, task_id: str) -> bool:
        query = b"SELECT ended_at IS NOT NULL FROM task WHERE task_id = %s"
        row = self._connection.execute(query, [UUID(task_id.partition("_")[2])]).fetchone()
        return row is not None and bool(row[0])

    def is_quiet(self) -> bool:
        """No task runs, and no delivery waits: the next phase finds nothing of this one."""
        row = self._connection.execute(
            b"SELECT NOT EXISTS (SELECT FROM task WHERE ended_at IS NULL)"
            b" AND NOT EXISTS (SELECT FROM webhook_delivery WHERE status = 'PENDING')"
            b" AND NOT EXISTS (SELECT FROM outbox WHERE sent_at IS NULL AND destination LIKE 'webhook%')"
        ).fetchone()
        return row is not None and bool(row[0])

    def deliveries(self) -> dict[str, int]:
        rows = self._connection.execute(b"SELECT status, count(*) FROM webhook_delivery GROUP BY status").fetchall()
        return dict(rows)


async def until(is_so: Any, what: str) -> None:
    deadline = time.perf_counter() + LIMIT_SECONDS
    while not is_so():
        if time.perf_counter() > deadline:
            raise TimeoutError(what)
        await asyncio.sleep(POLL_SECONDS)


async def register(person: Person, address: str, count: int) -> Counter[str]:
    """What became of so many tries, by code."""
    outcomes: Counter[str] = Counter()
    numbers = iter(range(count))

    async def ask() -> None:
        for number in numbers:
            try:
                await person.call("POST", "/webhooks", {"url": f"{address}/{number}"})
                outcomes["created"] += 1
            except Refused as error:
                outcomes[str(error.body["code"])] += 1

    await asyncio.gather(*(ask() for _ in range(CLIENTS)))
    return outcomes


async def phase(loud: tuple[Person, str], quiet: tuple[Person, str], database: DatabaseProbe) -> list[float]:
    """Seconds that each task of the quiet tenant took while the loud one's were under way."""

    async def flood() -> None:
        person, product = loud
        await asyncio.gather(*(person.submit("crop", {"product": product}) for _ in range(TASKS)))

    flooding = asyncio.create_task(flood())
    person, product = quiet
    took = []
    for _ in range(PROBES):
        began = time.perf_counter()
        task_id = (await person.submit("crop", {"product": product}))["taskId"]
        await until(lambda task_id=task_id: database.has_ended(task_id), "the quiet tenant's task did not end")
        took.append(time.perf_counter() - began)
    await flooding
    await until(database.is_quiet, "tasks or deliveries did not end")
    return took


async def measure(facts: dict[str, Any], port: int, *, rounds: int) -> dict[str, Any]:
    database = DatabaseProbe(facts["databaseUrl"])
    async with target(port) as address, Platform.at(facts, retry_for_s=30) as platform:
        administrator = await platform.administrator()
        people = {}
        for name in ("without", "with", "quiet"):
            person = await administrator.open_shop(name, points=1_000_000, **POLICY)
            people[name] = person, await person.upload(photos.shirt(photos.BLUE, side=64))
        outcomes = await register(people["with"][0], address, REGISTRATIONS)
        took: dict[str, list[float]] = {"without": [], "with": []}
        for number in range(-1, rounds):  # the first one finds cold functions and is not counted
            for name, seconds in took.items():
                found = await phase(people[name], people["quiet"], database)
                if number >= 0:
                    seconds += found
    medians = {name: round(statistics.median(seconds) * 1_000, 1) for name, seconds in took.items()}
    return {
        "registrations": dict(outcomes),
        "tasks": TASKS,
        "probes": {name: len(seconds) for name, seconds in took.items()},
        "medianMs": medians,
        "meanMs": {name: round(statistics.mean(seconds) * 1_000, 1) for name, seconds in took.items()},
        "slowestMs": {name: round(max(seconds) * 1_000, 1) for name, seconds in took.items()},
        "ratio": round(medians["with"] / medians["without"], 2),
        "goal": GOAL_RATIO,
        "deliveries": database.deliveries(),
        "machine": {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one round")
    arguments = parser.parse_args()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        Path(folder).chmod(0o755)
        services, parameters = [IdleWorkers(slots=SLOTS)], {"AllowedTargets": f"127.0.0.1:{port}"}
        with Stack(home=Path(folder) / "home", port=free_port(), parameters=parameters, services=services) as stack:
            results = asyncio.run(measure(stack.facts, port, rounds=1 if arguments.quick else ROUNDS))
    print(f"one node of a quiet tenant while another ends {TASKS} tasks, after {REGISTRATIONS} tries to register")
    for name, value in results.items():
        print(f"  {name:13} {value}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
