"""How late a text arrives at its reader: `python -m bench.generations [--quick]`.

The whole platform on one machine: a provider writes 20 tokens a second, a function reads it and writes events to
Redis, another streams them through the edge to a client. A token is the time at which the provider sent it. The same
provider is read directly in the same run. Functions are warm: each number of streams runs twice before it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.generations import client
from bench.generations.client import MODEL, SERVICE
from bench.generations.provider import TOKENS_PER_SECOND
from local.servers import free_port, port_is_open
from local.stack import Stack

RESULTS = Path(__file__).parent.parent / "results" / "generations.json"
STREAMS = (1, 10, 50)
SANDBOXES = 72  # three quarters of them may stream
GOAL_FIRST_MS, GOAL_GAP_MS = 150, 100
PROVIDER = "bench"


@contextmanager
def provider() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.generations.provider", str(port)])
    try:
        while not port_is_open(port):
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def in_own_process(facts: dict[str, Any], url: str, streams: tuple[int, ...]) -> dict[str, Any]:
    """The client does not share the interpreter of the edge, which would slow both."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(client.run, facts, url, os.getpid(), streams).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one and five streams only")
    parser.add_argument("--streams", type=int, nargs="+", help="other numbers of streams; no result is written")
    asked = parser.parse_args()
    streams = tuple(asked.streams or ((1, 5) if asked.quick else STREAMS))
    with provider() as url, tempfile.TemporaryDirectory() as home:
        model = {"id": MODEL, "inputPoints": 1, "outputPoints": 1}
        providers = {
            "providers": [{"name": PROVIDER, "baseUrl": url, "models": [model]}],
            "routes": {SERVICE: {"paid": [f"{PROVIDER}/{MODEL}"], "free": [f"{PROVIDER}/{MODEL}"]}},
        }
        parameters = {"TextProvidersText": json.dumps(providers)}
        with Stack(home=Path(home), port=free_port(), parameters=parameters, sandboxes=SANDBOXES) as stack:
            found = in_own_process(stack.facts, url, streams)
    most = found[str(max(streams))]["ours"]
    goals = {
        f"first byte p95 < {GOAL_FIRST_MS} ms": most["firstMs"]["p95"] < GOAL_FIRST_MS,
        f"gap p95 < {GOAL_GAP_MS} ms": most["gapMs"]["p95"] < GOAL_GAP_MS,
    }
    for goal, is_met in goals.items():
        print(f"{max(streams)} streams of {TOKENS_PER_SECOND} tokens/s: {goal}: {'met' if is_met else 'MISSED'}")
    if asked.streams:
        return
    RESULTS.parent.mkdir(exist_ok=True)
    facts = {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps({"facts": facts, "streams": found, "goals": goals}, indent=1) + "\n")


if __name__ == "__main__":
    main()
