"""`python -m bench.tasks [--quick] [--no-peers]`: what the platform itself costs, with workers that make nothing."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform as machine
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.tasks.idle_worker import IdleWorkers
from local import photos
from local.servers import free_port, running, start_valkey
from local.shop import ENDED, Person, Platform
from local.stack import Stack

RESULTS = Path(__file__).parent.parent / "results"
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PEER = ["celery==5.6.0", "redis==6.4.0", "packaging"]
PICTURES = 3
NODES = 1 + 2 * PICTURES
DEPTH = 3
POLICY = {"tier": "vip", "concurrency": 1_000, "queueDepth": 100_000, "ratePerSecond": 10_000, "burst": 20_000}
LOOK_SECONDS = 0.02
LIMIT_SECONDS = 300


async def accept(person: Person, product: str, *, clients: int, seconds: float) -> dict[str, Any]:
    """Single-node tasks as fast as so many clients can ask for them."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def ask() -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            await person.submit("crop", {"product": product})
            took.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(clients)))
    rate = len(took) / (time.perf_counter() - began)
    ordered = sorted(took)
    return {
        "clients": clients,
        "acceptedPerSecond": round(rate, 1),
        "p50Ms": round(ordered[len(ordered) // 2], 1),
        "p95Ms": round(ordered[len(ordered) * 95 // 100], 1),
    }


async def run_dags(person: Person, product: str, *, at_once: int) -> float:
    """Seconds from the first submission until all are over."""
    began = time.perf_counter()
    tasks = await asyncio.gather(
        *(person.submit("model_photo", {"product": product}, count=PICTURES) for _ in range(at_once))
    )
    for task in tasks:
        while (await person.task(task["taskId"]))["status"] not in ENDED:
            if time.perf_counter() - began > LIMIT_SECONDS:
                raise TimeoutError(task["taskId"])
            await asyncio.sleep(LOOK_SECONDS)
    return time.perf_counter() - began


async def ours(facts: dict[str, Any], *, is_quick: bool) -> dict[str, Any]:
    async with Platform.at(facts, patience_s=30) as platform:
        administrator = await platform.administrator()
        person = await administrator.open_shop("bench", points=1_000_000, **POLICY)
        product = await person.upload(photos.shirt(photos.BLUE, side=64))
        await run_dags(person, product, at_once=2)  # cold starts are measured elsewhere
        alone = [await run_dags(person, product, at_once=1) for _ in range(3 if is_quick else 10)]
        crowd = 5 if is_quick else 20
        together = await run_dags(person, product, at_once=crowd)
        seconds = 3 if is_quick else 10
        accepted = [await accept(person, product, clients=clients, seconds=seconds) for clients in (1, 4, 8)]
        return {"dags": figures(alone, crowd, together), "accepted": accepted}


def figures(alone: list[float], crowd: int, together: float) -> dict[str, Any]:
    median_ms = statistics.median(alone) * 1000
    return {
        "oneDagMs": round(median_ms, 1),
        "perLevelMs": round(median_ms / DEPTH, 1),
        "atOnce": crowd,
        "nodesPerSecond": round(crowd * NODES / together, 1),
        "perNodeMs": round(together * 1000 / (crowd * NODES), 2),
    }


def celery(*, is_quick: bool) -> dict[str, Any]:
    python = _installed()
    with (
        tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder,
        running(start_valkey(Path(folder), free_port())) as server,
    ):
        environment = {**os.environ, "BENCH_REDIS": server.url, "PYTHONPATH": str(HERE)}
        worker = [python, "-m", "celery", "-A", "celery_peer", "worker", "--pool=threads", "-c", "8", "-l", "ERROR"]
        process = subprocess.Popen(
            worker, env=environment, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            alone = _produce(python, environment, 3 if is_quick else 10, 1)["seconds"]
            crowd = 5 if is_quick else 20
            together = _produce(python, environment, crowd, crowd)["total"]
        finally:
            process.terminate()
            process.wait()
    return figures(alone, crowd, together)


def _installed() -> str:
    """A throw-away environment, never a dependency of ours."""
    home = ROOT / ".tools" / "bench" / "tasks"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        uv = str(ROOT / ".tools" / "uv" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(home)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *PEER], check=True)
        (home / ".ready").touch()
    return str(python)


def _produce(python: str, environment: dict[str, str], dags: int, at_once: int) -> dict[str, Any]:
    command = [python, str(HERE / "celery_peer.py"), str(dags), str(at_once), str(PICTURES)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        Path(folder).chmod(0o755)
        home = Path(folder) / "home"
        with Stack(home=home, port=free_port(), services=[IdleWorkers(slots=2)]) as stack:
            results = asyncio.run(ours(stack.facts, is_quick=arguments.quick))
    print(f"model_photo with {PICTURES} pictures: {NODES} nodes, {DEPTH} deep; nothing but the platform's own time")
    show("Artiway", results["dags"])
    if not arguments.no_peers:
        results["celery"] = celery(is_quick=arguments.quick)
        show("Celery", results["celery"])
        names = ("oneDagMs", "perNodeMs")
        results["ratioToCelery"] = {name: round(results["dags"][name] / results["celery"][name], 1) for name in names}
        print(f"  ratio     {results['ratioToCelery']}  (Celery: no accounts, no fairness, state in Redis alone)")
    print("accepted tasks (POST /tasks: gate, idempotency, price, hold, DAG, outbox in one transaction)")
    for row in results["accepted"]:
        print("  " + "  ".join(f"{name} {value}" for name, value in row.items()))
    results["machine"] = {"cores": os.cpu_count(), "python": machine.python_version(), "load": os.getloadavg()[0]}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tasks.json").write_text(json.dumps(results, indent=2) + "\n")


def show(name: str, row: dict[str, Any]) -> None:
    print(f"  {name:9} " + "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
