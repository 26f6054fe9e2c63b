"""The same DAG on DBOS: one workflow for the DAG and a queued child workflow for each node, all empty."""

from __future__ import annotations

import os
import sys

from dbos import DBOS, DBOSConfig
from rounds import measure

POLL_SECONDS = 0.01  # for the queue and for results; with 5 ms it was no faster
THREADS = 40  # a DAG that waits for its nodes holds one
QUEUE = "nodes"

config: DBOSConfig = {
    "name": "dag",
    "system_database_url": os.environ["BENCH_POSTGRES"],
    "log_level": "ERROR",
    "sys_db_pool_size": THREADS,
}


@DBOS.workflow()
def node() -> int:
    return 1


@DBOS.workflow()
def photo(pictures: int) -> None:
    """The DAG of `model_photo`: cutout, then model and compose for each picture. The end of the workflow settles."""
    DBOS.enqueue_workflow(QUEUE, node).get_result(polling_interval_sec=POLL_SECONDS)
    models = [DBOS.enqueue_workflow(QUEUE, node) for _ in range(pictures)]
    composed = []
    for model in models:
        model.get_result(polling_interval_sec=POLL_SECONDS)
        composed.append(DBOS.enqueue_workflow(QUEUE, node))
    for picture in composed:
        picture.get_result(polling_interval_sec=POLL_SECONDS)


def main(alone: int, together: int, at_once: int, pictures: int) -> None:
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)

    def run(dags: int) -> None:
        for dag in [DBOS.start_workflow(photo, pictures) for _ in range(dags)]:
            dag.get_result(polling_interval_sec=POLL_SECONDS)

    measure(run, alone=alone, together=together, at_once=at_once)
    DBOS.destroy()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]))
