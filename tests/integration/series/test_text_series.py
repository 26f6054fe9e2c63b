"""Series of texts: from rows that ended in a minute, whatever tenant they are of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from artiway.series.model import MINUTE, SERIES, floor
from artiway.series.repository import PostgresSeries
from artiway.series.service import SeriesService
from artiway.settings.model import Defaults
from tests.fakes.clock import FixedClock
from tests.integration.series.conftest import POOLS, KnownRequests

SINCE = floor(datetime.fromisoformat("2026-03-02T12:00:00Z"), MINUTE)


class Written:
    """Texts that ended at a second of the first two minutes, and their series."""

    def __init__(self, superuser: psycopg.Connection[dict[str, Any]], series: SeriesService, clock: FixedClock) -> None:
        self._superuser, self._series, self._clock = superuser, series, clock

    def text(
        self,
        ended: float,
        *,
        first_token: float | None,
        began: float = 0,
        tokens: int | None,
        status: str = "COMPLETED",
    ) -> None:
        """Times in seconds of the story."""
        self._superuser.execute(
            "INSERT INTO generation (tenant_id, generation_id, user_id, service, lane, is_free, status, input,"
            " max_tokens, input_tokens, input_price, output_price, price_points, allowance_day, used_input,"
            " used_output, usage_source, started_at, first_token_at, ended_at)"
            " VALUES (%s, %s, %s, 'copywriting', 'free_stream', true, %s, '{}', 1, 1, 1, 1, 0, current_date, %s, %s,"
            " %s, %s, %s, %s)",
            [
                uuid4(),
                uuid4(),
                uuid4(),
                status,
                None if tokens is None else 5,
                tokens,
                None if tokens is None else "provider",
                at(began),
                None if first_token is None else at(first_token),
                at(ended),
            ],
        )

    def close(self) -> None:
        self._superuser.execute("INSERT INTO series_pass (closed_until) VALUES (%s)", [SINCE])
        self._clock.set(SINCE + 4 * MINUTE)
        self._series.close_minutes()

    def read(self, name: str, step_s: int = 60) -> dict[int, float]:
        """Value by minute of the story."""
        points = self._series.read(SERIES[name], SINCE, SINCE + 2 * MINUTE, step_s)[1]
        return {int((point.at - SINCE) / MINUTE): point.value for point in points}

    def empty(self) -> None:
        for table in ("series_minute", "series_day", "series_pass", "generation"):
            self._superuser.execute(f"DELETE FROM {table}".encode())


def at(second: float) -> datetime:
    return SINCE + timedelta(seconds=second)


@pytest.fixture
def written(addresses, service_database) -> Iterator[Written]:
    clock = FixedClock(SINCE)
    store = PostgresSeries(service_database, service_database, pools=POOLS, beat_s=lambda: 10)
    with psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET session_replication_role = replica")  # no tenants and users
        made = Written(connection, SeriesService(store, KnownRequests(), dict, Defaults(), clock), clock)
        made.empty()
        yield made
        made.empty()


def test_speed_is_all_tokens_by_all_seconds(written: Written):
    written.text(20, first_token=10, tokens=300)
    written.text(40, first_token=10, tokens=30, status="CANCELLED")
    written.text(100, first_token=80, tokens=60)
    written.close()
    assert written.read("tokens_per_second") == {0: pytest.approx(330 / 40), 1: pytest.approx(3)}
    assert written.read("tokens_per_second", 120) == {0: pytest.approx(390 / 60)}


def test_first_token_is_timed_from_the_claim(written: Written):
    for delay in (*[0.5] * 18, 4, 4):
        written.text(50, began=30, first_token=30 + delay, tokens=1)
    written.text(61, began=50, first_token=60, tokens=1)
    written.close()
    assert written.read("first_token_p95") == {0: pytest.approx(4, rel=0.025), 1: pytest.approx(10, rel=0.025)}


def test_texts_count_in_the_minute_of_their_end(written: Written):
    written.text(0, began=-10, first_token=-5, tokens=10)
    written.text(59.999_999, first_token=39.999_999, tokens=10)
    written.text(120, first_token=119, tokens=1_000)
    written.close()
    assert written.read("tokens_per_second") == {0: pytest.approx(20 / 25)}


def test_uncounted_texts_have_no_speed(written: Written):
    written.text(20, first_token=None, tokens=None, status="FAILED")
    written.text(70, first_token=65, tokens=None, status="FAILED")
    written.close()
    assert written.read("tokens_per_second") == {}
    assert written.read("first_token_p95").keys() == {1}


def test_first_token_before_the_claim_is_zero(written: Written):
    """The two times are of two clocks."""
    written.text(20, began=10, first_token=9.9, tokens=5)
    written.close()
    assert written.read("first_token_p95") == {0: pytest.approx(0.001, rel=0.05)}
