"""The same DAG on Celery, DBOS and Prefect. Each has an environment of its own: no peer is a dependency."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from bench.tasks.plan import LIMIT_SECONDS, PICTURES, Plan
from local.servers import free_port, port_is_open, running, start_postgres, start_valkey

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CELERY = ["celery==5.6.0", "redis==6.4.0", "packaging"]
DBOS = ["dbos==3.3.0"]
# Newer versions of FastAPI lack a function that this Prefect server calls.
PREFECT = ["prefect==3.8.8", "fastapi==0.139.0"]
START_SECONDS = 120


def celery(_home: Path, plan: Plan) -> dict[str, Any]:
    python = _installed("tasks", CELERY)
    with (
        tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder,
        running(start_valkey(Path(folder), free_port())) as server,
    ):
        environment = {**os.environ, "BENCH_REDIS": server.url, "PYTHONPATH": str(HERE)}
        worker = [python, "-m", "celery", "-A", "celery_peer", "worker", "--pool=threads", "-c", "8", "-l", "ERROR"]
        with _background_process(worker, environment):
            return _peer(python, "celery_peer.py", environment, plan)


def dbos(home: Path, plan: Plan) -> dict[str, Any]:
    """On the stack's own PostgreSQL, in a database of its own, after the stack was stopped."""
    python = _installed("dbos", DBOS)
    with running(start_postgres(home, free_port())) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS dbos_peer")
            connection.execute("CREATE DATABASE dbos_peer")
        url = server.url.rpartition("/")[0] + "/dbos_peer"
        return _peer(python, "dbos_peer.py", {**os.environ, "BENCH_POSTGRES": url}, plan)


def prefect(_home: Path, plan: Plan) -> dict[str, Any]:
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
            return _peer(python, "prefect_peer.py", environment, plan)


PEERS = {"DBOS": dbos, "Celery": celery, "Prefect": prefect}


@contextlib.contextmanager
def _background_process(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=environment, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _installed(name: str, packages: list[str]) -> str:
    home = ROOT / ".tools" / "bench" / name
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        uv = str(ROOT / ".tools" / "uv" / "bin" / "uv")
        subprocess.run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(home)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], check=True)
        (home / ".ready").touch()
    return str(python)


def _peer(python: str, script: str, environment: dict[str, str], plan: Plan) -> dict[str, Any]:
    numbers = (plan.alone, plan.together, plan.at_once, PICTURES)
    done = subprocess.run(
        [python, str(HERE / script), *map(str, numbers)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_SECONDS,
    )
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return plan.summary(found["alone"], found["together"])
