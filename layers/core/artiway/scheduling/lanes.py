"""Lanes and the one function that routes to them (R-LAN-1). Order between tenants is the clock's, not the lane's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from artiway.scheduling.model import Lane, microseconds

LONG_US = microseconds(30)


class Tier(StrEnum):
    ENTERPRISE = "enterprise"
    VIP = "vip"
    STANDARD = "standard"
    FREE = "free"


class WorkKind(StrEnum):
    """What kind of work is routed: pictures, or the three kinds of text and vision requests."""

    IMAGE = "image"
    STREAM = "stream"
    BATCH = "batch"
    VISION = "vision"


@dataclass(frozen=True, slots=True)
class LaneSpec:
    lane: Lane
    pool: str


LANES = {
    spec.lane.name: spec
    for spec in (
        LaneSpec(Lane("enterprise_exclusive"), "enterprise"),
        LaneSpec(Lane("vip_short"), "gpu"),
        LaneSpec(Lane("vip_long", share_percent=50), "gpu"),
        LaneSpec(Lane("free_default", share_percent=50), "gpu"),
        *(
            LaneSpec(Lane(f"{who}_{what}"), "text")
            for what in ("stream", "batch", "vision")
            for who in ("paid", "free")
        ),
    )
}


def route(*, tier: Tier, is_paid: bool, expected_us: int, kind: WorkKind = WorkKind.IMAGE) -> str:
    """The lane of a node. For pictures the tier decides, then the expected time; for text, whether it is paid for."""
    if kind is not WorkKind.IMAGE:
        return f"{'paid' if is_paid else 'free'}_{kind}"
    if tier is Tier.ENTERPRISE:
        return "enterprise_exclusive"
    if tier is Tier.FREE:
        return "free_default"
    return "vip_long" if expected_us >= LONG_US else "vip_short"
