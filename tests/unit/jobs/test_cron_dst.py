"""Daylight saving: what fires in the nights in which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from artiway.jobs.cron import parse
from artiway.jobs.zones import zone

# Zone, the UTC start of the night, its length in hours, and for each expression the fires on the local clock. After a
# time stands the offset where the clock shows it twice.
NIGHTS = [
    (
        "America/New_York, 02:00 becomes 03:00",
        "2026-03-08T05:00",  # 00:00 local
        6,
        {
            "30 2 * * *": ["03:00"],
            "0 2 * * *": ["03:00"],
            "59 2 * * *": ["03:00"],
            "30 1,2,3 * * *": ["01:30", "03:00", "03:30"],
            "0 2,3 * * *": ["03:00"],
            "15,45 2 * * *": ["03:00"],
            "*/20 2 * * *": ["03:00"],
            "30 59 2 * * ?": ["03:00"],
            "0 * * * *": ["00:00", "01:00", "03:00", "04:00", "05:00", "06:00"],
            "30 * * * *": ["00:30", "01:30", "03:30", "04:30", "05:30", "06:30"],
            "30 0-23 * * *": ["00:30", "01:30", "03:30", "04:30", "05:30", "06:30"],
            "0 */2 * * *": ["00:00", "04:00", "06:00"],
            "0 0/2 * * *": ["00:00", "04:00", "06:00"],
            "0 0,2,4,6 * * *": ["00:00", "03:00", "04:00", "06:00"],
            "30 2 8 * *": ["03:00"],
            "30 2 9 * *": [],
        },
    ),
    (
        "America/New_York, 02:00 becomes 01:00",
        "2026-11-01T04:00",  # 00:00 local
        5,
        {
            "30 1 * * *": ["01:30-0400"],
            "0 1 * * *": ["01:00-0400"],
            "0 2 * * *": ["02:00"],
            "*/20 1 * * *": ["01:00-0400", "01:20-0400", "01:40-0400"],
            "*/30 1,2 * * *": ["01:00-0400", "01:30-0400", "02:00", "02:30"],
            "0 * * * *": ["00:00", "01:00-0400", "01:00-0500", "02:00", "03:00"],
            "15 */1 * * *": ["00:15", "01:15-0400", "01:15-0500", "02:15", "03:15"],
            "0 */2 * * *": ["00:00", "02:00"],
        },
    ),
    (
        "Europe/London, 01:00 becomes 02:00",
        "2026-03-29T00:00",
        3,
        {
            "0 1 * * *": ["02:00"],
            "30 1 * * *": ["02:00"],
            "0 30 1,2 * * ?": ["02:00", "02:30"],
            "0 */30 * * * ?": ["00:00", "00:30", "02:00", "02:30", "03:00", "03:30"],
        },
    ),
    (
        "Europe/London, 02:00 becomes 01:00",
        "2026-10-24T23:00",  # 00:00 local
        4,
        {
            "0 1 * * *": ["01:00+0100"],
            "30 1 * * SUN": ["01:30+0100"],
            "0 */30 * * * ?": [
                *["00:00", "00:30", "01:00+0100", "01:30+0100"],
                *["01:00+0000", "01:30+0000", "02:00", "02:30"],
            ],
        },
    ),
    (
        "Australia/Lord_Howe, 02:00 becomes 02:30",
        "2026-10-03T13:30",  # 00:00 local
        4,
        {
            "0 2 * * *": ["02:30"],
            "15 2 * * *": ["02:30"],
            "30 2 * * *": ["02:30"],
            "45 2 * * *": ["02:45"],
            "0,15,30,45 2 * * *": ["02:30", "02:45"],
            "0 * * * *": ["00:00", "01:00", "03:00", "04:00"],
            "*/30 * * * *": ["00:00", "00:30", "01:00", "01:30", "02:30", "03:00", "03:30", "04:00"],
        },
    ),
    (
        "Australia/Lord_Howe, 02:00 becomes 01:30",
        "2026-04-04T13:00",  # 00:00 local
        3,
        {
            "30 1 * * *": ["01:30+1100"],
            "45 1 * * *": ["01:45+1100"],
            "15 1 * * *": ["01:15"],
            "0 2 * * *": ["02:00"],
            "*/30 * * * *": ["00:00", "00:30", "01:00", "01:30+1100", "01:30+1030", "02:00"],
        },
    ),
    (
        "Africa/Casablanca, Ramadan: 03:00 becomes 02:00",
        "2026-02-15T00:00",  # 01:00 local
        4,
        {
            "30 2 * * *": ["02:30+0100"],
            "0 3 * * *": ["03:00"],
            "30 * * * *": ["01:30", "02:30+0100", "02:30+0000", "03:30"],
        },
    ),
    (
        "Africa/Casablanca, after Ramadan: 02:00 becomes 03:00",
        "2026-03-22T00:00",
        4,
        {
            "30 2 * * *": ["03:00"],
            "30 2,3 * * *": ["03:00", "03:30"],
            "30 * * * *": ["00:30", "01:30", "03:30", "04:30"],
        },
    ),
    (
        "Africa/Casablanca, leaves UTC+1: 02:00 becomes 01:00",
        "2026-09-19T23:00",  # 00:00 local
        4,
        {
            "30 1 * * *": ["01:30+0100"],
            "30 * * * *": ["00:30", "01:30+0100", "01:30+0000", "02:30"],
        },
    ),
    (
        "Africa/Cairo, 00:00 becomes 01:00",
        "2026-04-23T21:00",  # 23:00 local
        3,
        {
            "30 0 * * *": ["01:00"],
            "0 0 24 4 *": ["01:00"],
            "0 */6 * * *": [],
        },
    ),
]
CASES = [
    pytest.param(name.partition(",")[0], start, hours, expr, clock, id=f"{name}: {expr}")
    for name, start, hours, table in NIGHTS
    for expr, clock in table.items()
]


@pytest.mark.parametrize(("name", "start", "hours", "expr", "clock"), CASES)
def test_night_of_a_change_fires_as_tabled(name, start, hours, expr, clock):
    first = datetime.fromisoformat(start).replace(tzinfo=UTC) - timedelta(seconds=1)
    found = parse(expr).between(first, first + timedelta(hours=hours), zone(name), 100)
    local = [fire.astimezone(zone(name)) for fire in found]
    assert [
        f"{at:%H:%M%z}" if "-" in text or "+" in text else f"{at:%H:%M}" for at, text in zip(local, clock, strict=True)
    ] == clock
    assert len(set(found)) == len(found)


def test_search_from_inside_a_repeated_hour():
    """From the second pass, the fires of the first pass are over."""
    york, cron = zone("America/New_York"), parse("*/20 1 * * *")
    second_pass = datetime(2026, 11, 1, 6, 10, tzinfo=UTC)
    assert cron.next_after(second_pass, york) == datetime(2026, 11, 2, 6, 0, tzinfo=UTC)


def test_night_that_repeats_yesterday_fires_yesterdays_rest():
    """Cairo's clock goes from midnight back to 23:00, into a day that the search has left behind."""
    cairo = zone("Africa/Cairo")
    late = parse("*/15 * * * THUL").between(
        datetime(2026, 10, 29, 20, 50, tzinfo=UTC), datetime(2026, 10, 30, 3, tzinfo=UTC), cairo, 10
    )
    assert [f"{fire.astimezone(cairo):%d %H:%M}" for fire in late] == ["29 23:00", "29 23:15", "29 23:30", "29 23:45"]


def test_day_that_samoa_left_out_fires_once():
    apia = zone("Pacific/Apia")
    found = parse("0 6,12 * * *").between(
        datetime(2011, 12, 29, 20, tzinfo=UTC), datetime(2011, 12, 31, 3, tzinfo=UTC), apia, 10
    )
    assert [f"{fire.astimezone(apia):%d %H:%M}" for fire in found] == ["29 12:00", "31 00:00", "31 06:00", "31 12:00"]
