"""Routing, limits and words of the fair queue."""

from __future__ import annotations

import pytest

from artiway.scheduling.lanes import LANES, Tier, WorkKind, route
from artiway.scheduling.model import (
    Completion,
    Lane,
    Node,
    Pool,
    TenantPolicy,
    Track,
    WaitingFor,
    charge_us,
    microseconds,
)


@pytest.mark.parametrize(
    ("tier", "seconds", "lane"),
    [
        (Tier.ENTERPRISE, 1, "enterprise_exclusive"),
        (Tier.ENTERPRISE, 300, "enterprise_exclusive"),
        (Tier.VIP, 29.999, "vip_short"),
        (Tier.VIP, 30, "vip_long"),
        (Tier.STANDARD, 6, "vip_short"),
        (Tier.STANDARD, 34, "vip_long"),
        (Tier.FREE, 1, "free_default"),
        (Tier.FREE, 300, "free_default"),
    ],
)
def test_pictures_are_routed_by_tier_and_expected_time(tier: Tier, seconds: float, lane: str) -> None:
    for is_paid in (True, False):
        assert route(tier=tier, is_paid=is_paid, expected_us=microseconds(seconds)) == lane


@pytest.mark.parametrize("work", [WorkKind.STREAM, WorkKind.BATCH, WorkKind.VISION])
def test_text_is_routed_by_its_payment(work: WorkKind) -> None:
    for tier in Tier:
        assert route(tier=tier, is_paid=True, expected_us=1, kind=work) == f"paid_{work}"
        assert route(tier=tier, is_paid=False, expected_us=1, kind=work) == f"free_{work}"


def test_every_route_leads_to_a_lane_that_exists() -> None:
    routes = {
        route(tier=tier, is_paid=is_paid, expected_us=microseconds(seconds), kind=work)
        for tier in Tier
        for is_paid in (True, False)
        for seconds in (1, 60)
        for work in WorkKind
    }
    assert routes == LANES.keys()


def test_lanes_have_their_pools_and_shares() -> None:
    assert [name for name, spec in LANES.items() if spec.pool == "enterprise"] == ["enterprise_exclusive"]
    halves = {name for name, spec in LANES.items() if spec.lane.share_percent == 50}
    assert halves == {"vip_long", "free_default"}
    assert {LANES[name].pool for name in halves} == {"gpu"}


def test_charge_is_rounded_up() -> None:
    assert charge_us(6_000_000, 5) == 1_200_000
    assert charge_us(10, 3) == 4
    assert charge_us(1, 10_000) == 1


def test_smaller_limit_of_a_lane_counts() -> None:
    half = Lane("free", share_percent=50)
    assert [half.limit(slots) for slots in (1, 2, 3, 8)] == [1, 1, 1, 4]
    assert Lane("free", parallelism=3, share_percent=50).limit(10) == 3
    assert Lane("free", parallelism=9, share_percent=50).limit(10) == 5


def test_blocked_track_names_the_operators_switch_first() -> None:
    track, busy = Track("model", "vip", "flux"), {Track("model", "free", "sdxl"): 2}
    assert Pool({"model": 3}).blocked_by(track, busy) is None
    assert Pool({"model": 2}).blocked_by(track, busy) is WaitingFor.TURN
    assert Pool({"model": 3}, capacity=2).blocked_by(track, busy) is WaitingFor.TURN
    assert Pool({"cutout": 3}).blocked_by(track, busy) is WaitingFor.NO_WORKER
    assert Pool({"model": 3}, models={"flux": 0}).blocked_by(track, busy) is WaitingFor.MODEL_CAP
    step, busy_step = Track("model", "vip", "flux", "scene"), {Track("model", "free", "sdxl", "scene"): 1}
    for limit in (0, 1):
        assert Pool({"model": 3}, steps={"scene": limit}).blocked_by(step, busy_step) is WaitingFor.CIRCUIT_OPEN
    assert Pool({"model": 3}, steps={"scene": 2}).blocked_by(step, busy_step) is None
    assert Pool({"model": 3}, steps={"style": 0}).blocked_by(step, busy_step) is None
    assert Pool({"model": 3}, {"vip": Lane("vip", parallelism=0)}).blocked_by(track, busy) is WaitingFor.LANE_CAP
    assert Pool({}, {"vip": Lane("vip", is_paused=True)}).blocked_by(track, busy) is WaitingFor.LANE_PAUSED


TRACK = Track("cutout", "vip_short")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Node("a|b", "t", "u", TRACK, 1),
        lambda: Node("", "t", "u", TRACK, 1),
        lambda: Node("n", "t\n", "u", TRACK, 1),
        lambda: Node("n", "t", "u" * 65, TRACK, 1),
        lambda: Node("n", "t", "u", TRACK, 0),
        lambda: Node("n", "t", "u", TRACK, True),
        lambda: Node("n", "t", "u", TRACK, 10**13),
        lambda: Track("cut out", "vip"),
        lambda: Track("cutout", ""),
        lambda: TenantPolicy("t", 0),
        lambda: TenantPolicy("t", 10_001),
        lambda: TenantPolicy("t", 1, cap=-1),
        lambda: Lane("vip", share_percent=0),
        lambda: Pool(slots={"cutout": -1}),
        lambda: Completion("n", -1),
    ],
)
def test_names_and_numbers_out_of_range_are_refused(make) -> None:
    with pytest.raises(ValueError):
        make()
