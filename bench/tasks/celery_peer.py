"""The same DAG on Celery with empty tasks. The worker and the producer load this module."""

from __future__ import annotations

import os
import sys

from celery import Celery, chain, chord, group
from rounds import measure

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


def main(alone: int, together: int, at_once: int, pictures: int) -> None:
    def run(dags: int) -> None:
        for result in [photo(pictures).delay() for _ in range(dags)]:
            result.get(timeout=120)

    measure(run, alone=alone, together=together, at_once=at_once)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
