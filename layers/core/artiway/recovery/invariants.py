"""R-REC-6 as one program: what must hold at any moment, and the rows that show where it does not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.recovery.model import Check, Health, Scope

logger = Logger("invariants")
ROWS_SHOWN = 20
GRACE_S = 300
# A transaction may be open for a while after it wrote down the time; and clocks differ.
OVERLAP = timedelta(minutes=5)
# Name, what is counted, what breaks it.
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


class Looks(Protocol):
    def look(self, name: str, *, counted: str, broken: str, scope: Scope | None, limit: int, grace_s: int) -> Check: ...

    def last_clean(self) -> tuple[datetime, datetime | None]:
        """The time, and when the last look that found nothing wrong began."""

    def note_clean(self, at: datetime) -> None: ...

    def changed_since(self, at: datetime) -> Scope: ...


class Mirror(Protocol):
    """Redis, beside the database."""

    def look(self, *, limit: int) -> Check: ...


class Invariants:
    def __init__(self, looks: Looks, mirror: Mirror) -> None:
        self._looks, self._mirror = looks, mirror

    def check(self, *, grace_s: int = GRACE_S) -> Health:
        """Look at all there is. `grace_s` is how long the sweepers have for what is theirs."""
        began_at, _ = self._looks.last_clean()
        return self._check(None, began_at, grace_s)

    def check_changes(self, *, grace_s: int = GRACE_S) -> Health:
        """Look at what changed since all was well. As long as something is wrong the span grows."""
        began_at, clean_at = self._looks.last_clean()
        scope = None if clean_at is None else self._looks.changed_since(clean_at - OVERLAP)
        return self._check(scope, began_at, grace_s)

    def _check(self, scope: Scope | None, began_at: datetime, grace_s: int) -> Health:
        checks = [
            self._looks.look(name, counted=counted, broken=broken, scope=scope, limit=ROWS_SHOWN, grace_s=grace_s)
            for name, counted, broken in CHECKS
        ]
        checks.append(self._mirror.look(limit=ROWS_SHOWN))
        health = Health(checks)
        if health.is_ok:
            self._looks.note_clean(began_at)
        metrics.emit("InvariantsBroken", sum(not check.is_ok for check in checks))
        for check in checks:
            if not check.is_ok:
                logger.error("invariant broken", check=check.name, rows=list(check.violations))
        return health
