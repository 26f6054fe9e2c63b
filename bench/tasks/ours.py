"""`python -m bench.tasks.ours <home> [--quick]`: measure one tree's stack, with idle workers. Prints JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

from bench.tasks import counts, profile
from bench.tasks.idle_worker import IdleWorkers
from bench.tasks.plan import LIMIT_SECONDS, NODES, PICTURES, Plan
from local import photos
from local.servers import free_port
from local.shop import Person, Platform
from local.stack import Stack

POLICY = {"tier": "vip", "concurrency": 1_000, "queueDepth": 100_000, "ratePerSecond": 10_000, "burst": 20_000}
POLL_SECONDS = 0.005
SETTLING_SECONDS = 2  # a task has ended before its execution has
SLOTS = 3  # for each of the three node types that the DAG has; Celery and Prefect have eight threads
PACE = 20  # submissions a second


async def accept(person: Person, product: str, *, clients: int, seconds: float) -> dict[str, Any]:
    """Submit single-node tasks with this number of clients, as fast as they can."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def submit() -> None:
        while time.perf_counter() < end:
            took.append(await _submit(person, product))

    began = time.perf_counter()
    await asyncio.gather(*(submit() for _ in range(clients)))
    rate = len(took) / (time.perf_counter() - began)
    return {"clients": clients, "acceptedPerSecond": round(rate, 1), **_percentiles(took)}


async def accept_at_pace(person: Person, product: str, *, seconds: float) -> dict[str, Any]:
    """Submit at fixed times, whether or not the submission before was answered."""
    began = time.perf_counter()

    async def submit(number: int) -> float:
        await asyncio.sleep(began + number / PACE - time.perf_counter())
        return await _submit(person, product)

    took = await asyncio.gather(*(submit(number) for number in range(int(seconds * PACE))))
    return {"perSecond": PACE, **_percentiles(took)}


async def _submit(person: Person, product: str) -> float:
    began = time.perf_counter()
    await person.submit("crop", {"product": product})
    return (time.perf_counter() - began) * 1000


def _percentiles(took: list[float]) -> dict[str, float]:
    ordered = sorted(took)
    return {"p50Ms": round(ordered[len(ordered) // 2], 1), "p95Ms": round(ordered[len(ordered) * 95 // 100], 1)}


async def run_dags(person: Person, product: str, database: profile.DatabaseProbe, *, at_once: int) -> float:
    """Seconds from the first submission until all tasks have ended."""
    began = time.perf_counter()
    await asyncio.gather(*(person.submit("model_photo", {"product": product}, count=PICTURES) for _ in range(at_once)))
    await wait_until_idle(database)
    return time.perf_counter() - began


async def wait_until_idle(database: profile.DatabaseProbe) -> None:
    """Wait until every accepted task has ended."""
    deadline = time.perf_counter() + LIMIT_SECONDS
    while not database.is_idle():
        if time.perf_counter() > deadline:
            raise TimeoutError("tasks did not end")
        await asyncio.sleep(POLL_SECONDS)


async def measure(facts: dict[str, Any], postgres_log: Path, plan: Plan) -> dict[str, Any]:
    database = profile.DatabaseProbe(facts["databaseUrl"])
    async with Platform.at(facts, retry_for_s=30) as platform:
        administrator = await platform.administrator()
        person = await administrator.open_shop("bench", points=1_000_000, **POLICY)
        product = await person.upload(photos.shirt(photos.BLUE, side=64))
        database.postpone_checkpoints()
        for at_once in (2, *[plan.at_once] * 3):  # warm up: bench.coldstart measures cold starts
            await run_dags(person, product, database, at_once=at_once)
        since = database.now()
        alone = [await run_dags(person, product, database, at_once=1) for _ in range(plan.alone)]
        hops = {"alone": database.hops(since)}
        since, before = database.now(), profile.cpu_ms()
        together = [await run_dags(person, product, database, at_once=plan.at_once) for _ in range(plan.together)]
        nodes = plan.together * plan.at_once * NODES
        used = {name: value / nodes for name, value in (profile.cpu_ms() - before).items()}
        hops["atLoad"] = database.hops(since)
        with counts.counted(facts, postgres_log) as counted:
            await run_dags(person, product, database, at_once=plan.at_once)
            await asyncio.sleep(SETTLING_SECONDS)
        accepted = []
        for clients in (8, 1, 4, 8):  # the first clients warm the functions
            accepted.append(await accept(person, product, clients=clients, seconds=plan.seconds))
            await wait_until_idle(database)  # otherwise the next tasks would wait for these
        paced = await accept_at_pace(person, product, seconds=plan.seconds)
        return {
            "dags": plan.summary(alone, together),
            "accepted": accepted[1:],
            "paced": paced,
            "hops": hops,
            "cpuMsPerNode": used,
            "counts": counted.per(plan.at_once * NODES),
        }


def median_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The middle of several runs, number by number. Texts and lists are those of the first run."""
    return {name: _median([run[name] for run in runs]) for name in runs[0]}


def _median(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        names = list(dict.fromkeys(name for value in values for name in value))
        return {name: _median([value[name] for value in values if name in value]) for name in names}
    if isinstance(values[0], int | float):
        return round(statistics.median(values), 2)
    if isinstance(values[0], list) and all(len(value) == len(values[0]) for value in values):
        return [_median(list(rows)) for rows in zip(*values, strict=True)]
    return values[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    plan = Plan.of(is_quick=arguments.quick)
    with Stack(home=arguments.home, port=free_port(), services=[IdleWorkers(slots=SLOTS)]) as stack:
        results = asyncio.run(measure(stack.facts, stack.servers["postgres"].log, plan))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
