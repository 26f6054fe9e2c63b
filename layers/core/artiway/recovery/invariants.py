"""R-REC-6: the invariants that hold at any moment, and a check that finds the rows that break them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.recovery.mirror import SlotMirror
from artiway.recovery.model import Check, Health, Scope

logger = Logger("invariants")
ROWS_SHOWN = 20
GRACE_S = 300
# A transaction may commit a while after it wrote its timestamps, and clocks differ.
OVERLAP = timedelta(minutes=5)
# Name, the query that counts the checked rows, the query that finds the broken ones.
CHECKS = (
    ("balances_equal_ledger", "count_balances", "broken_balances"),
    ("holds_end_once", "count_holds", "broken_holds"),
    ("one_credit_per_paid_order", "count_orders", "broken_credits"),
    ("credits_are_of_own_payments", "count_orders", "broken_payments"),
    ("live_tasks_have_holds", "count_tasks", "broken_tasks"),
    ("charges_equal_deliveries", "count_charges", "broken_charges"),
    ("in_degrees_agree", "count_nodes", "broken_in_degrees"),
    ("no_orphan_nodes", "count_nodes", "broken_orphan_nodes"),
    ("no_dependents_of_failures", "count_nodes", "broken_dependents"),
    ("history_is_complete", "count_nodes", "broken_history"),
    ("tokens_are_answered", "count_tokens", "broken_tokens"),
    ("artefacts_have_nodes", "count_artefacts", "broken_artefacts"),
    ("slots_are_held_by_attempts", "count_slots", "broken_slots"),
    ("sweepers_run", "count_overdue", "broken_overdue"),
)


class InvariantQueries(Protocol):
    def run(self, name: str, *, counted: str, broken: str, scope: Scope | None, limit: int, grace_s: int) -> Check: ...

    def last_clean(self) -> tuple[datetime, datetime | None]:
        """The time now, and the start of the last check that found no violation."""

    def note_clean(self, at: datetime) -> None: ...

    def changed_since(self, at: datetime) -> Scope: ...


class Invariants:
    def __init__(self, queries: InvariantQueries, mirror: SlotMirror) -> None:
        self._queries, self._mirror = queries, mirror

    def check(self, *, grace_s: int = GRACE_S) -> Health:
        """Check every row. `grace_s` is the time that the sweepers have to act."""
        began_at, _ = self._queries.last_clean()
        return self._check(None, began_at, grace_s)

    def check_changes(self, *, grace_s: int = GRACE_S) -> Health:
        """Check the rows that changed since the last clean check. While there is a violation, the span grows."""
        began_at, clean_at = self._queries.last_clean()
        scope = None if clean_at is None else self._queries.changed_since(clean_at - OVERLAP)
        return self._check(scope, began_at, grace_s)

    def _check(self, scope: Scope | None, began_at: datetime, grace_s: int) -> Health:
        checks = [
            self._queries.run(name, counted=counted, broken=broken, scope=scope, limit=ROWS_SHOWN, grace_s=grace_s)
            for name, counted, broken in CHECKS
        ]
        checks.append(self._mirror.check(limit=ROWS_SHOWN))
        health = Health(checks)
        if health.is_ok:
            self._queries.note_clean(began_at)
        metrics.emit("InvariantsBroken", sum(not check.is_ok for check in checks))
        for check in checks:
            if not check.is_ok:
                logger.error("invariant broken", check=check.name, rows=list(check.violations))
        return health
