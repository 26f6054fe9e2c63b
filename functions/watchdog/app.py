"""The sweeps: every half minute for running nodes, every five minutes for missed changes, at night for expired objects
and for days of runs that move to the archive.

Each minute finished rows leave after their time, minute aggregates are written, the invariants of changed rows are
checked, and the public address is requested as by a client; at night the invariants of the next part of all rows are
checked. A deployment starts the first passes, so that overdue rows do not wait for the schedule.
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
HTTP_POOL = "http"  # without a fair queue
PASSES = ("quick", "slow", "series", "expire", "retention", "changes", "invariants", "front_door", "archive")


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """`{"pass": name}` with one of `PASSES`.

    With `"once": true` quick is not repeated. With `"full": true` invariants checks every row.
    """
    with tracing.traced(None):
        match event["pass"]:
            case "quick":
                return _quick(is_once=bool(event.get("once")))
            case "slow":
                return _slow()
            case "series":
                return bootstrap.series().close_minutes()
            case "expire":
                return {"expired": bootstrap.sweeper().expire_objects()}
            case "retention":
                return _retain()
            case "changes":
                return _verdict(bootstrap.invariants().check_changes())
            case "invariants" if event.get("full"):
                return _verdict(bootstrap.invariants().check())
            case "invariants":
                return _verdict(bootstrap.invariants().check_slice(within_s=bootstrap.settings().invariant_work_s))
            case "archive":
                return bootstrap.run_archive().run(within_s=bootstrap.settings().archive_work_s)
            case "front_door":
                return {"ok": bootstrap.front_door().check()}
            case other:
                raise ValueError(f"unknown pass {other!r}: {', '.join(PASSES)}")


def _retain() -> dict[str, Any]:
    deleted = bootstrap.retention().run(within_s=bootstrap.settings().retention_work_s)
    logger.info("rows purged", extra=deleted)
    return deleted


def _verdict(health: Health) -> dict[str, Any]:
    return {"ok": health.is_ok, "broken": [check.name for check in health.checks if not check.is_ok]}


def _quick(*, is_once: bool) -> dict[str, Any]:
    """Repeat the pass until the schedule starts the next invocation. R-REC-1 promises a pass every 30 s.

    Passes start at fixed times, 0, 20 and 40 s after the first: a pass that takes some seconds does not delay the next
    one, and the 20 s between them leave 10 s for a schedule that fires late.
    """
    settings = bootstrap.settings()
    next_at = time.monotonic()
    deadline = next_at + (0 if is_once else settings.watchdog_work_s)
    while True:
        counts = bootstrap.sweeper().quick() | bootstrap.run_sweeper().quick()
        for pool in (*POOLS, HTTP_POOL):
            _reconcile(pool)
        _close_sockets()
        _guard_runs()
        _measure()
        logger.info("swept", extra=counts)
        next_at = max(next_at + settings.watchdog_interval_s, time.monotonic())
        if next_at >= deadline:
            return counts
        time.sleep(next_at - time.monotonic())


def _reconcile(pool: str) -> None:
    """A failure in one pool does not stop the others."""
    try:
        bootstrap.scheduler().reconcile(pool)
    except Exception:
        logger.exception("pool not reconciled", pool=pool)
        metrics.emit("SweepFailures", 1, sweep="reconcile")


def _close_sockets() -> None:
    """Close the sockets of ended sessions, users and tenants within a minute, also when there is nothing to send."""
    try:
        bootstrap.push().close_ended()
    except Exception:
        logger.exception("sockets not closed")
        metrics.emit("SocketSweepFailures", 1)


def _guard_runs() -> None:
    """Lanes of runs under overload, and targets that fail."""
    try:
        bootstrap.run_guard().check()
    except Exception:
        logger.exception("runs not guarded")
        metrics.emit("RunGuardFailures", 1)


def _measure() -> None:
    try:
        bootstrap.operations().measure()
        bootstrap.circuits().measure(POOLS)
    except Exception:
        logger.exception("pools not measured")  # a missing metric raises the alarm


def _slow() -> dict[str, Any]:
    counts = bootstrap.sweeper().slow() | bootstrap.run_sweeper().slow()
    settings = bootstrap.settings()
    # Published and not sent here: a receiver that does not answer would use up the time of the pass.
    counts["deliveries"] = bootstrap.due_deliveries().publish(
        limit=settings.watchdog_batch, tenant_limit=settings.webhook_tenant_due
    )
    counts["low_balances"] = bootstrap.points_overview().publish_low_balances(
        bootstrap.service_outbox(), now=bootstrap.clock().now(), limit=settings.watchdog_batch
    )
    logger.info("swept", extra=counts)
    return counts
