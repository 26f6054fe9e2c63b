"""Closes minutes: writes their aggregates once, measures the service levels, and deletes old rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from artiway.errors import Refused
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.series import openmetrics
from artiway.series.model import (
    BUDGET_DAYS,
    BURN_WINDOWS,
    FAST,
    FEWEST_EVENTS,
    LARGEST_STEP,
    MINUTE,
    MINUTES_A_PASS,
    MOST_STEPS,
    RUN_OBJECTIVE,
    SERIES,
    SLOW,
    WAIT_OBJECTIVE,
    Objective,
    Outcomes,
    Point,
    Range,
    Row,
    Series,
    Stored,
    Windows,
    ceiling,
    default_step,
    floor,
    next_minute,
    points_of,
)
from artiway.series.openmetrics import Page
from artiway.series.settings import AVAILABILITY_PERCENT, KEEP_DAYS, TOP_TENANTS, WAIT_S
from artiway.settings.model import SettingValues

logger = Logger("series")
AVAILABILITY, WAIT, RUNS = "availability", "wait_within_target", "runs_on_time"
SUMMED = (AVAILABILITY, WAIT, RUNS)
# The watchdog deletes a worker's row five minutes after its last heartbeat.
WORKERS_KNOWN = timedelta(minutes=4)
DAYS_KEPT = timedelta(days=400)
DELETE_LIMIT = 20_000


class SeriesStore(Protocol):
    def begin(self, minute: datetime) -> None:
        """Minutes from this one on are closed, unless an earlier one has begun the series."""

    def closed_until(self) -> datetime | None:
        """The end of the newest closed minute. None before the first pass."""

    def close(
        self,
        minute: datetime,
        extra: Sequence[Stored],
        *,
        targets: Mapping[str, float],
        top: int,
        knows_workers: bool,
        summed: Sequence[str],
    ) -> bool:
        """Write the minute's rows in one transaction. False: another pass has closed it."""

    def run_backlog(self, now: datetime) -> Mapping[str, int]:
        """Runs of each lane that are due and not started."""

    def minute_rows(self, names: Sequence[str], minute: datetime) -> Mapping[str, list[Row]]: ...

    def add(self, minute: datetime, points: Sequence[Stored]) -> None: ...

    def outcomes(
        self, names: Sequence[str], *, until: datetime, windows: Sequence[timedelta]
    ) -> Mapping[tuple[Objective, timedelta], Outcomes]: ...

    def outcomes_of_days(self, names: Sequence[str], *, until: datetime, days: int) -> Mapping[Objective, Outcomes]: ...

    def delete(self, *, minutes_before: datetime, days_before: datetime, limit: int) -> int: ...

    def read(self, series: Series, wanted: Range, *, top: int) -> list[Row]: ...

    def newest(self, minute: datetime) -> Mapping[str, list[Row]]: ...


class RequestCounts(Protocol):
    def of_minute(self, minute: datetime) -> tuple[int, int] | None:
        """Requests and 5xx answers of a minute. None if they are not known for the whole minute."""


