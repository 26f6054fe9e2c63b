"""The sweepers: each half minute for what runs, every five minutes for what was missed, at night for what expired.

Each minute the invariants of what changed, at night all of them. A deployment begins the first passes by itself: what
stood still does not wait for a schedule.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from artiway import bootstrap
from artiway.platform import metrics, tracing
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from artiway.recovery.model import Health

logger = Logger("watchdog")
POOLS = ("gpu", "enterprise")


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """`{"pass": "quick" | "slow" | "expire" | "changes" | "invariants"}`; with `"once": true` quick is not repeated."""
    with tracing.traced(None):
        match event["pass"]:
            case "quick":
                return _quick(is_once=bool(event.get("once")))
            case "slow":
                return _slow()
            case "expire":
                return {"expired": bootstrap.sweeper().expire_objects()}
            case "changes":
                return _verdict(bootstrap.invariants().check_changes())
            case "invariants":
                return _verdict(bootstrap.invariants().check())
            case other:
                raise ValueError(f"unknown pass {other!r}: quick, slow, expire, changes or invariants")


def _verdict(health: Health) -> dict[str, Any]:
    return {"ok": health.is_ok, "broken": [check.name for check in health.checks if not check.is_ok]}


def _quick(*, is_once: bool) -> dict[str, Any]:
    settings = bootstrap.settings()
    deadline = time.monotonic() + (0 if is_once else settings.watchdog_work_s)
    while True:
        counts = bootstrap.sweeper().quick()
        for pool in POOLS:
            _reconcile(pool)
        _measure()
        logger.info("swept", **counts)
        if time.monotonic() + settings.watchdog_interval_s >= deadline:
            return counts
        time.sleep(settings.watchdog_interval_s)


def _reconcile(pool: str) -> None:
    """One pool's trouble is no other's."""
    try:
        bootstrap.scheduler().reconcile(pool)
    except Exception:
        logger.exception("pool not reconciled", pool=pool)
        metrics.emit("SweepFailures", 1, sweep="reconcile")


def _measure() -> None:
    try:
        bootstrap.operations().measure()
    except Exception:
        logger.exception("pools not measured")  # silence raises the alarm


def _slow() -> dict[str, Any]:
    counts = bootstrap.sweeper().slow()
    counts["deliveries"] = bootstrap.publish_due_deliveries()
    logger.info("swept", **counts)
    return counts
