"""`python -m bench.wfq [--quick] [--no-peers]`: our queue, its peers and the goals, in one run on equal servers.

Each level that the goals name is in the plan with the others at their middle, and so are the corners that could hurt: a
million waiting, batches of one, four clients, nearly everybody capped. All of them would take a day and say the same.
What a goal compares is measured in turns of seconds, so that a machine which is slow for a while is slow for both.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import redis

from bench.wfq import durable, peers
from bench.wfq.ours import (
    Load,
    Result,
    Target,
    bare_round_trips,
    dispatch_rates,
    latency_ms,
    longest_call_ms,
    measure,
    prepare,
)
from local.servers import Server, free_port, running, start_valkey

RESULTS = Path(__file__).parent.parent / "results"
PER_S = 200
ROUNDS = 5
LIVE = Load(1000, 1000, clients=4)
STORED = durable.Load(100, 4, 0)
SIDE_BY_SIDE = {
    "few": Load(10, 100_000),
    "many": Load(10_000, 100_000),
    "capped": Load(10_000, 100_000, capped_percent=99),
}
T = TypeVar("T")
Measured = TypeVar("Measured", Result, durable.Result, peers.Peer)
CORNERS = ((100, 1), (100, 4), (10, 1), (1, 4))


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{p}": round(ordered[min(len(ordered) - 1, len(ordered) * p // 100)], 2) for p in (50, 95, 99)}


def table(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}")
    columns = list(rows[0])
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(len(column), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    for line in [columns, *cells]:
        print("  " + "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"


def live_plan(*, is_quick: bool) -> list[Load]:
    """What is compared with peers, who have one queue and no tenants."""
    seconds = 1.0 if is_quick else 3.0
    return [Load(1000, 1000, batch=b, clients=c, seconds=seconds) for b in (1, 10, 100) for c in (1, 4)]


def scale_plan(*, is_quick: bool) -> list[Load]:
    """In an order that lets neighbours share a backlog, and keeps those close in time that are compared."""
    seconds = 1.0 if is_quick else 3.0
    grid = [Load(10_000, n, seconds=seconds) for n in (1000, 10_000)]
    grid += [Load(t, 100_000, seconds=seconds) for t in (1000, 10, 10_000)]
    grid += [Load(10_000, 100_000, capped_percent=p, seconds=seconds) for p in (99, 50)]
    if not is_quick:
        grid += [Load(10, 1_000_000, seconds=seconds)]
        grid += [Load(10_000, 1_000_000, batch=b, clients=c, seconds=seconds) for b, c in CORNERS]
        grid += [Load(10_000, 1_000_000, capped_percent=99, batch=b, clients=c, seconds=seconds) for b, c in CORNERS]
    return grid


def durable_plan() -> list[durable.Load]:
    """Beyond the one that is compared with peers."""
    grid = [durable.Load(100, 1, 10_000), durable.Load(10, 4, 10_000), durable.Load(10, 1, 5_000)]
    return [*grid, durable.Load(1, 4, 1_000), durable.Load(1, 1, 500), durable.Load(100, 4, 10_000, waiting=50_000)]


@contextlib.contextmanager
def fresh_redis() -> Iterator[Server]:
    """One for each part: a server still clears away what the last part left in it, and would be charged for that."""
    with (
        tempfile.TemporaryDirectory() as home,
        running(start_valkey(Path(home), free_port(), is_durable=False)) as server,
    ):
        yield server


def run(url: str, plan: Sequence[Load], latency_s: float) -> tuple[list[Result], list[dict[str, Any]]]:
    """The results; and of each backlog how long it took to build from nothing, how long a node takes at a steady rate,
    and the longest that one call kept Redis, then and under full load."""
    results, backlogs = [], []
    for backlog, group in itertools.groupby(plan, key=lambda load: load.backlog):
        loads = list(group)
        with redis.Redis.from_url(url) as client:
            row: dict[str, Any] = dict(zip(("tenants", "waiting", "capped_percent"), backlog, strict=True))
            row["rebuild_s"] = prepare(url, loads[0])
            longest_call_ms(client)
            row |= percentiles(_latencies(url, latency_s, loads[0]))
            row["longest_ms"] = longest_call_ms(client)
            for load in loads:
                results.append(measure(url, load))
                _print_row(results[-1].row())
            row["longest_under_load_ms"] = longest_call_ms(client)
            backlogs.append(row)
    return results, backlogs


def _latencies(url: str, seconds: float, load: Load) -> list[float]:
    """After a warm-up: the first calls of a process meet cold code, ours as well as a peer's."""
    target = Target(url)
    latency_ms(target, per_s=PER_S, seconds=1, load=load)
    return latency_ms(target, per_s=PER_S, seconds=seconds, load=load)


