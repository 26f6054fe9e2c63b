"""The series that operators read: names, labels, units, and how the minutes of a step become one value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

MINUTE = timedelta(minutes=1)
# A minute is closed this long after its end. A change that commits even later is not counted.
CLOSE_DELAY = timedelta(seconds=60)
# After a longer absence of the pass, older minutes stay without points.
CATCH_UP = timedelta(minutes=30)
MINUTES_A_PASS = 10
# Each bucket ends this much above the one before, so a percentile is at most 2.5 % off.
GROWTH = 1.05
LARGEST_STEP = timedelta(days=1)
MOST_STEPS = 720
BUDGET_DAYS = 28
# 95 % of the nodes of a lane start within the lane's target.
WAIT_OBJECTIVE = 0.95
# 99 % of the runs of jobs are considered by the dispatcher within this time after they are due.
RUN_OBJECTIVE = 0.99
RUN_LATE_S = 2
# A burn rate of fewer requests or nodes in its longer window is zero: one late node of two says nothing.
FEWEST_EVENTS = 10
OTHER = "other"


class Merge(StrEnum):
    """How the minutes of a step become one value."""

    SUM = "sum"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    RATIO = "ratio"  # sum of the numerators / sum of the denominators
    SHARE = "share"  # of the sum over all tenants of the pool
    QUANTILE = "quantile"  # of the merged buckets


@dataclass(frozen=True)
class Series:
    """`stored` is the name of its rows: several percentiles have the same distribution."""

    name: str
    merge: Merge
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    stored: str = ""
    quantile: float = 0
    is_measured: bool = True

    @property
    def rows(self) -> str:
        return self.stored or self.name


def _known(*series: Series) -> Mapping[str, Series]:
    return {one.name: one for one in series}


_LANE = ("pool", "lane")
_QUANTILE = Merge.QUANTILE
SERIES = _known(
    Series("throughput", Merge.SUM, "nodes", "Nodes that completed", _LANE),
    Series("waiting", Merge.MAXIMUM, "nodes", "Nodes that wait for a slot at the end of a minute", _LANE),
    Series("running", Merge.MAXIMUM, "nodes", "Nodes that hold a slot at the end of a minute", _LANE),
    Series("wait_p50", _QUANTILE, "seconds", "Wait of started nodes, median", _LANE, "wait", 0.5),
    Series("wait_p95", _QUANTILE, "seconds", "Wait of started nodes, 95th percentile", _LANE, "wait", 0.95),
    Series("failures", Merge.SUM, "attempts", "Attempts that failed or timed out", (*_LANE, "status")),
    Series("utilisation", Merge.RATIO, "ratio", "Busy time of the workers' slots", ("pool",)),
    Series("share", Merge.SHARE, "ratio", "Share of a tenant in the busy time of a pool", ("pool", "tenantId")),
    Series("dead_letters", Merge.MAXIMUM, "messages", "Messages in the dead-letter queues", ("queue",)),
    Series("node_duration_p95", _QUANTILE, "seconds", "Run time of nodes", ("step",), "node_duration", 0.95),
    Series("requests", Merge.SUM, "requests", "Requests of users"),
    Series("server_errors", Merge.SUM, "requests", "Requests that were answered by a 5xx status"),
    Series("availability", Merge.RATIO, "ratio", "Requests that were not answered by a 5xx status"),
    Series("wait_within_target", Merge.RATIO, "ratio", "Nodes that started within the target of their lane", ("lane",)),
    Series("burn_rate", Merge.MAXIMUM, "ratio", "Use of the error budget; 1 uses it up", ("objective", "window")),
    Series("error_budget", Merge.MINIMUM, "ratio", "Rest of the error budget of 28 days", ("objective",)),
    Series("trigger_latency_p50", _QUANTILE, "seconds", "Lateness of runs, median", (), "trigger_latency", 0.5),
    Series("trigger_latency_p95", _QUANTILE, "seconds", "Lateness of runs", (), "trigger_latency", 0.95),
    Series("runs_on_time", Merge.RATIO, "ratio", "Runs that the dispatcher considered within 2 s of their time"),
    Series("run_backlog", Merge.MAXIMUM, "runs", "Runs that are due and not started", ("lane",)),
    Series("runs_ended", Merge.SUM, "runs", "Runs that ended", ("status",)),
    Series("run_failures", Merge.RATIO, "ratio", "Ended runs that failed for good"),
    Series("tokens_per_second", Merge.RATIO, "tokens", "Tokens of ended texts for each second of their writing"),
    Series("first_token_p95", _QUANTILE, "seconds", "Time to the first token", (), "first_token", 0.95),
)


@dataclass(frozen=True)
class Point:
    at: datetime
    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Row:
    """The stored minutes of one label set, merged over a step."""

    at: datetime
    labels: Mapping[str, str]
    total: float = 0
    weight: float | None = None
    largest: float = 0
    smallest: float = 0
    buckets: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Stored:
    """A row that is not computed from tables of tasks."""

    name: str
    labels: Mapping[str, str]
    value: float
    weight: float | None = None


@dataclass(frozen=True)
class Range:
    """Whole steps: `since` is rounded down and `until` up."""

    since: datetime
    until: datetime
    step: timedelta


@dataclass(frozen=True)
class Objective:
    """A service level: the rows that count it, and its lane."""

    rows: str
    lane: str = ""

    @property
    def name(self) -> str:
        return f"wait_{self.lane}" if self.lane else self.rows


@dataclass(frozen=True)
class Outcomes:
    """How many requests or nodes met an objective, of how many."""

    good: float = 0
    total: float = 0

    def burn(self, objective: float) -> float:
        """How many times faster than allowed the error budget is used. 1 uses it up exactly at the window's end."""
        return (1 - self.good / self.total) / (1 - objective) if self.total else 0


