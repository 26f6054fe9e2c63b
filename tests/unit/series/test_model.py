"""Minutes, steps and percentiles."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.errors import Refused
from artiway.series.model import (
    CATCH_UP,
    CLOSE_DELAY,
    GROWTH,
    MINUTE,
    MOST_STEPS,
    SERIES,
    Merge,
    Outcomes,
    Row,
    ceiling,
    floor,
    next_minute,
    points_of,
    quantile,
)
from artiway.series.service import _range

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 (hypothesis adds it)
SECONDS = st.floats(0.001, 100_000)


def bucket_of(seconds: float) -> str:
    """As the SQL does."""
    return str(math.ceil(math.log(seconds) / math.log(GROWTH)))


@given(st.lists(SECONDS, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentile_is_close_to_the_exact_one(values: list[float], share: float):
    buckets: dict[str, int] = {}
    for value in values:
        buckets[bucket_of(value)] = buckets.get(bucket_of(value), 0) + 1
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    assert quantile(buckets, share) == pytest.approx(exact, rel=0.0251)


@given(TIMES, st.integers(0, 3_000))
def test_closed_minute_is_over_and_recent(closed: datetime, seconds: int):
    closed_until = floor(closed, MINUTE)
    now = closed_until + timedelta(seconds=seconds)
    minute = next_minute(closed_until, now)
    if minute is None:
        assert now < closed_until + MINUTE + CLOSE_DELAY
    else:
        assert minute >= closed_until
        assert minute == floor(minute, MINUTE)
        assert now - CATCH_UP - MINUTE <= minute <= now - MINUTE - CLOSE_DELAY


@given(TIMES, st.integers(1, 30 * 86_400))
def test_default_step_covers_any_range(since: datetime, seconds: int):
    until = since + timedelta(seconds=seconds)
    wanted = _range(since, until, None)
    assert wanted.since <= since < until <= wanted.until
    assert (wanted.until - wanted.since) // wanted.step <= MOST_STEPS
    assert wanted.step % MINUTE == timedelta()


@given(TIMES, st.integers(1, 30 * 86_400), st.integers(1, 1_440))
def test_accepted_range_has_a_bounded_size(since: datetime, seconds: int, minutes: int):
    until = since + timedelta(seconds=seconds)
    step = minutes * MINUTE
    first, last = floor(since, step), ceiling(until, step)
    if (last - first) // step > MOST_STEPS:
        with pytest.raises(Refused, match="not valid"):
            _range(since, until, 60 * minutes)
    else:
        wanted = _range(since, until, 60 * minutes)
        assert (wanted.since, wanted.until, wanted.step) == (first, last, step)


@pytest.mark.parametrize(
    ("since", "step_s", "field"), [(NOON, 60, "from"), (NOON - MINUTE, 61, "step"), (NOON - 721 * MINUTE, 60, "step")]
)
def test_impossible_range_names_its_field(since: datetime, step_s: int, field: str):
    with pytest.raises(Refused) as refusal:
        _range(since, NOON, step_s)
    assert refusal.value.details["fields"][0]["field"] == field


def test_ratio_without_denominator_has_no_point():
    rows = [Row(NOON, {"pool": "gpu"}, total=0, weight=0), Row(NOON + MINUTE, {"pool": "gpu"}, total=30, weight=60)]
    assert [point.value for point in points_of(SERIES["utilisation"], rows)] == [0.5]


def test_shares_are_of_their_own_pool():
    rows = [
        Row(NOON, {"pool": "gpu", "tenantId": "a"}, total=30),
        Row(NOON, {"pool": "gpu", "tenantId": "other"}, total=10),
        Row(NOON, {"pool": "enterprise", "tenantId": "a"}, total=5),
    ]
    assert [point.value for point in points_of(SERIES["share"], rows)] == [0.75, 0.25, 1]


def test_every_name_of_the_contract_is_known():
    names = (
        "throughput waiting running wait_p50 wait_p95 failures utilisation share trigger_latency_p95 run_backlog"
        " tokens_per_second first_token_p95 dead_letters"
    )
    assert set(names.split()) <= SERIES.keys()
    assert all(SERIES[name].is_measured for name in names.split())


def test_percentiles_have_a_share_of_values():
    assert all(0 < one.quantile < 1 for one in SERIES.values() if one.merge is Merge.QUANTILE and one.is_measured)


@pytest.mark.parametrize(
    ("good", "total", "burn"), [(0, 0, 0), (9_995, 10_000, 1), (9_928, 10_000, 14.4), (0, 1, 2_000)]
)
def test_burn_rate_is_failures_against_the_budget(good: int, total: int, burn: float):
    assert Outcomes(good, total).burn(0.9995) == pytest.approx(burn)
