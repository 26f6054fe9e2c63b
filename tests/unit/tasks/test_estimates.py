"""The expected start and end of a task, from measured durations and a pool's forecast."""

from __future__ import annotations

from typing import Any

import pytest

from artiway.scheduling.forecast import Forecast, Speed, compute
from artiway.scheduling.model import (
    Backlog,
    Lane,
    Pool,
    Priority,
    TenantBacklog,
    TenantPolicy,
    Track,
    TrackBacklog,
    microseconds,
)
from artiway.tasks.durations import Durations
from artiway.tasks.estimates import Timing, timing
from artiway.tasks.model import Plan, PlannedNode, TenantLimits

LANE = "vip_short"
LIMITS = TenantLimits("vip", "ACTIVE", weight=5, concurrency=10, queue_depth=100, artefact_days=7)
UNMEASURED = Durations()


def forecast(
    slots: int = 1, *, is_paused: bool = False, waiting: int = 0, running: int = 0, tenant: str = "me"
) -> Forecast:
    kinds = dict.fromkeys(("cutout", "model", "compose"), slots)
    work = TrackBacklog(waiting, waiting * microseconds(6), 0, running, running * microseconds(6))
    other = TenantBacklog(TenantPolicy("other"), 0, 0, running, {Track("cutout", LANE, "segment", "cutout"): work})
    pool = Pool(kinds, {LANE: Lane(LANE, is_paused=is_paused)})
    made = compute(Backlog(0, pool, {}, {"other": other}), Speed())
    return Forecast(made.tables, made.rows.get(tenant, {}))


def node(name: str, kind: str, step: str, cost_s: int, *before: str) -> PlannedNode:
    model = "segment" if kind == "cutout" else ""
    return PlannedNode(name, kind, step, depends_on=before, cost_us=microseconds(cost_s), model=model)


def photos(count: int) -> Plan:
    parts = [
        made
        for n in range(count)
        for made in (
            node(f"model_{n}", "model", "figure", 8, "cutout"),
            node(f"compose_{n}", "compose", "compose", 4, f"model_{n}"),
        )
    ]
    return Plan("model_photo", (node("cutout", "cutout", "cutout", 6), *parts))


def estimate(
    plan: Plan,
    pool: Forecast,
    durations: Durations = UNMEASURED,
    *,
    priority: Priority = Priority.NORMAL,
    **changes: Any,
) -> Timing:
    limits = TenantLimits(**{**vars(LIMITS), **changes})
    return timing(plan, limits=limits, lane=LANE, priority=priority, forecast=pool, durations=durations)


def test_idle_pool_takes_the_critical_path() -> None:
    assert estimate(photos(1), forecast()) == Timing(0, 6 + 8 + 4)


def test_own_nodes_wait_for_one_another() -> None:
    assert estimate(photos(3), forecast(slots=1)) == Timing(0, 6 + 3 * 8 + 4)
    assert estimate(photos(3), forecast(slots=3)) == Timing(0, 6 + 8 + 4)
    assert estimate(photos(3), forecast(slots=3), concurrency=1) == Timing(0, 6 + 3 * (8 + 4))


def test_queue_delays_the_start() -> None:
    found = estimate(photos(1), forecast(waiting=4, running=1), weight=1)
    assert found.start_s is not None
    assert found.end_s is not None
    assert 3 <= found.start_s <= 12
    assert found.end_s == found.start_s + 18


def test_high_priority_passes_own_backlog_only() -> None:
    def ends(tenant: str) -> list[int]:
        pool = forecast(waiting=20, running=1, tenant=tenant)
        found = [estimate(photos(1), pool, weight=1, priority=p).end_s for p in (Priority.NORMAL, Priority.HIGH)]
        return [end_s for end_s in found if end_s is not None]

    normal, high = ends("other")
    assert normal > 100 > high
    assert len(set(ends("me"))) == 1


def test_measured_durations_replace_the_catalogue() -> None:
    rows = [
        {"step": "cutout", "type": "cutout", "run_us": 1e6, "scale": 1 / 6, "ready_us": None, "claim_us": 0},
        {"step": None, "type": "cutout", "run_us": 1e6, "scale": 1 / 6, "ready_us": None, "claim_us": 0},
        {"step": None, "type": None, "run_us": 1e6, "scale": 0.5, "ready_us": 5e5, "claim_us": 25e4},
    ]
    durations = Durations.measured({"rows": rows, "lateness": {"samples": 0, "ratio": None}, "demand": []})
    assert durations.of("cutout", "cutout", microseconds(6)) == 1e6
    assert durations.of("crop", "cutout", microseconds(6)) == pytest.approx(1e6)
    assert durations.of("figure", "model", microseconds(8)) == 4e6
    assert durations.speed({"cutout": microseconds(6)}, prefetch=1).scale("cutout") == pytest.approx(1.25 / 6)
    assert estimate(photos(1), forecast(), durations) == Timing(1, round(1 + 4 + 2 + 3 * 0.75))


@pytest.mark.parametrize(
    ("samples", "ratio", "expected"), [(0, None, 1), (10, 4.0, 2), (1_000, 2.0, 2), (1_000, 99.0, 4)]
)
def test_late_promises_lengthen_the_next(samples: int, ratio: float | None, expected: float) -> None:
    steps = [
        {"step": step, "type": kind, "run_us": 1e6, "scale": 1.0, "ready_us": 0, "claim_us": 0}
        for kind, step in (("cutout", "cutout"), ("model", "figure"), ("compose", "compose"), (None, None))
    ]
    durations = Durations.measured({"rows": steps, "lateness": {"samples": samples, "ratio": ratio}, "demand": []})
    assert durations.lateness == pytest.approx(expected, rel=0.01)
    found = estimate(photos(1), forecast(), durations)
    assert found.end_s == round(3 * durations.lateness)
    assert found.model_s == 3


class TestNoStart:
    def test_paused_lane_has_no_expected_start(self) -> None:
        found = estimate(photos(1), forecast(is_paused=True))
        assert (found.start_s, found.end_s) == (None, None)
        assert found.detail == "the lane is paused by an operator: there is no expected start"

    def test_type_without_worker_has_none(self) -> None:
        found = estimate(Plan("hd", (node("hd", "hd_fix", "hd", 12),)), forecast())
        assert (found.start_s, found.end_s) == (None, None)
        assert found.detail == "no worker serves hd_fix now: there is no expected start"

    def test_suspended_tenant_has_none(self) -> None:
        assert estimate(photos(1), forecast(), concurrency=0).end_s is None
