"""The parts of the benchmark, each on empty tables."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from bench.jobs import target
from bench.jobs.measures import GRACE_S, counters, cpu_s, delays, quantiles, unlike
from bench.jobs.roles import TARGET, at_work
from bench.jobs.world import World, add_tenants, definitions, empty, next_minute, store, store_once, store_times
from local.servers import free_port

TENANTS = 300
PER_MINUTE = 37_500
# A trigger that runs before the first fire comes into its horizon finds no backlog. Where its passes are not measured,
# the time to create the runs is enough.
HORIZON_S = 95
LEAD_S = 30
# A rate of the HTTP path: how long it lasts, which of its last runs must start within LATE_S (p95), and how long after
# its end all must have ended.
STEP_S, LAST_S, LATE_S, SETTLE_S = 30, 10, 2.0, 10
NOWHERE = "http://127.0.0.1:9/"
TIERS = (*["enterprise"] * 10, *["vip"] * 20, *["standard"] * 10, *["free"] * 10)
AT_ONCE = {"enterprise": 200, "vip": 50, "standard": 20, "free": 10}


def paced(world: World, *, per_minute: int, minutes: int) -> dict[str, Any]:
    """Definitions of which an eighth is due each minute; trigger, dispatch and hand-over in real time."""
    with psycopg.connect(world.admin_url, autocommit=True) as connection:
        empty(connection)
        made = definitions(add_tenants(connection, ["enterprise"] * TENANTS, is_unlimited=True), per_minute * 8)
        start = next_minute(HORIZON_S)
        store(connection, made, start, url=NOWHERE, timeout_s=30)
        if datetime.now(UTC) > start - timedelta(seconds=HORIZON_S):
            start_late = (datetime.now(UTC) - start).total_seconds() + HORIZON_S
            print(f"    the definitions took {start_late:.0f} s longer than planned")
        end = start + timedelta(minutes=minutes)
        with at_work(world, ["trigger", "dispatch", "sink"]) as found:
            until(start)
            before = _spent(connection, world)
            for minute in range(1, minutes + 1):
                until(start + timedelta(minutes=minute))
                print(f"    minute {minute} of {minutes}: {_standing(connection)}", flush=True)
            after = _spent(connection, world)
            wait_for_the_end(connection, start, end)
        result = delays(connection, found, start, end)
        result |= unlike(connection, made, start, minutes)
        per_run = {key: (after[key] - before[key]) / max(1, per_minute * minutes) for key in after}
        passes = [one for one in found["trigger"].get("pass", []) if start.timestamp() <= one["at"] < end.timestamp()]
        return result | {
            "perMinute": per_minute,
            "minutes": minutes,
            "definitions": len(made),
            "passSeconds": quantiles([one["seconds"] for one in passes]),
            "runsPerPass": quantiles([one.get("runs", 0) for one in passes]),
            "resent": sum(one.get("resent", 0) for one in passes),
            "swept": sum(one["swept"] for one in found["trigger"].get("sweep", [])),
            "perRun": per_run,
            "cpuSeconds": {name: round(notes["cpu"][0], 1) for name, notes in found.items() if notes},
            "failures": {name: notes["failures"][:3] for name, notes in found.items() if notes.get("failures")},
        }


def ramp(world: World, per_second: Sequence[int]) -> list[dict[str, Any]]:
    """HTTP runs at rising rates, each for STEP_S without a break, until a rate does not hold."""
    with psycopg.connect(world.admin_url, autocommit=True) as connection, at_target(None) as url:
        empty(connection)
        owners = add_tenants(connection, ["enterprise"] * TENANTS, is_unlimited=True)
        made = definitions(owners, STEP_S * sum(per_second))
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LEAD_S + len(made) // 5_000)
        steps = [start + timedelta(seconds=number * STEP_S) for number in range(len(per_second))]
        times = [
            step + timedelta(seconds=number // rate)
            for step, rate in zip(steps, per_second, strict=True)
            for number in range(STEP_S * rate)
        ]
        store_times(connection, made, times, url=url, timeout_s=30)
        rows = []
        with at_work(world, ["trigger", "dispatch", "caller", "results"]) as found:
            for step, rate in zip(steps, per_second, strict=True):
                rows.append(_step(connection, step, rate))
                if not rows[-1]["holds"]:
                    break
        for row in rows:
            row["failures"] = {name: notes["failures"][:3] for name, notes in found.items() if notes.get("failures")}
        return rows


def _step(connection: psycopg.Connection, start: datetime, rate: int) -> dict[str, Any]:
    """A rate holds if its last runs still start in time, so that no backlog grows, and all have ended soon after."""
    end = start + timedelta(seconds=STEP_S)
    until(end + timedelta(seconds=SETTLE_S))
    runs = connection.execute(
        "SELECT assigned_at, extract(epoch FROM started_at - assigned_at)::float8,"
        " extract(epoch FROM ended_at - assigned_at)::float8, state, attempt FROM job_run"
        " WHERE scheduled_at >= %s AND scheduled_at < %s",
        (start, end),
    ).fetchall()
    last = quantiles([run[1] for run in runs if run[1] is not None and run[0] >= end - timedelta(seconds=LAST_S)])
    open_runs = STEP_S * rate - sum(run[3] == "SUCCESS" for run in runs)
    return {
        "perSecond": rate,
        "startDelay": quantiles([run[1] for run in runs if run[1] is not None]),
        "startDelayAtEnd": last,
        "ended": quantiles([run[2] for run in runs if run[2] is not None]),
        "notEnded": open_runs,
        "startedTwice": sum(run[4] > 1 for run in runs),
        "holds": bool(last) and last["p95"] < LATE_S and not open_runs,
    }


def drained(world: World, count: int) -> dict[str, Any]:
    """So many runs due in one second: how long until all were handed over and ended."""
    with psycopg.connect(world.admin_url, autocommit=True) as connection:
        empty(connection)
        made = definitions(add_tenants(connection, ["enterprise"] * TENANTS, is_unlimited=True), count)
        due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LEAD_S)
        store_once(connection, made, due, url=NOWHERE, timeout_s=30)
        with at_work(world, ["trigger", "dispatch", "sink"]) as found:
            until(due)
            wait_for_the_end(connection, due, due + timedelta(seconds=1), limit_s=600)
        result = delays(connection, found, due, due + timedelta(seconds=1))
        (last,) = connection.execute("SELECT max(ended_at) FROM job_run").fetchone() or (due,)
    seconds = (last - due).total_seconds() if last else float("nan")
    return {"count": count, "seconds": seconds, "perSecond": count / seconds, **result}


def midnight(world: World, count: int, per_second: int) -> dict[str, Any]:
    """Jobs of 50 tenants at one second, with the limits of their tiers, against a target that takes so many calls."""
    with psycopg.connect(world.admin_url, autocommit=True) as connection, at_target(per_second) as url:
        empty(connection)
        owners = add_tenants(connection, TIERS, is_unlimited=False)
        tier_of = {tenant_id: tier for (tenant_id, _), tier in zip(owners, TIERS, strict=True)}
        made = definitions(owners, count)
        due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LEAD_S)
        store_once(connection, made, due, url=url, timeout_s=60)
        with at_work(world, ["trigger", "dispatch", "caller", "results"], capacity=1_000) as found:
            until(due)
            wait_for_the_end(connection, due, due + timedelta(seconds=1), limit_s=420)
        rows = connection.execute(
            "SELECT tenant_id, lane, extract(epoch FROM started_at - assigned_at)::float8,"
            " extract(epoch FROM ended_at - assigned_at)::float8 FROM job_run"
        ).fetchall()
        result = delays(connection, found, due, due + timedelta(seconds=1))
    by_lane, by_tier, by_tenant = defaultdict(list), defaultdict(list), defaultdict(list)
    for tenant_id, lane, started_s, ended_s in rows:
        if started_s is not None:
            by_lane[lane].append(started_s)
            by_tier[tier_of[tenant_id]].append(started_s)
            by_tenant[tenant_id].append((started_s, ended_s if ended_s is not None else float("inf")))
    over = sum(most_at_once(spans) > AT_ONCE[tier_of[tenant]] for tenant, spans in by_tenant.items())
    first = {tenant: min(started for started, _ in spans) for tenant, spans in by_tenant.items()}
    return {
        "count": count,
        "targetPerSecond": per_second,
        "startDelayByLane": {lane: quantiles(values) for lane, values in sorted(by_lane.items())},
        "startDelayByTier": {tier: quantiles(values) for tier, values in sorted(by_tier.items())},
        "tenantsOverQuota": over,
        "tenantsWithoutRun": len(TIERS) - len(first),
        "latestFirstStart": max(first.values(), default=float("nan")),
        **result,
    }


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """An end at the time of a start frees its place first."""
    steps = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def _standing(connection: psycopg.Connection) -> str:
    """One line on what is under way, from the counters: reading the runs would disturb the measurement."""
    running, waiting = connection.execute(
        "SELECT coalesce(sum(running), 0), coalesce(sum(deferred + blocked), 0) FROM job_load"
    ).fetchone() or (0, 0)
    (unsent,) = connection.execute("SELECT count(*) FROM outbox").fetchone() or (0,)
    (ended,) = connection.execute(
        "SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_user_tables WHERE relname LIKE 'run\\_result%'"
    ).fetchone() or (0,)
    return (
        f"{ended:,} results stored, {running} runs under way, {waiting} waiting for a place, {unsent} messages unsent"
    )


def _spent(connection: psycopg.Connection, world: World) -> dict[str, float]:
    servers = {"postgresSeconds": cpu_s(world.postgres_pid), "emulatorSeconds": cpu_s(world.emulator_pid)}
    return counters(connection) | servers


def until(moment: datetime) -> None:
    time.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))


def wait_for_the_end(
    connection: psycopg.Connection, start: datetime, end: datetime, *, limit_s: float = GRACE_S
) -> None:
    """Until every run of the window has ended, or time is over: slots of jitter end a minute after the window."""
    deadline = time.monotonic() + limit_s + 60
    while time.monotonic() < deadline:
        (open_runs, all_runs) = connection.execute(
            "SELECT count(*) FILTER (WHERE ended_at IS NULL), count(*) FROM job_run"
            " WHERE scheduled_at >= %s AND scheduled_at < %s",
            (start, end),
        ).fetchone() or (0, 0)
        if all_runs and not open_runs:
            return
        time.sleep(1)


@contextlib.contextmanager
def at_target(per_second: int | None) -> Iterator[str]:
    """A server of its own process that answers at once, or so many requests a second."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=target.serve, args=(port, per_second), daemon=True)
    process.start()
    os.environ[TARGET] = f"127.0.0.1:{port}"
    time.sleep(2)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.join()
