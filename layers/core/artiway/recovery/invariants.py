"""R-REC-6: the invariants that hold at any moment, and checks that find the rows that break them.

The full check reads every row. The check of changes reads the rows that changed since the last one, and the check of a
slice the next part of all rows: docs/retention.md says what they can miss, and for how long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.recovery.mirror import SlotMirror
from artiway.recovery.model import Check, Health, Scope
from artiway.recovery.settings import SLICE_ROWS
from artiway.settings.model import SettingValues

logger = Logger("invariants")
ROWS_SHOWN = 20
GRACE_S = 300
# A transaction may commit a while after it wrote its timestamps, and clocks differ.
OVERLAP = timedelta(minutes=5)
# The changes of a longer time are checked in several steps.
WINDOW = timedelta(hours=1)
# Rows of each table in one step of a slice.
CHUNK = 2_000
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
    ("artefacts_have_nodes", "count_artefacts", "broken_artefacts"),
    # These read live rows, and texts that ended within the hour, whatever the scope.
    ("tokens_are_answered", "count_tokens", "broken_tokens"),
    ("slots_are_held_by_attempts", "count_slots", "broken_slots"),
    ("sweepers_run", "count_overdue", "broken_overdue"),
    # Of runs: the last day, and in the check of changes the last minutes. Partitions and indexes bound what is read.
    ("runs_are_single", "count_runs", "broken_single_runs"),
    ("runs_have_jobs", "count_runs", "broken_orphan_runs"),
    ("running_runs_are_leased", "count_running", "broken_leases"),
    ("run_counters_agree", "count_running", "broken_run_counters"),
)
LAST_VERSION = 2**63 - 1
LIVE = frozenset(
    {
        "tokens_are_answered",
        "slots_are_held_by_attempts",
        "sweepers_run",
        "runs_are_single",
        "runs_have_jobs",
        "running_runs_are_leased",
        "run_counters_agree",
    }
)


class InvariantQueries(Protocol):
    def run(self, name: str, *, counted: str, broken: str, scope: Scope | None, limit: int, grace_s: int) -> Check: ...

    def last_pass(self) -> tuple[datetime, datetime | None, Scope]:
        """The time now, the time until which changes were checked, and the rows that were broken then."""

    def note_pass(self, until: datetime, suspects: Scope) -> None: ...

    def add_suspects(self, suspects: Scope) -> None:
        """The next check of changes covers them too."""

    def note_broken(self, broken: Sequence[str], mended: Sequence[str]) -> Mapping[str, datetime]:
        """Since when the broken ones are known."""

    def changed_between(self, since: datetime, until: datetime) -> Scope: ...

    def slices(self, *, chunk: int) -> Slices: ...


class Slices(Protocol):
    def next(self) -> Scope | None:
        """The next rows of each table, or None when a round through all tables is complete."""

    def keep(self) -> None:
        """The rows were checked: the next pass continues after them."""


class Invariants:
    def __init__(
        self,
        queries: InvariantQueries,
        mirror: SlotMirror,
        values: SettingValues,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queries, self._mirror, self._values, self._monotonic = queries, mirror, values, monotonic

    def check(self, *, grace_s: int = GRACE_S) -> Health:
        """Check every row. `grace_s` is the time that the sweepers have to act."""
        began_at, _, _ = self._queries.last_pass()
        checks = [*self._run(None, grace_s), self._mirror.check(limit=ROWS_SHOWN)]
        self._queries.note_pass(began_at, suspects_of(checks))
        return self._reported(checks)

    def check_changes(self, *, grace_s: int = GRACE_S) -> Health:
        """Check the rows that changed since the last check, and those that were broken then until they are right."""
        began_at, until, suspects = self._queries.last_pass()
        if until is None:
            return self.check(grace_s=grace_s)
        checks = self._run(suspects, grace_s)
        while until < began_at:
            since, until = until - OVERLAP, min(until + WINDOW, began_at)
            scope = self._queries.changed_between(since, until + OVERLAP if until == began_at else until)
            if not scope.is_empty:
                checks = joined(checks, self._run(scope, grace_s, names=SCOPED))
            self._queries.note_pass(until, suspects_of(checks))
        return self._reported([*checks, self._mirror.check(limit=ROWS_SHOWN)])

    def check_slice(self, *, within_s: float) -> Health:
        """Check the next part of all rows: as many of each table as the setting allows, within the time."""
        deadline = self._monotonic() + within_s
        chunk = min(CHUNK, self._values.get(SLICE_ROWS))
        slices = self._queries.slices(chunk=chunk)
        checks: list[Check] = [Check(name, 0) for name, _, _ in CHECKS if name not in LIVE]
        for _ in range(self._values.get(SLICE_ROWS) // chunk):
            scope = slices.next()
            if scope is None:
                break
            if not scope.is_empty:
                checks = joined(checks, self._run(scope, GRACE_S, names=SCOPED))
            slices.keep()
            if self._monotonic() >= deadline:
                break
        found = suspects_of(checks)
        if not found.is_empty:
            self._queries.add_suspects(found)
        return self._reported(checks, is_partial=True)

    def _run(self, scope: Scope | None, grace_s: int, *, names: frozenset[str] | None = None) -> list[Check]:
        return [
            self._queries.run(name, counted=counted, broken=broken, scope=scope, limit=ROWS_SHOWN, grace_s=grace_s)
            for name, counted, broken in CHECKS
            if names is None or name in names
        ]

    def _reported(self, checks: Sequence[Check], *, is_partial: bool = False) -> Health:
        """A partial check may find broken rows; that it finds none says nothing about the others."""
        metrics.emit("InvariantsBroken", sum(not check.is_ok for check in checks))
        broken = [check.name for check in checks if not check.is_ok]
        mended = [] if is_partial else [check.name for check in checks if check.is_ok]
        since = self._queries.note_broken(broken, mended)
        for check in checks:
            if not check.is_ok:
                logger.error("invariant broken", check=check.name, rows=list(check.violations))
        return Health([replace(check, since=since.get(check.name)) for check in checks])


SCOPED = frozenset(name for name, _, _ in CHECKS) - LIVE


def joined(checks: Sequence[Check], others: Sequence[Check]) -> list[Check]:
    """The checks, each with the result of the other check of its name."""
    added = {check.name: check for check in others}
    return [check | added[check.name] if check.name in added else check for check in checks]


def suspects_of(checks: Sequence[Check]) -> Scope:
    """The rows that the violations name."""
    rows = [row for check in checks for row in check.violations if check.name in SCOPED]

    def named(key: str) -> list[UUID]:
        return sorted({row[key] for row in rows if row.get(key) is not None})

    # A broken entry is checked again by itself; where the sum of a ledger is wrong, all entries are.
    entries = [row for row in rows if "balance" in row]
    return Scope(
        tenant_ids=named("tenant_id"),
        user_ids=named("user_id"),
        hold_ids=named("hold_id"),
        order_ids=named("order_id"),
        node_ids=named("node_id"),
        task_ids=named("task_id"),
        ledger_tenant_ids=[row["tenant_id"] for row in entries],
        ledger_user_ids=[row["user_id"] for row in entries],
        ledger_first=[row.get("version", 1) for row in entries],
        ledger_last=[row.get("version", LAST_VERSION) for row in entries],
    )
