"""The page for Prometheus, read by Prometheus's own parser."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from artiway.series import openmetrics
from artiway.series.model import SERIES, Point

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LABELS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n"\\'), max_size=20)


@given(st.lists(st.tuples(LABELS, st.floats(-1e9, 1e9)), max_size=5, unique_by=lambda pair: pair[0]))
def test_parser_reads_what_was_written(found: list[tuple[str, float]]):
    points = [Point(NOON, value, {"pool": "gpu", "tenantId": label}) for label, value in found]
    page = openmetrics.page([(SERIES["share"], points)], closed=NOON)
    families = {family.name: family for family in text_string_to_metric_families(page.text)}
    samples = families["artiway_share"].samples
    assert [(one.labels["tenant_id"], one.value) for one in samples] == [(label, value) for label, value in found]
    (closed,) = families["artiway_series_closed_seconds"].samples
    assert closed.value == NOON.timestamp()


def test_every_measured_series_has_a_family():
    page = openmetrics.page([(series, [Point(NOON, 1, {})]) for series in SERIES.values()], closed=NOON)
    families = {family.name: family for family in text_string_to_metric_families(page.text)}
    assert {name for name in families if name.startswith("artiway_wait_p")} == {
        "artiway_wait_p50_seconds",
        "artiway_wait_p95_seconds",
    }
    assert len(families) == 1 + sum(series.is_measured for series in SERIES.values())
    assert all(family.type == "gauge" and family.documentation for family in families.values())
    assert page.text.endswith("# EOF\n")
