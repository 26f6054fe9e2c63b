"""The same DAG on Celery with empty tasks. The worker and the producer load this module."""

from __future__ import annotations

import json
import os
import sys
import time

from celery import Celery, chain, chord, group

URL = os.environ["BENCH_REDIS"]
app = Celery("dag", broker=URL, backend=URL)
app.conf.update(broker_connection_retry_on_startup=True, task_acks_late=True)


@app.task(name="dag.node")
def node(_before: object = None) -> int:
    return 1


def photo(count: int):
    """The DAG of `model_photo`: cutout, then model and compose for each picture, then one task that settles."""
    branches = group(chain(node.s(), node.s()) for _ in range(count))
    return chain(node.s(), chord(branches, node.s()))


def main(dags: int, at_once: int, pictures: int) -> None:
    photo(pictures).delay().get(timeout=60)
    times = []
    began = time.perf_counter()
    for _ in range(0, dags, at_once):
        started = time.perf_counter()
        for result in [photo(pictures).delay() for _ in range(at_once)]:
            result.get(timeout=120)
        times.append(time.perf_counter() - started)
    print(json.dumps({"seconds": times, "total": time.perf_counter() - began}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
