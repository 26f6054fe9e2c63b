"""Published queues on the same Redis, with tasks that do nothing. Installed on demand, never a dependency of ours."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.wfq.ours import cpu_us

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
HOME = ROOT / ".tools" / "bench"
PYTHON_PEERS = ["celery==5.6.0", "dramatiq==2.0.0", "packaging", "redis==6.4.0"]
NODE_PEERS = ["bullmq@5.66.0"]
WAIT_S = 300


@dataclass(frozen=True)
class Peer:
    name: str
    nodes_per_s: float
    redis_us_per_node: float
    latencies_ms: list[float]


def install() -> None:
    """A throw-away environment beside the other tools."""
    HOME.mkdir(parents=True, exist_ok=True)
    ready = HOME / "venv" / f".ready-{zlib.crc32(repr(PYTHON_PEERS).encode()):08x}"
    if not ready.exists():
        uv = str(ROOT / ".tools" / "uv" / "bin" / "uv")
        subprocess.run(
            [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(HOME / "venv")], check=True
        )
        python = str(HOME / "venv" / "bin" / "python")
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *PYTHON_PEERS], check=True)
        ready.touch()
    if not (HOME / "node" / "node_modules" / "bullmq").exists():
        (HOME / "node").mkdir(exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(HOME / "node"), *NODE_PEERS], check=True)


def bullmq(url: str, port: int, *, count: int, latencies_ms: list[float]) -> list[Peer]:
    """Three ways to drive it; the reader may take the best."""
    client = redis.Redis.from_url(url)
    peers = []
    for chunk, concurrency in ((1, 50), (100, 50), (100, 200)):
        before = cpu_us(client)
        rate = _bullmq(client, port, "live", count, chunk, concurrency)["perSecond"]
        used = cpu_us(client) - before
        peers.append(Peer(f"BullMQ (addBulk {chunk}, concurrency {concurrency})", rate, used / count, latencies_ms))
    return peers


def bullmq_latency_ms(url: str, port: int, *, per_s: int, seconds: float) -> list[float]:
    return _bullmq(redis.Redis.from_url(url), port, "latency", per_s, seconds)["latencies"]


def _bullmq(client: redis.Redis, port: int, *arguments: float | str) -> dict:
    script = HOME / "node" / "bullmq.mjs"
    script.write_text((HERE / "bullmq.mjs").read_text())
    client.flushall()
    command = ["node", str(script), str(port), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=WAIT_S)
    return json.loads(done.stdout.strip().splitlines()[-1])


def celery(url: str, *, count: int, per_s: int, seconds: int) -> list[Peer]:
    worker = ["celery", "-A", "python_peer", "worker", "--pool=threads", "-c", "8", "-l", "ERROR"]
    return [_python_peer("Celery", url, worker, count, per_s, seconds)]


def dramatiq(url: str, *, count: int, per_s: int, seconds: int) -> list[Peer]:
    worker = ["dramatiq", "--processes", "1", "--threads", "8", "--skip-logging", "python_peer"]
    return [_python_peer("Dramatiq", url, worker, count, per_s, seconds)]


def _python_peer(name: str, url: str, worker: list[str], count: int, per_s: int, seconds: int) -> Peer:
    client = redis.Redis.from_url(url)
    client.flushall()
    python = str(HOME / "venv" / "bin" / "python")
    environment = {**os.environ, "BENCH_REDIS": url, "BENCH_PEER": name.lower(), "PYTHONPATH": str(HERE)}

    def produce(amount: int, rate: float) -> dict:
        command = [python, str(HERE / "python_peer.py"), str(amount), str(rate)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=WAIT_S)
        return json.loads(done.stdout.strip().splitlines()[-1])

    with _running([python, "-m", *worker], environment):
        latencies = produce(per_s * seconds, per_s)["latencies"]
        before = cpu_us(client)
        rate = produce(count, 0)["perSecond"]
        used = cpu_us(client) - before
    return Peer(name, rate, used / count, latencies)


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, env=environment, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
