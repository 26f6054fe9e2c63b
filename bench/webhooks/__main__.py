"""The cost of one tenant's webhooks for another tenant: `python -m bench.webhooks [--quick]`.

A tenant tries to register 2,000 webhooks, a second one registers none. They take turns: each submits 40 tasks, and
meanwhile a third tenant submits tasks of one node, one after the other. Its median with webhooks, divided by its median
without, must be at most 1.5. Both come from one run, so that other load affects both equally.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Target(BaseHTTPRequestHandler):
    """Accepts every delivery."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextmanager
def target() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class DatabaseProbe:
    """Reads the stack's database as superuser: polling the API would disturb the measurement."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def has_ended(self, task_id: str) -> bool:
        query = b"SELECT ended_at IS NOT NULL FROM task WHERE task_id = %s"
        row = self._connection.execute(query, [UUID(task_id.partition("_")[2])]).fetchone()
        return row is not None and bool(row[0])

    def is_idle(self) -> bool:
        """Whether no task runs and no delivery waits, so that phases do not overlap."""
        row = self._connection.execute(
            b"SELECT NOT EXISTS (SELECT FROM task WHERE ended_at IS NULL)"
            b" AND NOT EXISTS (SELECT FROM webhook_delivery WHERE status = 'PENDING')"
            b" AND NOT EXISTS (SELECT FROM outbox WHERE sent_at IS NULL AND destination LIKE 'webhook%')"
        ).fetchone()
        return row is not None and bool(row[0])

    def deliveries(self) -> dict[str, int]:
        rows = self._connection.execute(b"SELECT status, count(*) FROM webhook_delivery GROUP BY status").fetchall()
        return dict(rows)


async def until(condition: Any, fault: str) -> None:
    deadline = time.perf_counter() + LIMIT_SECONDS
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(fault)
        await asyncio.sleep(POLL_SECONDS)


async def register(person: Person, address: str, count: int) -> Counter[str]:
    """Try to register `count` webhooks and count the results by code."""
    outcomes: Counter[str] = Counter()
    numbers = iter(range(count))

    async def create() -> None:
        for number in numbers:
            try:
                await person.call("POST", "/webhooks", {"url": f"{address}/{number}"})
                outcomes["created"] += 1
            except Refused as error:
                outcomes[str(error.body["code"])] += 1

    await asyncio.gather(*(create() for _ in range(CLIENTS)))
    return outcomes


async def phase(busy: tuple[Person, str], quiet: tuple[Person, str], database: DatabaseProbe) -> list[float]:
    """Seconds of each task of the quiet tenant while the tasks of the busy tenant run."""

    async def flood() -> None:
        person, product = busy
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
    await until(database.is_idle, "tasks or deliveries did not end")
    return took


async def measure(facts: dict[str, Any], address: str, *, rounds: int) -> dict[str, Any]:
    database = DatabaseProbe(facts["databaseUrl"])
    async with Platform.at(facts, retry_for_s=30) as platform:
        administrator = await platform.administrator()
        people = {}
        for name in ("without", "with", "quiet"):
            person = await administrator.open_shop(name, points=1_000_000, **POLICY)
            people[name] = person, await person.upload(photos.shirt(photos.BLUE, side=64))
        outcomes = await register(people["with"][0], address, REGISTRATIONS)
        took: dict[str, list[float]] = {"without": [], "with": []}
        for number in range(-1, rounds):  # the first round warms the functions and does not count
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
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder, target() as address:
        Path(folder).chmod(0o755)
        services, parameters = [IdleWorkers(slots=SLOTS)], {"AllowedTargets": address.partition("://")[2]}
        with Stack(home=Path(folder) / "home", port=free_port(), parameters=parameters, services=services) as stack:
            results = asyncio.run(measure(stack.facts, address, rounds=1 if arguments.quick else ROUNDS))
    print(f"one node of a quiet tenant while another ends {TASKS} tasks, after {REGISTRATIONS} tries to register")
    for name, value in results.items():
        print(f"  {name:13} {value}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
