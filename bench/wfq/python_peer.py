"""Celery or Dramatiq (`BENCH_PEER`) with tasks that do nothing: the worker loads this module, the producer runs it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import redis

URL = os.environ["BENCH_REDIS"]
WARM_UP_S, FINISH_S = 60, 120
_lock, _latencies = threading.Lock(), []


def work(due: float, total: int) -> None:
    with _lock:
        _latencies.append((time.time() - due) * 1000)
        if len(_latencies) == total:
            redis.Redis.from_url(URL).rpush("bench:done", json.dumps(_latencies))
            _latencies.clear()


if os.environ["BENCH_PEER"] == "celery":
    from celery import Celery

    app = Celery("bench", broker=URL)
    app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True)
    send = app.task(name="bench.work")(work).delay  # named: the producer has it in __main__
else:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    dramatiq.set_broker(RedisBroker(url=URL))
    send = dramatiq.actor(work).send


def main(count: int, per_s: float) -> None:
    client = redis.Redis.from_url(URL)
    send(time.time(), 1)
    client.blpop("bench:done", timeout=WARM_UP_S)
    started = time.time()
    for i in range(count):
        due = started + i / per_s if per_s else time.time()
        time.sleep(max(0.0, due - time.time()))
        send(due, count)
    latencies = json.loads(client.blpop("bench:done", timeout=FINISH_S)[1])
    print(json.dumps({"perSecond": count / (time.time() - started), "latencies": latencies}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
