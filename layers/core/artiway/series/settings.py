"""Live settings of the series and of the service levels."""

from __future__ import annotations

from artiway.settings.model import Setting

# Two days at least: the daily sums of yesterday and today are made from their minutes.
KEEP_DAYS = Setting("series.keep_days", 7, "days that minute aggregates are kept", minimum=2, maximum=30)
TOP_TENANTS = Setting(
    "series.top_tenants", 10, "tenants of a pool with a share of their own; the others are one", minimum=1, maximum=20
)
AVAILABILITY_PERCENT = Setting(
    "service_levels.availability_percent",
    99.95,
    "requests that are not answered by a 5xx status, in percent",
    minimum=90.0,
    maximum=99.999,
)


def _wait(lane: str, seconds: float) -> Setting[float]:
    words = f"seconds within which 95 % of the nodes of lane {lane} start once they are ready"
    return Setting(f"service_levels.wait_s.{lane}", seconds, words, minimum=0.1, maximum=86_400.0)


WAIT_S = {
    lane: _wait(lane, seconds)
    for lane, seconds in (
        ("enterprise_exclusive", 10.0),
        ("vip_short", 30.0),
        ("vip_long", 120.0),
        ("free_default", 600.0),
    )
}
