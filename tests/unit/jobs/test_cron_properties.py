"""Properties of every valid expression, and cronsim as an oracle for five fields."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from artiway.jobs.cron import EXPRESSION_MAX, InvalidSchedule, parse
from artiway.jobs.words import describe
from artiway.jobs.zones import names, zone
from tests.conftest import soaked
from tests.unit.jobs.expressions import expression

INSTANTS = st.datetimes(datetime(1975, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
ZONES = st.sampled_from(sorted(names()))
SEEDS = st.integers(0, 2**32)


def valid(seed: int):
    random = Random(seed)
    while True:
        try:
            return parse(expression(random).text)
        except InvalidSchedule:  # it matches no day
            continue


@given(seed=SEEDS, at=INSTANTS, name=ZONES)
def test_fires_are_later_ordered_and_consistent(seed, at, name):
    cron, where = valid(seed), zone(name)
    fires = cron.upcoming(at, where, 4)
    assert all(fire.tzinfo is UTC and fire.microsecond == 0 for fire in fires)
    assert all(before < after for before, after in pairwise([at, *fires]))
    for before, after in pairwise([at, *fires]):
        assert cron.next_after(before, where) == after
        # From anywhere between two fires, the next one is the same.
        assert cron.next_after(before + (after - before) / 2, where) == after
        assert cron.next_after(after - timedelta(microseconds=1), where) == after


@given(seed=SEEDS, at=INSTANTS)
def test_no_two_fires_are_closer_than_promised(seed, at):
    cron = valid(seed)
    fires = cron.upcoming(at, zone("UTC"), 20)
    # Fires that are years apart, as of 29 February on one weekday, move closer together around 2100.
    period = min(timedelta(seconds=cron.shortest_period_s()), timedelta(days=365))
    assert all(after - before >= period for before, after in pairwise(fires))


@given(seed=SEEDS, name=ZONES)
def test_every_valid_expression_has_words(seed, name):
    cron = valid(seed)
    english, chinese = describe(cron, name, "en"), describe(cron, name, "zh")
    assert english.endswith(f" ({name})")
    assert chinese.endswith(f"（{name}）")
    assert english.isascii()
    assert english[0].isupper() or english[0].isdigit()
    for text in (english, chinese):
        assert "  " not in text
        assert "{" not in text


@given(text=st.text(max_size=2 * EXPRESSION_MAX) | st.text("0123456789*/-,?LW#MONJAN ", max_size=40))
def test_any_text_parses_or_is_refused(text):
    try:
        cron = parse(text)
    except InvalidSchedule as refused:
        if not (refused.field and refused.reason):
            pytest.fail(f"{text!r} is refused without a reason")
        return
    assert cron.upcoming(datetime(1969, 1, 1, tzinfo=UTC), zone("UTC"), 1)
    assert describe(cron, "UTC", "zh")


ORACLE_ZONES = ("UTC", "America/New_York", "Europe/London", "Africa/Casablanca", "Asia/Shanghai")


@pytest.mark.soak
@pytest.mark.parametrize("name", ORACLE_ZONES)
def test_five_fields_agree_with_cronsim(name):
    random, where, compared = Random(name), zone(name), 0
    for _ in range(soaked(300)):
        one = expression(random, fields=5, is_simple=True)
        minute, hour = one.text.split()[:2]
        # Debian's rule differs: a `*` minute in a fixed hour, and all hours named one by one.
        if name != "UTC" and hour[0] != "*" and (minute[0] == "*" or one.is_elapsed):
            continue
        try:
            cron = parse(one.text)
        except InvalidSchedule:
            continue
        start = datetime(2026, random.choice((2, 3, 9, 10)), random.randint(1, 28), 12, tzinfo=UTC)
        oracle = CronSim(one.text, start.astimezone(where) if name != "UTC" else start)
        expected = [next(oracle).astimezone(UTC) for _ in range(60)]
        assert cron.upcoming(start, where, 60) == expected, f"{one.text} in {name} from {start}"
        compared += 1
    assert compared > 100


def test_import_is_light():
    """The trigger and the API import schedules at each cold start: nothing beyond the standard library and tzdata."""
    script = (
        "import sys; before = set(sys.modules); import artiway.jobs.cron, artiway.jobs.zones, artiway.jobs.words;"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names);"
        "print(sorted(name for name in names if not name.startswith('_')))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "layers/core")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.strip() == "['artiway', 'tzdata']"
