"""R-REC-6 as one program: what must hold at any moment, and the rows that show where it does not."""

from __future__ import annotations

from typing import Protocol

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.recovery.model import Check, Health

logger = Logger("invariants")
ROWS_SHOWN = 20
GRACE_S = 300
# Name, what is counted, what breaks it.
CHECKS = (
    ("balances_equal_ledger", "count_balances", "broken_balances"),
    ("holds_end_once", "count_holds", "broken_holds"),
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
    def look(self, name: str, *, counted: str, broken: str, limit: int, grace_s: int) -> Check: ...


class Invariants:
    def __init__(self, looks: Looks) -> None:
        self._looks = looks

    def check(self, *, grace_s: int = GRACE_S) -> Health:
        """`grace_s` is how long the sweepers have for what is theirs."""
        checks = [
            self._looks.look(name, counted=counted, broken=broken, limit=ROWS_SHOWN, grace_s=grace_s)
            for name, counted, broken in CHECKS
        ]
        metrics.emit("InvariantsBroken", sum(not check.is_ok for check in checks))
        for check in checks:
            if not check.is_ok:
                logger.error("invariant broken", check=check.name, rows=list(check.violations))
        return Health(checks)
