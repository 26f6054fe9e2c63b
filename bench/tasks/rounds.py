"""The rounds that every peer runs: warm up, one DAG by itself, many at the same time. Prints seconds as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable


def measure(run: Callable[[int], object], *, alone: int, together: int, at_once: int) -> None:
    for dags in (1, at_once):
        run(dags)
    found = {
        "alone": [_seconds(run, 1) for _ in range(alone)],
        "together": [_seconds(run, at_once) for _ in range(together)],
    }
    print(json.dumps(found))


def _seconds(run: Callable[[int], object], dags: int) -> float:
    began = time.perf_counter()
    run(dags)
    return time.perf_counter() - began
