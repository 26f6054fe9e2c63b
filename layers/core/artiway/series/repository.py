"""Minute aggregates in PostgreSQL, as `artiway_service`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from artiway.jobs.model import RUN_LANES
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.series.model import GROWTH, MINUTE, RUN_LATE_S, Merge, Objective, Outcomes, Range, Row, Series, Stored

SQL = sql.load("artiway.series")


class PostgresSeries:
    def __init__(
        self, database: Database, reader: Database, *, pools: Sequence[str], beat_s: Callable[[], float]
    ) -> None:
        """`reader` serves the questions of operators; what closes minutes reads the writer."""
        self._database, self._reader, self._pools, self._beat_s = database, reader, list(pools), beat_s

    def begin(self, minute: datetime) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["begin_pass"], {"minute": minute})

    def closed_until(self) -> datetime | None:
        rows = self._all("closed_until", {})
        return rows[0]["closed_until"] if rows else None

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
        with self._database.service_transaction() as tx:
            if tx.run(SQL["take_minute"], {"minute": minute}) == 0:
                return False
            tx.run(
                SQL["close_minute"],
                {
                    "since": minute,
                    "until": minute + MINUTE,
                    "pools": self._pools,
                    "beat_s": self._beat_s(),
                    "growth": GROWTH,
                    "targets": json.dumps(dict(targets)),
                    "top": top,
                    "knows_workers": knows_workers,
                },
            )
            tx.run(
                SQL["close_runs"],
                {"since": minute, "until": minute + MINUTE, "growth": GROWTH, "late_s": RUN_LATE_S},
            )
            tx.run(SQL["close_texts"], {"since": minute, "until": minute + MINUTE, "growth": GROWTH})
            tx.run(SQL["add_points"], {"minute": minute, "points": _points(extra)})
            tx.run(SQL["sum_day"], {"minute": minute, "names": list(summed)})
        return True

    def run_backlog(self, now: datetime) -> Mapping[str, int]:
        rows = self._all("run_backlog", {"now": now, "lanes": list(RUN_LANES)})
        return {row["lane"]: int(row["runs"]) for row in rows}

    def minute_rows(self, names: Sequence[str], minute: datetime) -> Mapping[str, list[Row]]:
        return _by_name(self._all("rows_of_minute", {"names": list(names), "minute": minute}))

    def add(self, minute: datetime, points: Sequence[Stored]) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["add_points"], {"minute": minute, "points": _points(points)})

    def outcomes(
        self, names: Sequence[str], *, until: datetime, windows: Sequence[timedelta]
    ) -> Mapping[tuple[Objective, timedelta], Outcomes]:
        seconds = [int(window.total_seconds()) for window in windows]
        parameters = {"names": list(names), "until": until, "windows_s": seconds, "longest_s": max(seconds)}
        return {
            (_objective(row), timedelta(seconds=row["window_s"])): Outcomes(row["good"], row["total"])
            for row in self._all("outcomes", parameters)
        }

    def outcomes_of_days(self, names: Sequence[str], *, until: datetime, days: int) -> Mapping[Objective, Outcomes]:
        rows = self._all("outcomes_of_days", {"names": list(names), "until": until, "days": days})
        return {_objective(row): Outcomes(row["good"], row["total"]) for row in rows}

    def delete(self, *, minutes_before: datetime, days_before: datetime, limit: int) -> int:
        with self._database.service_transaction() as tx:
            tx.run(SQL["delete_days"], {"before": days_before})
            return tx.run(SQL["delete_minutes"], {"before": minutes_before, "limit": limit})

    def read(self, series: Series, wanted: Range, *, top: int) -> list[Row]:
        query = "read_distributions" if series.merge is Merge.QUANTILE else "read_steps"
        parameters = {
            "name": series.rows,
            "since": wanted.since,
            "until": wanted.until,
            "step_s": wanted.step.total_seconds(),
            "top": top,
        }
        with self._reader.service_transaction() as tx:
            return [Row(**row) for row in tx.all(SQL[query], parameters)]

    def newest(self, minute: datetime) -> Mapping[str, list[Row]]:
        with self._reader.service_transaction() as tx:
            return _by_name(tx.all(SQL["newest_minute"], {"minute": minute}))

    def _all(self, name: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._database.service_transaction() as tx:
            return tx.all(SQL[name], parameters)


def _objective(row: Mapping[str, Any]) -> Objective:
    return Objective(row["name"], row["labels"].get("lane", ""))


def _by_name(rows: Sequence[dict[str, Any]]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.pop("name"), []).append(Row(**row))
    return found


def _points(points: Sequence[Stored]) -> str:
    return json.dumps([asdict(point) for point in points])