def latencies_in_turns(server: Server, *, seconds: float, is_alone: bool) -> tuple[list[float], list[float]]:
    """Ours and BullMQ's, round for round."""
    mine, theirs, empty = [], [], Load(1000, 0)
    for _ in range(ROUNDS):
        prepare(server.url, empty)
        mine += _latencies(server.url, seconds / ROUNDS, empty)
        if not is_alone:
            theirs += _if_it_runs(
                "BullMQ", peers.bullmq_latency_ms, server.url, server.port, per_s=PER_S, seconds=seconds / ROUNDS
            )
    return mine, theirs


def side_by_side() -> dict[str, list[float]]:
    """Dispatch rates on servers of their own, and on several of each: where its memory lies makes one server a little
    faster than another for as long as it lives."""
    rates: dict[str, list[float]] = {name: [] for name in SIDE_BY_SIDE}
    for _ in range(ROUNDS):
        with contextlib.ExitStack() as stack:
            urls = {name: stack.enter_context(fresh_redis()).url for name in SIDE_BY_SIDE}
            for name, found in dispatch_rates(urls, SIDE_BY_SIDE, rounds=2 * ROUNDS, seconds=0.3).items():
                rates[name] += found
    return rates


def run_durable(url: str, plan: Sequence[durable.Load]) -> list[durable.Result]:
    results = []
    for load in plan:
        results.append(durable.measure(url, load))
        _print_row(results[-1].row())
    return results


def _print_row(row: dict[str, Any]) -> None:
    print("  " + "  ".join(f"{name}={_cell(value)}" for name, value in row.items()), flush=True)


