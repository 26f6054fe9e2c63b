"""Run as a process of its own by the cache tests: reads one key from many threads, or hangs while it loads."""

from __future__ import annotations

import sys
import threading
import time

from artiway.platform import redis as platform_redis
from artiway.platform.cache import Cache, Limits

KEY = "report:2026"


def read(url: str, threads: int, readers: int) -> None:
    """Load once all `readers` of all processes are under way, so that the slowest start meets a cold key too."""
    client = platform_redis.connect(url, timeout_s=20)
    cache = Cache(client, Limits(load_s=50, wait_s=50))

    def load() -> dict[str, str]:
        client.incr("test:loads")
        while int(client.get("test:arrived") or 0) < readers:
            time.sleep(0.005)
        return {"made": "once"}

    def one() -> None:
        client.incr("test:arrived")
        value = cache.get(KEY, load, ttl_s=60)
        client.rpush("test:answers", str(value))

    running = [threading.Thread(target=one) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def hang(url: str) -> None:
    """Become the loader, say so, and never come back."""
    client = platform_redis.connect(url, timeout_s=20)

    def load() -> None:
        client.rpush("test:loading", "yes")
        threading.Event().wait()

    Cache(client, Limits(load_s=0.3)).get(KEY, load, ttl_s=60)


if __name__ == "__main__":
    verb, url, *numbers = sys.argv[1:]
    {"read": read, "hang": hang}[verb](url, *map(int, numbers))
