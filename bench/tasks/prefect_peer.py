"""The same DAG on Prefect with empty tasks and a separate server."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from prefect import flow, task
from prefect.task_runners import ThreadPoolTaskRunner
from rounds import measure


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


def main(alone: int, together: int, at_once: int, pictures: int) -> None:
    with ThreadPoolExecutor(at_once) as pool:

        def run(dags: int) -> None:
            for running in [pool.submit(photo, pictures) for _ in range(dags)]:
                running.result()

        measure(run, alone=alone, together=together, at_once=at_once)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
