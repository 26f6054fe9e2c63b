"""The same DAG on Prefect with empty tasks and a separate server."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from prefect import flow, task
from prefect.task_runners import ThreadPoolTaskRunner


@task
def node() -> int:
    return 1


@flow(task_runner=ThreadPoolTaskRunner(max_workers=8))
def photo(pictures: int) -> None:
    """The DAG of `model_photo`: cutout, then model and compose for each picture. The end of the flow settles."""
    cutout = node.submit()
    models = [node.submit(wait_for=[cutout]) for _ in range(pictures)]
    for composed in [node.submit(wait_for=[model]) for model in models]:
        composed.result()


def main(dags: int, at_once: int, pictures: int) -> None:
    photo(pictures)
    times = []
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        for _ in range(0, dags, at_once):
            started = time.perf_counter()
            for running in [pool.submit(photo, pictures) for _ in range(at_once)]:
                running.result()
            times.append(time.perf_counter() - started)
    print(json.dumps({"seconds": times, "total": time.perf_counter() - began}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
