"""Celery with no-op tasks: the worker loads this module, and so does the producer (`python celery_peer.py ...`)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import redis
from celery import Celery

URL = os.environ["BENCH_REDIS"]
app = Celery("bench", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True)
_lock, _latencies = threading.Lock(), []


@app.task(name="bench.work")  # the producer runs this file as __main__, the worker imports it
def work(due: float, total: int) -> None:
    with _lock:
        _latencies.append((time.time() - due) * 1000)
        if len(_latencies) == total:
            redis.Redis.from_url(URL).rpush("bench:done", json.dumps(_latencies))
            _latencies.clear()


def main(count: int, per_s: float) -> None:
    client = redis.Redis.from_url(URL)
    work.delay(time.time(), 1)
    client.blpop("bench:done", timeout=60)
    started = time.time()
    for i in range(count):
        due = started + i / per_s if per_s else time.time()
        time.sleep(max(0.0, due - time.time()))
        work.delay(due, count)
    latencies = json.loads(client.blpop("bench:done", timeout=120)[1])
    print(json.dumps({"perSecond": count / (time.time() - started), "latencies": latencies}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