@dataclass(frozen=True)
class Windows:
    """An alarm needs both windows: the long one shows that it matters, the short one that it goes on."""

    name: str
    long: timedelta
    short: timedelta


FAST = Windows("fast", timedelta(hours=1), timedelta(minutes=5))
SLOW = Windows("slow", timedelta(hours=6), timedelta(minutes=30))
BURN_WINDOWS = {
    "5m": FAST.short,
    "30m": SLOW.short,
    "1h": FAST.long,
    "6h": SLOW.long,
}


def floor(at: datetime, step: timedelta) -> datetime:
    """The start of the step, counted from 1970, that contains this time."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (at - epoch) // step * step


def ceiling(at: datetime, step: timedelta) -> datetime:
    start = floor(at, step)
    return start if start == at else start + step


def next_minute(closed_until: datetime, now: datetime) -> datetime | None:
    """The minute to close next, or None if it is too early. Minutes before the limit of the catch-up are left out."""
    minute = max(closed_until, floor(now - CATCH_UP, MINUTE))
    return minute if minute + MINUTE + CLOSE_DELAY <= now else None


def default_step(since: datetime, until: datetime) -> timedelta:
    """The shortest step of whole minutes that covers the range with `MOST_STEPS`, the rounded ends included."""
    minutes = math.ceil((until - since) / (MOST_STEPS - 2) / MINUTE)
    return MINUTE * max(1, minutes)


def quantile(buckets: Mapping[str, int], q: float) -> float:
    """The middle of the bucket that holds the smallest value with at least `q` of all values at or below it."""
    total, below = sum(buckets.values()), 0
    for number in sorted(map(int, buckets)):
        below += buckets[str(number)]
        if below >= q * total:
            return float(2 * GROWTH**number / (GROWTH + 1))
    raise ValueError("there are no values")


def points_of(series: Series, rows: Sequence[Row]) -> list[Point]:
    """One point for each row. A ratio without a denominator has none."""
    totals: dict[tuple[datetime, str], float] = {}
    if series.merge is Merge.SHARE:
        for row in rows:
            key = row.at, row.labels.get("pool", "")
            totals[key] = totals.get(key, 0) + row.total
    found = ((row, _value(series, row, totals)) for row in rows)
    return [Point(row.at, value, row.labels) for row, value in found if value is not None]


def _value(series: Series, row: Row, totals: Mapping[tuple[datetime, str], float]) -> float | None:
    match series.merge:
        case Merge.SUM:
            return row.total
        case Merge.MAXIMUM:
            return row.largest
        case Merge.MINIMUM:
            return row.smallest
        case Merge.RATIO:
            return row.total / row.weight if row.weight else None
        case Merge.SHARE:
            total = totals[row.at, row.labels.get("pool", "")]
            return row.total / total if total else None
        case Merge.QUANTILE:
            return quantile(row.buckets, series.quantile) if row.buckets else None
