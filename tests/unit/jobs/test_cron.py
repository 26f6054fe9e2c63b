"""Cron expressions: dialects, refusals, special days, and the examples of Quartz's manual."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from artiway.jobs.cron import SINGLE_FIRE_S, InvalidSchedule, parse
from artiway.jobs.zones import zone

ZULU = zone("UTC")
# A Tuesday.
START = datetime(2026, 9, 1, 0, 0, tzinfo=UTC)


def fires(expr: str, count: int = 3, start: datetime = START) -> list[str]:
    found = parse(expr).upcoming(start - timedelta(seconds=1), ZULU, count)
    return [f"{fire:%Y-%m-%d %H:%M:%S}".removesuffix(":00") for fire in found]


# Quartz 2.x, "Cron Trigger Tutorial", its table of examples.
QUARTZ = [
    ("0 0 12 * * ?", ["2026-09-01 12:00", "2026-09-02 12:00", "2026-09-03 12:00"]),
    ("0 15 10 ? * *", ["2026-09-01 10:15", "2026-09-02 10:15", "2026-09-03 10:15"]),
    ("0 15 10 * * ?", ["2026-09-01 10:15", "2026-09-02 10:15", "2026-09-03 10:15"]),
    ("0 15 10 * * ? *", ["2026-09-01 10:15", "2026-09-02 10:15", "2026-09-03 10:15"]),
    ("0 15 10 * * ? 2027", ["2027-01-01 10:15", "2027-01-02 10:15", "2027-01-03 10:15"]),
    ("0 * 14 * * ?", ["2026-09-01 14:00", "2026-09-01 14:01", "2026-09-01 14:02"]),
    ("0 0/5 14 * * ?", ["2026-09-01 14:00", "2026-09-01 14:05", "2026-09-01 14:10"]),
    ("0 0/5 14,18 * * ?", ["2026-09-01 14:00", "2026-09-01 14:05", "2026-09-01 14:10"]),
    ("0 0-5 14 * * ?", ["2026-09-01 14:00", "2026-09-01 14:01", "2026-09-01 14:02"]),
    ("0 10,44 14 ? 3 WED", ["2027-03-03 14:10", "2027-03-03 14:44", "2027-03-10 14:10"]),
    ("0 15 10 ? * MON-FRI", ["2026-09-01 10:15", "2026-09-02 10:15", "2026-09-03 10:15"]),
    ("0 15 10 15 * ?", ["2026-09-15 10:15", "2026-10-15 10:15", "2026-11-15 10:15"]),
    ("0 15 10 L * ?", ["2026-09-30 10:15", "2026-10-31 10:15", "2026-11-30 10:15"]),
    ("0 15 10 L-2 * ?", ["2026-09-28 10:15", "2026-10-29 10:15", "2026-11-28 10:15"]),
    ("0 15 10 ? * 6L", ["2026-09-25 10:15", "2026-10-30 10:15", "2026-11-27 10:15"]),
    ("0 15 10 ? * 6L 2027-2030", ["2027-01-29 10:15", "2027-02-26 10:15", "2027-03-26 10:15"]),
    ("0 15 10 ? * 6#3", ["2026-09-18 10:15", "2026-10-16 10:15", "2026-11-20 10:15"]),
    ("0 0 12 1/5 * ?", ["2026-09-01 12:00", "2026-09-06 12:00", "2026-09-11 12:00"]),
    ("0 11 11 11 11 ?", ["2026-11-11 11:11", "2027-11-11 11:11", "2028-11-11 11:11"]),
]


@pytest.mark.parametrize(("expr", "expected"), QUARTZ)
def test_examples_of_quartz_fire_as_documented(expr, expected):
    assert fires(expr) == expected


# Vixie's crontab(5), and what SPEC and the dialects promise.
DIALECTS = [
    ("0 */5 * * * ?", ["2026-09-01 00:00", "2026-09-01 00:05", "2026-09-01 00:10"]),
    ("*/20 * * * * ?", ["2026-09-01 00:00", "2026-09-01 00:00:20", "2026-09-01 00:00:40"]),
    # Weekday numbers: 1 is Monday with five fields, Sunday with six.
    ("0 0 * * 1", ["2026-09-07 00:00", "2026-09-14 00:00", "2026-09-21 00:00"]),
    ("0 0 0 ? * 1", ["2026-09-06 00:00", "2026-09-13 00:00", "2026-09-20 00:00"]),
    ("0 0 0 ? * 2", ["2026-09-07 00:00", "2026-09-14 00:00", "2026-09-21 00:00"]),
    ("0 0 * * 0", ["2026-09-06 00:00", "2026-09-13 00:00", "2026-09-20 00:00"]),
    ("0 0 * * 7", ["2026-09-06 00:00", "2026-09-13 00:00", "2026-09-20 00:00"]),
    ("0 0 0 ? * L", ["2026-09-05 00:00", "2026-09-12 00:00", "2026-09-19 00:00"]),
    ("0 0 * * 5-7", ["2026-09-04 00:00", "2026-09-05 00:00", "2026-09-06 00:00"]),
    ("0 0 * * fri-mon", ["2026-09-04 00:00", "2026-09-05 00:00", "2026-09-06 00:00", "2026-09-07 00:00"]),
    ("0 0 0 ? * FRI-MON", ["2026-09-04 00:00", "2026-09-05 00:00", "2026-09-06 00:00", "2026-09-07 00:00"]),
    ("0 22-2 * * *", ["2026-09-01 00:00", "2026-09-01 01:00", "2026-09-01 02:00", "2026-09-01 22:00"]),
    ("0 0 1 NOV-FEB *", ["2026-11-01 00:00", "2026-12-01 00:00", "2027-01-01 00:00", "2027-02-01 00:00"]),
    # Both days restricted: either of them. A field that starts with `*` is no restriction: both of them.
    ("0 0 13 * FRI", ["2026-09-04 00:00", "2026-09-11 00:00", "2026-09-13 00:00"]),
    ("0 0 */2 * TUE", ["2026-09-01 00:00", "2026-09-15 00:00", "2026-09-29 00:00"]),
    ("0 0 1,L * *", ["2026-09-01 00:00", "2026-09-30 00:00", "2026-10-01 00:00"]),
    ("0 0 * * MON#1,FRIL", ["2026-09-07 00:00", "2026-09-25 00:00", "2026-10-05 00:00"]),
    ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
    ("0 0 * 2 SUN#5", ["2032-02-29 00:00", "2060-02-29 00:00", "2088-02-29 00:00"]),
    ("  0\t0  1 1   * ", ["2027-01-01 00:00", "2028-01-01 00:00"]),
]


@pytest.mark.parametrize(("expr", "expected"), DIALECTS)
def test_dialects_fire_as_documented(expr, expected):
    assert fires(expr, len(expected)) == expected


REFUSED = [
    ("", "expr", "0 fields"),
    ("* * * *", "expr", "4 fields"),
    ("* * * * * * * *", "expr", "8 fields"),
    ("@daily", "expr", "1 fields"),
    ("0 " * 70, "expr", "longer than 120"),
    ("60 * * * *", "minute", "60 is out of 0 to 59"),
    ("* 24 * * *", "hour", "24 is out of 0 to 23"),
    ("* * 0 * *", "dayOfMonth", "0 is out of 1 to 31"),
    ("* * * 13 *", "month", "13 is out of 1 to 12"),
    ("* * * * 8", "dayOfWeek", "8 is out of 0 to 7"),
    ("0 0 0 ? * 0", "dayOfWeek", "0 is out of 1 to 7"),
    ("0 0 0 ? * 8", "dayOfWeek", "8 is out of 1 to 7"),
    ("60 0 0 * * ?", "second", "60 is out of 0 to 59"),
    ("0 0 0 * * ? 2100", "year", "2100 is out of 1970 to 2099"),
    ("0 0 0 * * ? 2030-2026", "year", "ends before it starts"),
    ("*/0 * * * *", "minute", "step"),
    ("*/61 * * * *", "minute", "step"),
    ("*/ * * * *", "minute", "step"),
    ("/5 * * * *", "minute", "not a number"),
    ("1-2-3 * * * *", "minute", "not a number"),
    ("*-5 * * * *", "minute", "not a number"),
    ("5-* * * * *", "minute", "not a number"),
    ("1,,2 * * * *", "minute", "empty part"),
    ("-1 * * * *", "minute", "not a number"),
    ("+1 * * * *", "minute", "not a number"),
    ("１ * * * *", "minute", "not a number"),
    ("1.5 * * * *", "minute", "not a number"),
    ("* * * FOO *", "month", "JAN-DEC"),
    ("* * * * FOO", "dayOfWeek", "SUN-SAT"),
    ("MON * * * *", "minute", "not a number"),
    ("L * * * *", "minute", "day fields only"),
    ("* * * 1#2 *", "month", "day fields only"),
    ("* * 1#2 * *", "dayOfMonth", "day fields only"),
    ("0 0 15W * *", "dayOfMonth", "`W` (nearest working day) is not supported"),
    ("0 0 0 LW * ?", "dayOfMonth", "`W` (nearest working day) is not supported"),
    ("0 0 0 W * ?", "dayOfMonth", "`W` (nearest working day) is not supported"),
    ("0 0 L-31 * *", "dayOfMonth", "L-3"),
    ("0 0 L/2 * *", "dayOfMonth", "L-3"),
    ("0 0 L- * *", "dayOfMonth", "L-3"),
    ("0 0 * * 5#6", "dayOfWeek", "1 to 5"),
    ("0 0 * * 5#0", "dayOfWeek", "1 to 5"),
    ("0 0 * * #2", "dayOfWeek", "not a number"),
    ("0 0 * * L", "dayOfWeek", "Quartz only"),
    ("0 0 ? * *", "dayOfMonth", "6 or 7 fields"),
    ("0 0 * * ?", "dayOfWeek", "6 or 7 fields"),
    ("? 0 0 * * *", "second", "6 or 7 fields"),
    ("0 0 0 ? * ?", "dayOfWeek", "not in both"),
    ("0 0 0 1 * MON", "dayOfWeek", "both are restricted"),
    ("0 0 0 */2 * MON", "dayOfWeek", "both are restricted"),
    ("0 0 0 1,? * *", "dayOfMonth", "not a number"),
    ("0 0 30 2 *", "dayOfMonth", "no day of any year"),
    ("0 0 31 2,4,6,9,11 *", "dayOfMonth", "no day of any year"),
    ("0 0 0 29 2 ? 2027", "dayOfMonth", "no day of any year"),
    ("0 0 0 ? 2 1#5 2026-2030", "dayOfMonth", "no day of any year"),
    ("0 0 0 L-30 2,4 ?", "dayOfMonth", "no day of any year"),
]


@pytest.mark.parametrize(("expr", "field", "reason"), REFUSED)
def test_bad_expression_is_refused_by_field(expr, field, reason):
    with pytest.raises(InvalidSchedule) as refused:
        parse(expr)
    assert refused.value.status == 422
    assert refused.value.details["field"] == field
    assert reason in refused.value.details["reason"]
    assert refused.value.message == f"{field}: {refused.value.details['reason']}"


def test_years_of_an_expression_end():
    cron = parse("0 0 0 1 1 ? 2026,2028")
    assert [fire.year for fire in cron.upcoming(START.replace(year=2020), ZULU, 10)] == [2026, 2028]
    assert cron.next_after(datetime(2028, 1, 1, tzinfo=UTC), ZULU) is None
    assert cron.between(START, START.replace(year=2090), ZULU, 10) == [datetime(2028, 1, 1, tzinfo=UTC)]


def test_next_is_strictly_after_to_the_fraction():
    cron = parse("0 0 * * *")
    midnight = datetime(2026, 9, 2, tzinfo=UTC)
    assert cron.next_after(midnight - timedelta(microseconds=1), ZULU) == midnight
    assert cron.next_after(midnight, ZULU) == midnight + timedelta(days=1)
    assert cron.next_after(midnight + timedelta(microseconds=1), ZULU) == midnight + timedelta(days=1)


def test_naive_instants_are_refused():
    with pytest.raises(ValueError, match="time zone"):
        parse("* * * * *").next_after(datetime(2026, 9, 1), ZULU)  # noqa: DTZ001


def test_between_includes_its_end_and_limit():
    cron = parse("*/10 * * * *")
    hour = START + timedelta(hours=1)
    assert len(cron.between(START, hour, ZULU, 100)) == 6
    assert cron.between(START, hour, ZULU, 100)[-1] == hour
    assert len(cron.between(START, hour, ZULU, 4)) == 4
    assert cron.between(START, hour, ZULU, 0) == []
    assert cron.between(hour, START, ZULU, 100) == []


def test_equal_text_is_an_equal_expression():
    assert parse(" 0 0 * *  mon ") == parse("0 0 * * MON")
    assert len({parse("0 0 * * mon"), parse("0 0 * * MON"), parse("0 0 * * TUE")}) == 2
    assert parse("0 0 * * mon").expr == "0 0 * * MON"
    assert [parse(expr).fields for expr in ("* * * * *", "* * * * * ?", "* * * * * ? *")] == [5, 6, 7]


PERIODS = [
    ("* * * * * ?", 1),
    ("*/7 * * * * ?", 4),
    ("0,50 * * * * ?", 10),
    ("0 */5 * * * ?", 300),
    ("*/7 * * * *", 240),
    ("59 * * * *", 3600),
    ("0,59 0 * * *", 59 * 60),
    ("0,59 * * * *", 60),
    ("30 2 * * *", 86_400),
    ("0 0,23 * * *", 3600),
    ("0 0,23 * * MON", 23 * 3600),
    ("0 0 * * MON", 7 * 86_400),
    ("0 0 1,L * *", 86_400),
    ("0 0 L 2 *", 365 * 86_400),
    ("0 0 29 2 *", 1461 * 86_400),
    ("0 0 0 1 1 ? 2027", SINGLE_FIRE_S),
    ("0 0 0,12 1 1 ? 2027", 12 * 3600),
]


@pytest.mark.parametrize(("expr", "period_s"), PERIODS)
def test_shortest_period_is_exact(expr, period_s):
    assert parse(expr).shortest_period_s() == period_s
