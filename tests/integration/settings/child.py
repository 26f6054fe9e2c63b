"""Run as a process of its own by the settings tests: reads a setting, or a dictionary, when it is asked to."""

from __future__ import annotations

import sys
import threading
import time

from artiway.dictionaries import service as dictionaries
from artiway.platform import redis as platform_redis
from artiway.platform.cache import Cache, Limits
from artiway.platform.database import Database
from artiway.settings import registry
from artiway.settings.repository import PostgresSettingReader
from artiway.settings.service import LiveValues


def follow(redis_url: str, database_url: str) -> None:
    """Answer each `time key` of a list with the value of the key at that time, until an empty request."""
    client = platform_redis.connect(redis_url, timeout_s=20)
    seconds = [0.0]
    values = LiveValues(
        PostgresSettingReader(Database(database_url)), Cache(client, now=lambda: seconds[0]), now=lambda: seconds[0]
    )
    while True:
        asked = client.blpop(["test:ask"], timeout=10)
        if asked is None or not asked[1]:
            return
        at, key = asked[1].split()
        seconds[0] = float(at)
        client.rpush("test:answer", str(values.get(registry.settings()[key])))


def read(redis_url: str, threads: int, readers: int) -> None:
    """Read one cold dictionary in many threads. The load ends once all readers of all processes are under way."""
    client = platform_redis.connect(redis_url, timeout_s=20)

    def load(type_: str) -> list[dict[str, object]]:
        client.incr("test:loads")
        while int(client.get("test:arrived") or 0) < readers:
            time.sleep(0.005)
        return dictionaries.load(type_)

    service = dictionaries.DictionaryService(Cache(client, Limits(load_s=50, wait_s=50)), load=load)

    def one() -> None:
        client.incr("test:arrived")
        client.rpush("test:answers", service.labels("tools")[0].zh)

    running = [threading.Thread(target=one) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    if verb == "follow":
        follow(*arguments)
    else:
        read(arguments[0], int(arguments[1]), int(arguments[2]))
