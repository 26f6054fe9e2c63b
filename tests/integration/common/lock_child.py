"""Run as a process of its own by the lock tests: holds a lock, and says what it thinks of it when asked."""

from __future__ import annotations

import sys

from artiway.platform import redis as platform_redis
from artiway.platform.lock import LockLost, Locks


def main(url: str, name: str, ttl_s: float) -> None:
    client = platform_redis.connect(url, timeout_s=5)
    with Locks(client).hold(name, ttl_s=ttl_s) as lock:
        client.rpush("test:said", f"held {lock.fence}")
        while client.blpop(["test:asked"], timeout=1) is None:
            pass
        try:
            lock.check()
            client.rpush("test:said", "mine")
        except LockLost:
            client.rpush("test:said", "lost")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
