"""However many tenants and nodes there are, a minute has a bounded number of rows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artiway.series.settings import TOP_TENANTS
from artiway.settings.model import Fixed
from tests.integration.series.conftest import POOLS, Bare


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    busy=st.lists(st.integers(1, 60_000), min_size=1, max_size=60),
    top=st.integers(1, 20),
    pools=st.lists(st.sampled_from(POOLS), min_size=60, max_size=60),
)
def test_rows_of_a_minute_are_few(bare: Bare, busy: list[int], top: int, pools: list[str]):
    bare.fill([(pool, ms) for pool, ms in zip(pools, busy, strict=False)])
    bare.service(Fixed({TOP_TENANTS: top})).close_minutes()
    rows = bare.rows("SELECT name, labels, value FROM series_minute")
    counted = Counter(row["name"] for row in rows)
    assert counted.pop("share") <= 2 * (top + 1)
    assert counted.pop("node_duration") == 1
    assert max(counted.values()) <= 24  # six objectives in four windows
    shown = sum(row["value"] for row in rows if row["name"] == "share")
    assert shown == pytest.approx(sum(busy) / 1_000)
    own = {row["labels"]["tenantId"] for row in rows if row["name"] == "share"} - {"other"}
    assert len(own) <= 2 * top
