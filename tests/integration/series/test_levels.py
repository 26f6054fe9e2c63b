"""Availability and waits against their targets: burn rates, error budgets, metrics of the alarms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from artiway.platform.database import Database
from artiway.series.model import MINUTE
from artiway.series.repository import PostgresSeries
from artiway.series.service import SeriesService
from artiway.series.settings import AVAILABILITY_PERCENT
from artiway.settings.model import Defaults, Fixed
from tests.fakes.clock import FixedClock
from tests.integration.series.conftest import POOLS, KnownRequests

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Day:
    """Minutes with given numbers of requests and 5xx answers, closed one after the other."""

    def __init__(self, database: Database, superuser: str, values: Any = None) -> None:
        self.clock, self.requests = FixedClock(NOON), KnownRequests()
        store = PostgresSeries(database, database, pools=POOLS, beat_s=lambda: 10)
        self.service = SeriesService(store, self.requests, dict, values or Defaults(), self.clock)
        self.superuser, self.minute = superuser, NOON
        self.service.close_minutes()

    def pass_minutes(self, count: int, requests: int, errors: int) -> None:
        for _ in range(count):
            self.requests.counts[self.minute] = requests, errors
            self.minute += MINUTE
            self.clock.set(self.minute + MINUTE)
            assert self.service.close_minutes()["closed"] == 1

    def newest(self, name: str, objective: str = "availability") -> dict[str, float]:
        with psycopg.connect(self.superuser, row_factory=dict_row) as connection:
            rows = connection.execute(
                "SELECT labels, value FROM series_minute"
                " WHERE name = %s AND minute = %s AND labels ->> 'objective' = %s",
                [name, self.minute - MINUTE, objective],
            ).fetchall()
        return {row["labels"].get("window", ""): row["value"] for row in rows}


@pytest.fixture
def day(service_database: Database, addresses) -> Day:
    return Day(service_database, addresses.superuser)


def test_burn_needs_both_windows(day: Day, emitted: dict[tuple[str, str], float]):
    day.pass_minutes(5, requests=1_000, errors=10)  # 1 % is twenty times 0.05 %
    assert emitted["availability", "fast"] == pytest.approx(20)
    assert emitted["availability", "slow"] == pytest.approx(20)
    day.pass_minutes(5, requests=1_000, errors=0)
    assert day.newest("burn_rate") == pytest.approx({"5m": 0, "30m": 10, "1h": 10, "6h": 10})
    assert emitted["availability", "fast"] == 0
    assert emitted["availability", "slow"] == pytest.approx(10)


def test_few_requests_raise_no_alarm(day: Day, emitted: dict[tuple[str, str], float]):
    day.pass_minutes(3, requests=3, errors=3)
    assert emitted["availability", "fast"] == 0
    assert day.newest("burn_rate")["1h"] == pytest.approx(2_000)


def test_budget_lasts_beyond_the_minutes(day: Day, addresses):
    day.pass_minutes(2, requests=1_000, errors=1)
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        for days, good, total in ((27, 5_000, 5_000), (28, 0, 99_999)):
            connection.execute(
                "INSERT INTO series_day VALUES ('availability', %s, '{}', %s, %s)",
                [(NOON - timedelta(days=days)).date(), good, total],
            )
    day.pass_minutes(1, requests=1_000, errors=1)
    # 3 of 8,000 failed where 4 may: the oldest day is outside of the window.
    assert day.newest("error_budget") == {"": pytest.approx(0.25)}


def test_day_is_the_sum_of_its_minutes(day: Day, addresses):
    day.pass_minutes(3, requests=100, errors=1)
    day.service.close_minutes()
    with psycopg.connect(addresses.superuser) as connection:
        rows = connection.execute("SELECT name, day, value, weight FROM series_day").fetchall()
    assert rows == [("availability", NOON.date(), 297, 300)]


def test_unknown_minute_is_left_out(day: Day):
    day.pass_minutes(2, requests=100, errors=1)
    day.minute += MINUTE  # no count for this one
    day.clock.set(day.minute + MINUTE)
    assert day.service.close_minutes()["closed"] == 1
    assert day.newest("burn_rate")["5m"] == pytest.approx(20)


def test_target_is_a_live_setting(service_database: Database, addresses):
    day = Day(service_database, addresses.superuser, Fixed({AVAILABILITY_PERCENT: 99.0}))
    day.pass_minutes(1, requests=100, errors=1)
    assert day.newest("burn_rate")["5m"] == pytest.approx(1)
