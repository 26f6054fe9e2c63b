"""Dramatiq with no-op actors: the worker loads this module, and so does the producer."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

URL = os.environ["BENCH_REDIS"]
dramatiq.set_broker(RedisBroker(url=URL))
_lock, _latencies = threading.Lock(), []


@dramatiq.actor
def work(due: float, total: int) -> None:
    with _lock:
        _latencies.append((time.time() - due) * 1000)
        if len(_latencies) == total:
            redis.Redis.from_url(URL).rpush("bench:done", json.dumps(_latencies))
            _latencies.clear()


def main(count: int, per_s: float) -> None:
    client = redis.Redis.from_url(URL)
    work.send(time.time(), 1)
    client.blpop("bench:done", timeout=60)
    started = time.time()
    for i in range(count):
        due = started + i / per_s if per_s else time.time()
        time.sleep(max(0.0, due - time.time()))
        work.send(due, count)
    latencies = json.loads(client.blpop("bench:done", timeout=120)[1])
    print(json.dumps({"perSecond": count / (time.time() - started), "latencies": latencies}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