def goals(
    live: Result,
    rebuild_s: float,
    rates: dict[str, list[float]],
    theirs: list[peers.Peer],
    mine: dict[str, float],
    database_per_s: float,
) -> list[dict[str, Any]]:
    """SPEC 16, rows 1 to 3 and the rebuild. Ratios of one run, so that another machine may judge them too."""

    def ratio(name: str, other: str) -> float:
        """Turn by turn: the machine is quicker in some than in others."""
        return statistics.median(a / b for a, b in zip(rates[name], rates[other], strict=True))

    rows = [
        ("Redis time per node (µs), batches of 100", live.redis_us_per_node, "<=", 60.0),
        ("dispatch rate, 10,000 tenants / 10", ratio("many", "few"), ">=", 0.6),
        ("dispatch rate, 99 % capped / none", ratio("capped", "many"), ">=", 0.9),
        ("rebuild of 100,000 from PostgreSQL (s)", rebuild_s, "<", 10.0),
    ]
    bull = [peer for peer in theirs if peer.name.startswith("BullMQ")]
    if bull:
        fastest = max(peer.nodes_per_s for peer in bull)
        p99 = percentiles(bull[0].latencies_ms)["p99"]
        rows.insert(0, ("rate / BullMQ's best", live.nodes_per_s / fastest, ">=", 3.0))
        rows.insert(1, ("p99 at 200/s (ms), against BullMQ's", mine["p99"], "<=", p99))
        rows.append(("rate with PostgreSQL / BullMQ's best", database_per_s / fastest, ">=", 1.0))
        rows += [
            ("rate with PostgreSQL / Celery's", database_per_s / peer.nodes_per_s, ">=", 5.0)
            for peer in theirs
            if peer.name.startswith("Celery")
        ]
    compare = {"<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b}
    return [
        {
            "goal": what,
            "measured": round(value, 2),
            "wanted": f"{sign} {limit}",
            "met": "yes" if compare[sign](value, limit) else "NO",
        }
        for what, value, sign, limit in rows
    ]


@dataclass(frozen=True)
class Turns:
    """Ours, ours with PostgreSQL, and BullMQ, one after the other and round for round; the middle one of each."""

    live: Result
    stored: durable.Result
    bullmq: list[peers.Peer]


def take_turns(server: Server, *, count: int, seconds: float, bullmq_ms: list[float], is_alone: bool) -> Turns:
    live, stored, theirs = [], [], []
    for _ in range(ROUNDS):
        prepare(server.url, LIVE)
        live.append(measure(server.url, replace(LIVE, seconds=seconds)))
        stored.append(durable.measure(server.url, replace(STORED, nodes=count)))
        if not is_alone:
            theirs.append(
                _if_it_runs("BullMQ", peers.bullmq, server.url, server.port, count=count, latencies_ms=bullmq_ms)
            )
    return Turns(_middle(live), _middle(stored), [_middle(peer) for peer in zip(*filter(None, theirs), strict=True)])


def _middle(results: Sequence[Measured]) -> Measured:
    return sorted(results, key=lambda result: result.nodes_per_s)[len(results) // 2]


def _if_it_runs(name: str, act: Callable[..., list[T]], *arguments: Any, **named: Any) -> list[T]:
    """A peer that does not run here is named and left out; the rest of the run keeps its worth."""
    try:
        return act(*arguments, **named)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"{name} did not run: {error}")
        return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs, no million")
    parser.add_argument("--no-peers", action="store_true", help="only our own figures")
    options = parser.parse_args()
    began = time.monotonic()
    count, seconds = (5_000, 5) if options.quick else (20_000, 10)
    if not options.no_peers:
        peers.install()
    with fresh_redis() as server:
        calls, floor = bare_round_trips(server.url)
        print(f"bare EVALSHA: {calls:,.0f} calls/s, {floor:.0f} µs of Redis each; load {os.getloadavg()[0]:.1f}")
        results, backlogs = run(server.url, live_plan(is_quick=options.quick), seconds / 2)
    with fresh_redis() as server:
        ours_ms, bullmq_ms = latencies_in_turns(server, seconds=2 * seconds, is_alone=options.no_peers)
        mine = percentiles(ours_ms)
    with fresh_redis() as server:
        turns = take_turns(server, count=count, seconds=1, bullmq_ms=bullmq_ms, is_alone=options.no_peers)
        rebuild_s = durable.rebuild_s(server.url, 100_000)
        stored, theirs = [turns.stored], turns.bullmq
        if not options.no_peers:
            for name, act in (("Dramatiq", peers.dramatiq), ("Celery", peers.celery)):
                theirs += _if_it_runs(name, act, server.url, count=count // 4, per_s=PER_S, seconds=seconds)
    with fresh_redis() as server:
        more, larger = run(server.url, scale_plan(is_quick=options.quick), seconds / 2)
        results, backlogs = results + more, backlogs + larger
    rates = side_by_side()
    if not options.quick:
        with fresh_redis() as server:
            stored += run_durable(server.url, durable_plan())
    table("Fair queue, Redis only", [result.row() for result in results])
    table(f"By backlog: rebuild (s), latency at {PER_S}/s (ms), longest call (ms)", backlogs)
    live = turns.live
    rows = [{"queue": "ours", "per_s": live.nodes_per_s, "redis_us": live.redis_us_per_node, **mine}]
    rows += [
        {"queue": p.name, "per_s": p.nodes_per_s, "redis_us": p.redis_us_per_node, **percentiles(p.latencies_ms)}
        for p in theirs
    ]
    table(f"Live, and latency at {PER_S}/s (ms)", rows)
    table("With the PostgreSQL transitions", [result.row() for result in stored])
    medians = [{"queue": name, "dispatch_per_s": statistics.median(each)} for name, each in rates.items()]
    table("Dispatch side by side, in turns (few: 10 tenants, many: 10,000, capped: 99 % of those)", medians)
    verdicts = goals(live, rebuild_s, rates, theirs, mine, turns.stored.nodes_per_s)
    table("Goals", verdicts)
    print(f"\n{time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    RESULTS.mkdir(exist_ok=True)
    report = {
        "machine": platform.platform(),
        "cpus": os.cpu_count(),
        "bare": {"calls_per_s": calls, "redis_us": floor},
        "ours": [result.row() for result in results],
        "live": rows,
        "backlogs": backlogs,
        "rebuild_from_postgresql_s": rebuild_s,
        "side_by_side": rates,
        "with_database": [result.row() for result in stored],
        "goals": verdicts,
    }
    (RESULTS / "wfq.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
