"""Reads through the cache beside a bare redis-py GET in the same run, and a warm-up: `python -m bench.cache`.

Every round measures each way once, in random order, so that other load affects all equally.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import platform
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from artiway.platform import redis as platform_redis
from artiway.platform.cache import Cache
from local.servers import free_port, running, start_valkey

RESULTS = Path(__file__).parents[1] / "results" / "cache.json"
ROUNDS = 20_000
KEYS = 3_000
LIFE_S = 86_400
WARM_ITEMS = 1_000
GOAL_P95_MS = 10
GOAL_RATIO = 1.3
GOAL_WARM_S = 5
VALUE = {
    "tenantId": "tnt_0190a00000007000800000000000000a",
    "tier": "vip",
    "weight": 5,
    "roles": ["owner", "admin"] * 4,
}


def never() -> None:
    raise AssertionError("the value is cached: no load is expected")


def percentiles(samples_s: list[float]) -> dict[str, float]:
    ranked = sorted(samples_s)
    return {
        f"p{share}_us": round(ranked[min(len(ranked) - 1, int(len(ranked) * share / 100))] * 1e6, 1)
        for share in (50, 95, 99)
    }


def measure(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    samples: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways.items())
    for number in range(rounds + 500):
        random.shuffle(order)
        for name, way in order:
            began = time.perf_counter()
            way()
            took = time.perf_counter() - began
            if number >= 500:  # the first rounds warm up sockets and caches
                samples[name].append(took)
    return {name: percentiles(values) for name, values in samples.items()}


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        running(start_valkey(Path(home), free_port(), is_durable=False)) as server,
    ):
        client = platform_redis.connect(server.url, timeout_s=5)
        first = Cache(client)
        second = Cache(client)
        for number in range(KEYS):
            second.get(f"k{number}", lambda: VALUE, ttl_s=LIFE_S)
            client.set(f"bare:{number}", json.dumps(VALUE))
        # In turn, and more keys than the first level holds, so that it has evicted a key before its next read.
        turns = [itertools.cycle(range(KEYS)) for _ in range(3)]
        ways: dict[str, Callable[[], object]] = {
            "first level": lambda: first.get("k0", never, ttl_s=LIFE_S),
            "redis": lambda: second.get(f"k{next(turns[0])}", never, ttl_s=LIFE_S),
            "bare GET": lambda: client.get(f"bare:{next(turns[1])}"),
            "bare GET + JSON": lambda: json.loads(str(client.get(f"bare:{next(turns[2])}"))),
        }
        with contextlib.redirect_stdout(io.StringIO()):  # the cache's own metrics
            figures = measure(ways, ROUNDS)
            client.flushall()
            began = time.perf_counter()
            warmed = first.warm([(f"warm:{number}", lambda: VALUE, LIFE_S) for number in range(WARM_ITEMS)])
            warm_s = time.perf_counter() - began
        assert warmed == WARM_ITEMS

    ratios = {key: round(figures["redis"][key] / figures["bare GET"][key], 2) for key in figures["redis"]}
    goals = {
        f"redis p95 < {GOAL_P95_MS} ms": figures["redis"]["p95_us"] < GOAL_P95_MS * 1000,
        f"redis p50 and p95 within {GOAL_RATIO} x bare GET": max(ratios["p50_us"], ratios["p95_us"]) <= GOAL_RATIO,
        f"warm-up of {WARM_ITEMS} values < {GOAL_WARM_S} s": warm_s < GOAL_WARM_S,
    }
    show(figures, ratios, warm_s, goals)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps(
            {
                "machine": f"{platform.machine()}, Python {platform.python_version()}",
                "rounds": ROUNDS,
                "reads": figures,
                "redis_to_bare_get": ratios,
                "warm_up": {"values": WARM_ITEMS, "seconds": round(warm_s, 3)},
                "goals": goals,
            },
            indent=2,
        )
        + "\n"
    )


def show(figures: dict[str, dict[str, float]], ratios: dict[str, float], warm_s: float, goals: dict[str, bool]) -> None:
    print(f"{'read (µs)':<20}{'p50':>10}{'p95':>10}{'p99':>10}")
    for name, row in figures.items():
        print(f"{name:<20}" + "".join(f"{value:>10.1f}" for value in row.values()))
    print(f"{'redis / bare GET':<20}" + "".join(f"{value:>10.2f}" for value in ratios.values()))
    print(f"warm-up of {WARM_ITEMS} values, cold Redis: {warm_s:.2f} s")
    for goal, is_met in goals.items():
        print(f"{'met   ' if is_met else 'MISSED'} {goal}")


if __name__ == "__main__":
    main()