class SeriesService:
    def __init__(
        self,
        store: SeriesStore,
        requests: RequestCounts,
        dead_letters: Callable[[], Mapping[str, int]],
        values: SettingValues,
        clock: Clock,
    ) -> None:
        self._store, self._requests, self._dead_letters = store, requests, dead_letters
        self._values, self._clock = values, clock

    def close_minutes(self) -> dict[str, int]:
        """Close the minutes that are due, oldest first. Safe to repeat, also at the same time in another process."""
        now = self._clock.now()
        closed = 0
        self._store.begin(floor(now, MINUTE))
        while closed < MINUTES_A_PASS and (minute := next_minute(self._store.closed_until() or now, now)) is not None:
            if not self._close(minute, now):
                break
            closed += 1
        days = self._values.get(KEEP_DAYS)
        deleted = self._store.delete(
            minutes_before=now - timedelta(days=days), days_before=now - DAYS_KEPT, limit=DELETE_LIMIT
        )
        return {"closed": closed, "deleted": deleted}

    def _close(self, minute: datetime, now: datetime) -> bool:
        is_newest = next_minute(minute + MINUTE, now) is None
        extra = _request_points(self._requests.of_minute(minute))
        if is_newest:
            extra += [*self._depths(), *self._backlog(now)]
        is_closed = self._store.close(
            minute,
            extra,
            targets={lane: self._values.get(setting) for lane, setting in WAIT_S.items()},
            top=self._values.get(TOP_TENANTS),
            knows_workers=now - minute < WORKERS_KNOWN,
            summed=SUMMED,
        )
        if is_closed:
            self._measure_levels(minute, is_newest=is_newest)
            if is_newest:
                self._emit_runs(minute)
        return is_closed

    def _depths(self) -> list[Stored]:
        try:
            return [Stored("dead_letters", {"queue": name}, depth) for name, depth in self._dead_letters().items()]
        except Exception:  # a queue that cannot be read leaves a gap in its series, and stops no other
            logger.exception("dead letters not counted")
            return []

    def _backlog(self, now: datetime) -> list[Stored]:
        backlog = self._store.run_backlog(now)
        metrics.emit("RunBacklog", sum(backlog.values()))
        return [Stored("run_backlog", {"lane": lane}, runs) for lane, runs in sorted(backlog.items())]

    def _emit_runs(self, minute: datetime) -> None:
        """The 95th percentile of the newest minute. A minute in which no run started has none."""
        series = SERIES["trigger_latency_p95"]
        for point in points_of(series, self._store.minute_rows([series.rows], minute).get(series.rows, [])):
            metrics.emit("TriggerLatencyP95Seconds", point.value, "Seconds")

    def _measure_levels(self, minute: datetime, *, is_newest: bool) -> None:
        """Store burn rates and budgets of this minute. The newest ones are emitted for the alarms."""
        until = minute + MINUTE
        recent = self._store.outcomes(SUMMED, until=until, windows=list(BURN_WINDOWS.values()))
        months = self._store.outcomes_of_days(SUMMED, until=minute, days=BUDGET_DAYS)
        points = []
        for objective, goal in self._objectives().items():
            rates = {window: recent.get((objective, window), Outcomes()) for window in BURN_WINDOWS.values()}
            label = {"objective": objective.name}
            points += [
                Stored("burn_rate", {**label, "window": name}, rates[window].burn(goal))
                for name, window in BURN_WINDOWS.items()
            ]
            budget = 1 - months.get(objective, Outcomes()).burn(goal)
            points.append(Stored("error_budget", label, budget))
            if is_newest:
                for windows in (FAST, SLOW):
                    _emit_burn(windows, rates, goal, objective.name)
        self._store.add(minute, points)

    def _objectives(self) -> dict[Objective, float]:
        return {
            Objective(AVAILABILITY): self._values.get(AVAILABILITY_PERCENT) / 100,
            **{Objective(WAIT, lane): WAIT_OBJECTIVE for lane in WAIT_S},
            Objective(RUNS): RUN_OBJECTIVE,
        }

    def read(
        self, series: Series, since: datetime | None, until: datetime | None, step_s: int | None
    ) -> tuple[Range, list[Point]]:
        """The points of whole steps, the last hour by default. Raises Refused for a range that needs too many steps."""
        until = until or self._clock.now()
        wanted = _range(since or until - timedelta(hours=1), until, step_s)
        if not series.is_measured:
            return wanted, []
        return wanted, points_of(series, self._store.read(series, wanted, top=self._values.get(TOP_TENANTS)))

    def page(self) -> Page:
        """The newest closed minute as OpenMetrics text."""
        closed = self._store.closed_until() or floor(self._clock.now(), MINUTE)
        rows = self._store.newest(closed - MINUTE)
        found = [(series, points_of(series, rows.get(series.rows, []))) for series in SERIES.values()]
        return openmetrics.page(found, closed=closed)


def _request_points(counts: tuple[int, int] | None) -> list[Stored]:
    if counts is None:
        return []
    requests, errors = counts
    return [
        Stored("requests", {}, requests),
        Stored("server_errors", {}, errors),
        Stored(AVAILABILITY, {}, requests - errors, requests),
    ]


def _emit_burn(windows: Windows, rates: Mapping[timedelta, Outcomes], goal: float, objective: str) -> None:
    """The smaller rate of both windows: it is above a threshold exactly if both are."""
    long, short = rates[windows.long], rates[windows.short]
    burn = min(long.burn(goal), short.burn(goal)) if long.total >= FEWEST_EVENTS else 0
    metrics.emit("BurnRate", burn, "None", objective=objective, windows=windows.name)


def _range(since: datetime, until: datetime, step_s: int | None) -> Range:
    if since >= until:
        raise _invalid("from", "must be before `to`")
    step = default_step(since, until) if step_s is None else timedelta(seconds=step_s)
    if step_s is not None and step % MINUTE:
        raise _invalid("step", "must be whole minutes: 60, 300, 3600, …")
    if step > LARGEST_STEP:
        raise _invalid("from", "the range is too long")
    first, last = floor(since, step), ceiling(until, step)
    if (last - first) // step > MOST_STEPS:
        smallest = int(default_step(since, until).total_seconds())
        raise _invalid("step", f"more than {MOST_STEPS} steps; use {smallest} or more, or a shorter range")
    return Range(first, last, step)


def _invalid(field: str, reason: str) -> Refused:
    return Refused("the request is not valid", fields=[{"field": field, "reason": reason}])
