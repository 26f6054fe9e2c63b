"""`python -m bench.tasks [--quick] [--no-peers] [--profile]`: the platform's own time per task, with idle workers."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform as machine
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.tasks import counts, profile
from bench.tasks.idle_worker import IdleWorkers
from local import photos
from local.servers import free_port, port_is_open, running, start_valkey
from local.shop import Person, Platform
from local.stack import Stack

RESULTS = Path(__file__).parent.parent / "results"
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CELERY = ["celery==5.6.0", "redis==6.4.0", "packaging"]
# Newer versions of FastAPI lack a function that this Prefect server calls.
PREFECT = ["prefect==3.8.8", "fastapi==0.139.0"]
PICTURES = 3
NODES = 1 + 2 * PICTURES
DEPTH = 3
POLICY = {"tier": "vip", "concurrency": 1_000, "queueDepth": 100_000, "ratePerSecond": 10_000, "burst": 20_000}
POLL_SECONDS = 0.005
SETTLING_SECONDS = 2  # a task has ended before its execution has
START_SECONDS = 120
SLOTS = 3  # for each of the three node types that the DAG has; Celery and Prefect have eight threads
LIMIT_SECONDS = 300


async def accept(person: Person, product: str, *, clients: int, seconds: float) -> dict[str, Any]:
    """Submit single-node tasks with this number of clients, as fast as they can."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def submit() -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            await person.submit("crop", {"product": product})
            took.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(submit() for _ in range(clients)))
    rate = len(took) / (time.perf_counter() - began)
    ordered = sorted(took)
    return {
        "clients": clients,
        "acceptedPerSecond": round(rate, 1),
        "p50Ms": round(ordered[len(ordered) // 2], 1),
        "p95Ms": round(ordered[len(ordered) * 95 // 100], 1),
    }


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


async def artiway(facts: dict[str, Any], postgres_log: Path, *, is_quick: bool) -> dict[str, Any]:
    database = profile.DatabaseProbe(facts["databaseUrl"])
    async with Platform.at(facts, retry_for_s=30) as platform:
        administrator = await platform.administrator()
        person = await administrator.open_shop("bench", points=1_000_000, **POLICY)
        product = await person.upload(photos.shirt(photos.BLUE, side=64))
        many = 5 if is_quick else 20
        for at_once in (2, many, many):  # warm up: bench.coldstart measures cold starts
            await run_dags(person, product, database, at_once=at_once)
        since = database.now()
        alone = [await run_dags(person, product, database, at_once=1) for _ in range(3 if is_quick else 10)]
        hops = {"alone": database.hops(since)}
        since, before = database.now(), profile.cpu_ms()
        together = await run_dags(person, product, database, at_once=many)
        used = {name: value / (many * NODES) for name, value in (profile.cpu_ms() - before).items()}
        hops["atLoad"] = database.hops(since)
        with counts.counted(facts, postgres_log) as counted:
            await run_dags(person, product, database, at_once=many)
            await asyncio.sleep(SETTLING_SECONDS)
        seconds = 3 if is_quick else 10
        accepted = []
        for clients in (8, 1, 4, 8):  # the first clients warm the functions
            accepted.append(await accept(person, product, clients=clients, seconds=seconds))
            await wait_until_idle(database)  # otherwise the next tasks would wait for these
        return {
            "dags": summary(alone, many, together),
            "accepted": accepted[1:],
            "hops": hops,
            "cpuMsPerNode": used,
            "counts": counted.per(many * NODES),
        }


def summary(alone: list[float], many: int, together: float) -> dict[str, Any]:
    median_ms = statistics.median(alone) * 1000
    return {
        "oneDagMs": round(median_ms, 1),
        "perLevelMs": round(median_ms / DEPTH, 1),
        "atOnce": many,
        "nodesPerSecond": round(many * NODES / together, 1),
        "perNodeMs": round(together * 1000 / (many * NODES), 2),
    }


def celery(*, is_quick: bool) -> dict[str, Any]:
    python = _installed("tasks", CELERY)
    with (
        tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder,
        running(start_valkey(Path(folder), free_port())) as server,
    ):
        environment = {**os.environ, "BENCH_REDIS": server.url, "PYTHONPATH": str(HERE)}
        worker = [python, "-m", "celery", "-A", "celery_peer", "worker", "--pool=threads", "-c", "8", "-l", "ERROR"]
        with _background_process(worker, environment):
            return _peer(python, "celery_peer.py", environment, is_quick=is_quick)


def prefect(*, is_quick: bool) -> dict[str, Any]:
    python = _installed("prefect", PREFECT)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        environment = {
            **os.environ,
            "PREFECT_HOME": folder,
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        }
        server = [python, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), "--no-ui"]
        with _background_process(server, environment) as process:
            deadline = time.monotonic() + START_SECONDS
            while not port_is_open(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("Prefect's server did not start")
                time.sleep(0.2)
            return _peer(python, "prefect_peer.py", environment, is_quick=is_quick)


@contextlib.contextmanager
def _background_process(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=environment, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _peer(python: str, script: str, environment: dict[str, str], *, is_quick: bool) -> dict[str, Any]:
    alone = _produce(python, script, environment, 3 if is_quick else 10, 1)["seconds"]
    many = 5 if is_quick else 20
    return summary(alone, many, _produce(python, script, environment, many, many)["total"])


def _installed(name: str, packages: list[str]) -> str:
    """A separate environment: the peers are no dependency of the project."""
    home = ROOT / ".tools" / "bench" / name
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        uv = str(ROOT / ".tools" / "uv" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(home)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], check=True)
        (home / ".ready").touch()
    return str(python)


def _produce(python: str, script: str, environment: dict[str, str], dags: int, at_once: int) -> dict[str, Any]:
    command = [python, str(HERE / script), str(dags), str(at_once), str(PICTURES)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        with Stack(home=home, port=free_port(), services=[IdleWorkers(slots=SLOTS)]) as stack:
            results = asyncio.run(artiway(stack.facts, stack.servers["postgres"].log, is_quick=arguments.quick))
    print(f"model_photo with {PICTURES} pictures: {NODES} nodes, {DEPTH} deep; the platform's own time")
    show("Artiway", results["dags"])
    counts.show(results["counts"])
    if arguments.profile:
        for when, hops in results["hops"].items():
            print(when)
            profile.show(hops, results["cpuMsPerNode"] if when == "atLoad" else {})
    for name, peer in {} if arguments.no_peers else {"Celery": celery, "Prefect": prefect}.items():
        try:
            row = peer(is_quick=arguments.quick)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"  {name} was not measured: {error}")
            continue
        show(name, row)
        ratios = {key: round(results["dags"][key] / row[key], 2) for key in ("oneDagMs", "perNodeMs")}
        results[name.lower()] = {**row, "ratio": ratios}
        print(f"  Artiway / {name}: {ratios}")
    print("accepted tasks (POST /tasks: access check, idempotency, price, hold, DAG, outbox in one transaction)")
    for row in results["accepted"]:
        print("  " + "  ".join(f"{name} {value}" for name, value in row.items()))
    results["machine"] = {"cores": os.cpu_count(), "python": machine.python_version(), "load": os.getloadavg()[0]}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tasks.json").write_text(json.dumps(results, indent=2) + "\n")


def show(name: str, row: dict[str, Any]) -> None:
    print(f"  {name:9} " + "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
