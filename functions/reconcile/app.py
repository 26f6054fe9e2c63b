"""Queries open orders every few minutes, compares the bill every day, and removes expired points."""

from __future__ import annotations

from datetime import date
from typing import Any

from artiway import bootstrap
from artiway.platform import metrics, tracing
from artiway.platform.logs import Logger

logger = Logger("reconcile")


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """By schedule or by hand: `{"action": "orders" | "bill" | "lapse"}`.

    By hand also `"early": true` to query orders that are not due yet, `"day": "2026-03-01"` to compare a day again.
    """
    action = event.get("action", "orders")
    with tracing.traced(None):
        done = _perform(action, event)
        bootstrap.alerts().deliver()
    logger.info("reconciled", action=action, extra=done)
    return done


def _perform(action: str, event: dict[str, Any]) -> dict[str, Any]:
    match action:
        case "orders":
            done = bootstrap.order_sweep().run(is_early=bool(event.get("early")))
            metrics.emit("OrdersUnknown", done["unknown"])
            return done
        case "bill":
            day = date.fromisoformat(event["day"]) if "day" in event else None
            return bootstrap.reconciliation().run(day)
        case "lapse":
            return {"lapsed": _lapse()}
        case _:
            raise ValueError(f"unknown action {action!r}: orders, bill or lapse")


def _lapse() -> int:
    found = bootstrap.points_overview().users_to_lapse(
        now=bootstrap.clock().now(), limit=bootstrap.settings().lapse_batch
    )
    return sum(bootstrap.points().lapse(tenant_id=tenant_id, user_id=user_id) for tenant_id, user_id in found)
