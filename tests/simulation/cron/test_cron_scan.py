"""Random expressions against a scan of every minute of a year and every second of the days around DST changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from artiway.jobs.cron import InvalidSchedule, parse
from artiway.jobs.zones import zone
from tests.conftest import soaked
from tests.simulation.cron.scan import Span, changes
from tests.unit.jobs.expressions import Expression, expression

# Gaps and repeated hours at 2:00, at 1:00, of 30 minutes, in and after Ramadan, and at midnight.
ZONES = ("America/New_York", "Europe/London", "Australia/Lord_Howe", "Africa/Casablanca", "Africa/Cairo")
EXPRESSIONS = soaked(2_000)
START, END = datetime(2026, 1, 2, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
# More fires than this are compared in parts of the span.
COMPARED = 150


def expressions() -> list[Expression]:
    random = Random(20_261_117)
    return [expression(random) for _ in range(EXPRESSIONS)]


def windows(span: Span, one: Expression, random: Random) -> list[tuple[datetime, datetime]]:
    """The whole span if it has few fires, else parts of it with about so many."""
    length, count = span.end - span.start, span.count(one)
    if count <= COMPARED:
        return [(span.start, span.end - span.step)]
    part = max(length * COMPARED / (count * 5), timedelta(minutes=1))
    middle, hour = span.start + length / 2, timedelta(hours=1)
    middles = [span.start + part / 2 + (length - part) * random.random() for _ in range(2)]
    return [(at - part / 2, at + part / 2) for at in [*middles, middle - hour, middle, middle + hour]]


def compare(span: Span, where: ZoneInfo, every: list[Expression], random: Random) -> int:
    compared = 0
    for one in every:
        try:
            cron = parse(one.text)
        except InvalidSchedule as refused:
            if span.count(one) or "no day of any year" not in refused.reason:
                pytest.fail(f"{one.text} is refused: {refused}")
            continue
        for start, end in windows(span, one, random):
            expected, found = span.fires(one, start, end), cron.between(start, end, where, 100_000)
            assert found == expected, f"{one.text} in {where.key} from {start} to {end}"
            compared += len(found)
    return compared


@pytest.mark.soak
@pytest.mark.parametrize("name", ZONES)
def test_fires_match_a_scan_by_minutes(name):
    where, random = zone(name), Random(name)
    span = Span(where, START, END, timedelta(minutes=1))
    assert compare(span, where, expressions(), random) > 40 * EXPRESSIONS


@pytest.mark.soak
@pytest.mark.parametrize("name", ZONES)
def test_fires_match_a_scan_by_seconds(name):
    where, random = zone(name), Random(name)
    found = changes(where, START, END)
    assert len(found) >= 2
    day = timedelta(days=1)
    for change in found:
        span = Span(where, change - day, change + day, timedelta(seconds=1))
        assert compare(span, where, expressions(), random) > 10 * EXPRESSIONS
