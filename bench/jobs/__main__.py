"""`python -m bench.jobs [--quick] [--minutes n] [--no-peers] [--only part …] [--http-rates n …]`: jobs under load.

300,000 definitions, 37,500 of them due each minute, on PostgreSQL and the emulator's SQS. Trigger, dispatcher, caller
and result writer are the services of the functions in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.jobs import backfill, live, peers
from bench.jobs.world import World, world

RESULTS = Path(__file__).parent.parent / "results" / "jobs.json"
MINUTES, QUICK_MINUTES = 30, 3
# Runs per second of the HTTP path, from the lowest; the first that does not hold ends the search.
HTTP_RATES = (100, 200, 300, 400, 500, 625, 800, 1_000, 1_250, 1_600)
STORY_JOBS, STORY_PER_SECOND = 12_000, 200
BACKFILL_RATIO = 1.5
PARTS = ("pace", "burst", "http", "midnight", "backfill")


def show(name: str, quantiles: dict[str, float], goal: str = "") -> None:
    text = "  ".join(f"{key} {value:8.3f}" for key, value in quantiles.items())
    print(f"    {name:26} {text}  {goal}")


def met(is_met: bool, goal: str) -> str:
    return f"goal {goal}: {'met' if is_met else 'MISSED'}"


def show_pace(row: dict[str, Any]) -> None:
    print(f"  {row['perMinute']:,} due a minute for {row['minutes']} min, {row['definitions']:,} definitions")
    trigger, start = row["triggerLatency"], row["startDelay"]
    if trigger:
        goal = met(trigger["p95"] < 2 and trigger["p99"] < 5, "p95 < 2 s, p99 < 5 s")
        show("trigger latency, s", trigger, goal)
    if start:
        show("start delay, s", start, met(start["p95"] < 10, "p95 < 10 s"))
    show("handed over after, s", row["handedOver"])
    show("pass, s", row["passSeconds"])
    show("runs created in a pass", row["runsPerPass"])
    wrong = {key: row[key] for key in ("missed", "unwanted", "moved", "notHanded", "notEnded", "early")}
    twice = {key: row[key] for key in ("startedTwice", "handedTwice")}
    is_whole = not any(wrong.values())
    print(f"    {row['runs']:,} runs; {wrong}  {met(is_whole, 'nothing missed')}")
    print(f"    {twice}  {met(not any(twice.values()), 'nothing twice')}")
    per = row["perRun"]
    print(
        f"    per run: {per['rows']:.1f} rows, {per['walBytes']:,.0f} B of WAL, {per['transactions']:.2f} transactions,"
        f" {per['postgresSeconds'] * 1e3:.2f} ms CPU of PostgreSQL, {per['emulatorSeconds'] * 1e3:.2f} ms of SQS"
    )
    print(f"    CPU seconds {row['cpuSeconds']}; hints sent again {row['resent']}, swept {row['swept']}")
    if row["failures"]:
        print(f"    failed invocations: {row['failures']}")


def show_story(row: dict[str, Any]) -> None:
    print(f"  {row['count']:,} jobs of 50 tenants at one second, a target that takes {row['targetPerSecond']}/s")
    for lane, found in row["startDelayByLane"].items():
        show(f"start delay, {lane}", found)
    for tier, found in row["startDelayByTier"].items():
        show(f"start delay, {tier}", found)
    over, idle = row["tenantsOverQuota"], row["tenantsWithoutRun"]
    print(f"    {over} tenants over their quota  {met(not over, '0')}")
    print(f"    {idle} tenants without a run, the last tenant's first run after {row['latestFirstStart']:.1f} s")
    print(f"    {row['runs']:,} runs, {row['states']}, started twice {row['startedTwice']}, early {row['early']}")


def http_path(place: World, *, rates: Sequence[int]) -> list[dict[str, Any]]:
    rows = live.ramp(place, rates)
    print(f"  HTTP path, each rate for {live.STEP_S} s. It holds if p95 of its last runs is below {live.LATE_S:.0f} s")
    for row in rows:
        verdict = "holds" if row["holds"] else f"does not hold, {row['notEnded']} not ended"
        print(f"  {row['perSecond']} runs/s: {verdict}")
        show("start delay, s", row["startDelay"])
        show("ended after, s", row["ended"])
    held = [row["perSecond"] for row in rows if row["holds"]]
    limit = "the last one tried" if rows and rows[-1]["holds"] else f"{rows[-1]['perSecond']} does not"
    print(f"    highest rate that holds: {max(held, default=0)} runs/s ({limit})")
    if rows[-1]["failures"]:
        print(f"    failed invocations: {rows[-1]['failures']}")
    return rows


def burst(place: World, *, count: int, has_peers: bool) -> dict[str, Any]:
    ours = live.drained(place, count)
    print(f"  {count:,} due in one second")
    print(f"    ours     {ours['seconds']:7.1f} s  {ours['perSecond']:8.0f}/s, ended, {ours['notEnded']} not ended")
    found: dict[str, Any] = {"ours": ours}
    if has_peers:
        try:
            peer = peers.pg_boss(place, count=count, seconds=0)
            even = peers.pg_boss(place, count=live.PER_MINUTE, seconds=60)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"    pg-boss was not measured: {error}")
            return found
        print(f"    pg-boss  {peer['seconds']:7.1f} s  {peer['count'] / peer['seconds']:8.0f}/s, started")
        print(f"    ours / pg-boss {ours['perSecond'] / (peer['count'] / peer['seconds']):.2f}")
        print(f"  {live.PER_MINUTE:,} due within a minute, one after the other")
        show("pg-boss, start delay, s", even["startDelay"])
        found |= {"pgBoss": peer, "pgBossPaced": even}
    return found


def beside_backfill(place: World, *, minutes: int) -> dict[str, Any]:
    row = backfill.beside(place, minutes=minutes)
    print(
        f"  {row['perMinute']:,} live HTTP runs a minute, alone and beside a backfill of {row['backfillRuns']:,} runs,"
        f" {row['parallelism']} at once, that took {row['backfillSeconds']:.0f} s"
    )
    show("start delay alone, s", row["alone"])
    show("beside the backfill, s", row["beside"])
    ratio = row["ratio"]
    show("ratio", ratio, met(max(ratio["p50"], ratio["p95"]) <= BACKFILL_RATIO, f"p50 and p95 <= {BACKFILL_RATIO}"))
    return row


def save(found: dict[str, Any]) -> None:
    """After each part, so that a run that is interrupted keeps what it measured. Other parts keep their figures."""
    RESULTS.parent.mkdir(exist_ok=True)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(before | found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_MINUTES} minutes instead of {MINUTES}")
    parser.add_argument("--minutes", type=int, help="of the pace, instead of these")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--http-rates", nargs="+", type=int, default=HTTP_RATES, metavar="RUNS", help="a second")
    arguments = parser.parse_args()
    minutes = arguments.minutes or (QUICK_MINUTES if arguments.quick else MINUTES)
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    }
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start")

    def part(name: str, measure: Callable[[World], Any]) -> None:
        """Each part has servers of its own, so that none inherits the tables of another."""
        if name not in arguments.only:
            return
        began = time.monotonic()
        print(f"{name} ...", flush=True)
        with world() as place:
            found[name] = measure(place)
        print(f"  {name} took {time.monotonic() - began:.0f} s", flush=True)
        save(found)

    def pace(place: World) -> dict[str, Any]:
        row = live.paced(place, per_minute=live.PER_MINUTE, minutes=minutes)
        show_pace(row)
        return row

    def story(place: World) -> dict[str, Any]:
        row = live.midnight(place, STORY_JOBS, STORY_PER_SECOND)
        show_story(row)
        return row

    part("pace", pace)
    part("burst", lambda place: burst(place, count=live.PER_MINUTE, has_peers=not arguments.no_peers))
    alone_minutes = 1 if arguments.quick else 2
    part("http", lambda place: http_path(place, rates=arguments.http_rates))
    part("midnight", story)
    part("backfill", lambda place: beside_backfill(place, minutes=alone_minutes))


if __name__ == "__main__":
    main()
