"""Circuits in PostgreSQL. A row's lock orders the ends of attempts that arrive at the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

from artiway.audit.repository import AuditLog
from artiway.circuits.model import Circuit, StoppedSteps
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.circuits")


class PostgresCircuits:
    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def stopped(self) -> StoppedSteps:
        with self._database.service_transaction() as tx:
            return stopped(tx)

    def change(
        self, pool: str, step: str, act: Callable[[Circuit, datetime], Circuit], *, is_added: bool
    ) -> tuple[Circuit, Circuit]:
        """Replace a circuit by what `act` returns, and record the opening or closing. Returns it before and after.

        Without `is_added` a circuit that is not stored stays so: it is closed and has no failures.
        """
        key = {"pool": pool, "step": step}
        with self._database.service_transaction() as tx:
            if is_added:
                tx.run(SQL["add"], key)
            row = tx.one(SQL["lock"], key)
            if row is None:
                return Circuit(pool, step), Circuit(pool, step)
            now = row["now"]
            before = _circuit(row)
            after = act(before, now)
            if after == Circuit(pool, step):
                tx.run(SQL["delete"], key)
            elif after != before:
                tx.run(SQL["store"], asdict(after))
            self._record(tx, before, after)
            return before, after

    def _record(self, tx: Transaction, before: Circuit, after: Circuit) -> None:
        if (before.opened_at is None) == (after.opened_at is None):
            return
        details: dict[str, object] = {
            "failures": max(before.failures, after.failures),
            "lastError": after.last_error or before.last_error,
        }
        if before.opened_at is not None:
            details |= {"openedAt": before.opened_at, "probesFailed": before.probes_failed}
        action = "circuit.closed" if after.opened_at is None else "circuit.opened"
        target = f"{after.pool}/{after.step}"
        self._audit.record(tx, actor_id=None, action=action, target=target, details=details)


def stopped(tx: Transaction) -> StoppedSteps:
    """The circuits that are not closed. Any role may read them."""
    rows = tx.all(SQL["stopped"])
    return StoppedSteps(rows[0]["now"], tuple(_circuit(row) for row in rows if row["pool"] is not None))


def _circuit(row: Row) -> Circuit:
    return Circuit(**{name: value for name, value in row.items() if name != "now"})
