"""One loader per key among threads and processes, also when the loader is killed; and a model of the rest."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time as real_time

import pytest
from redis import Redis

from artiway.platform.cache import Cache, Limits
from tests.conftest import soaked
from tests.integration.common.cache_child import KEY
from tests.integration.common.conftest import Time, awaited

READERS = 100
SEEDS = soaked(300)


def child(verb: str, url: str, *numbers: int) -> subprocess.Popen[bytes]:
    arguments = [verb, url, *map(str, numbers)]
    return subprocess.Popen([sys.executable, "-m", "tests.integration.common.cache_child", *arguments])


def test_hundred_readers_in_four_processes_cause_one_load(valkey, valkey_url):
    children = [child("read", valkey_url, READERS // 4, READERS) for _ in range(4)]
    assert [process.wait(55) for process in children] == [0] * 4
    assert valkey.get("test:loads") == "1"
    assert valkey.lrange("test:answers", 0, -1) == ["{'made': 'once'}"] * READERS


def test_hundred_threads_of_one_process_cause_one_load(client):
    cache = Cache(client, Limits(load_s=50, wait_s=50))
    loads: list[int] = []
    answers: list[object] = []
    together = threading.Barrier(READERS)

    def load() -> str:
        loads.append(1)
        real_time.sleep(0.05)  # long enough that a second loader would get in
        return "once"

    def read() -> None:
        together.wait()
        answers.append(cache.get("k", load, ttl_s=60))

    in_threads(read, READERS)
    assert (len(loads), answers) == (1, ["once"] * READERS)


def test_another_reader_loads_after_a_killed_loader(client, valkey, valkey_url):
    victim = child("hang", valkey_url)
    awaited(valkey, "test:loading")
    loads: list[int] = []
    answers: list[object] = []

    def load() -> str:
        loads.append(1)
        return "survived"

    def read() -> None:
        # A cache each: readers of different processes.
        answers.append(Cache(client, Limits(load_s=30, wait_s=50)).get(KEY, load, ttl_s=60))

    victim.kill()
    victim.wait()
    in_threads(read, 20)
    assert (len(loads), answers) == (1, ["survived"] * 20)


def test_threads_that_wait_for_failing_loader_try_themselves(client):
    cache = Cache(client, Limits(load_s=50, wait_s=50))
    outcomes: list[str] = []
    first = threading.Event()

    def load() -> str:
        if not first.is_set():
            first.set()
            real_time.sleep(0.02)
            raise RuntimeError("once")
        return "second try"

    def read() -> None:
        try:
            outcomes.append(str(cache.get("k", load, ttl_s=60)))
        except RuntimeError as error:
            outcomes.append(str(error))

    in_threads(read, 10)
    assert sorted(outcomes) == ["once"] + ["second try"] * 9


def test_reader_after_invalidation_starts_its_own_load(client):
    cache = Cache(client, Limits(load_s=50, wait_s=50))
    is_loading, may_end = threading.Event(), threading.Event()

    def load_old() -> str:
        is_loading.set()
        may_end.wait()
        return "old"

    answers: list[object] = []
    early = threading.Thread(target=lambda: answers.append(cache.get("k", load_old, ttl_s=60)))
    early.start()
    is_loading.wait()
    cache.invalidate("k")
    assert cache.get("k", lambda: "new", ttl_s=60) == "new"
    may_end.set()
    early.join()
    assert answers == ["old"]
    assert cache.get("k", lambda: "newer", ttl_s=60) == "new"


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(3))
def test_no_reader_sees_values_invalidated_before_sync_interval(client, batch):
    """Random reads, changes, flushes and pauses of three processes; also changes in the middle of a load."""
    for seed in range(batch * SEEDS // 3, (batch + 1) * SEEDS // 3):
        client.flushall()
        play(client, random.Random(seed))


def play(client: Redis, dice: random.Random) -> None:
    time = Time()
    limits = Limits(entries=3, first_level_s=20, sync_s=2, load_s=50, wait_s=50)
    caches = [Cache(client, limits, now=time, sleep=time.advance) for _ in range(3)]
    keys = ["a:1", "a:2", "b:1", "b:2"]
    truth = dict.fromkeys(keys, 0)
    # For each value of each key, when it ceased to be true.
    ended: dict[tuple[str, int], float] = {}

    def change(key: str) -> None:
        ended[key, truth[key]] = time()
        truth[key] += 1
        if dice.random() < 0.3:
            dice.choice(caches).invalidate_prefix(key[:2])
        else:
            dice.choice(caches).invalidate(key)

    def load(key: str) -> int:
        value = truth[key]
        if dice.random() < 0.2:
            time.advance(dice.random())
            change(dice.choice(keys))
        return value

    for _ in range(40):
        key = dice.choice(keys)
        event = dice.random()
        if event < 0.6:
            asked_at = time()
            value = dice.choice(caches).get(key, lambda key=key: load(key), ttl_s=1_000)
            assert isinstance(value, int)
            assert ended.get((key, value), asked_at) >= asked_at - limits.sync_s
        elif event < 0.8:
            change(key)
        elif event < 0.95:
            time.advance(dice.choice([0.1, 1.0, 2.1, 25]))
        else:
            client.flushall()


def in_threads(target: object, count: int) -> None:
    threads = [threading.Thread(target=target) for _ in range(count)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
