"""The guard's state, readings and circuits in PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.jobs.admission import JobKey, WaitingRun
from artiway.jobs.guard.model import CircuitKey, CircuitState, GuardReading, GuardState, Outcomes, RunCircuit
from artiway.jobs.repository import RunTransaction
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.jobs.guard")
_MINUTE = timedelta(minutes=1)


class GuardRows:
    def __init__(self, tx: Transaction, audit: AuditLog) -> None:
        self._tx, self._audit = tx, audit

    def guard(self, *, is_locked: bool) -> tuple[GuardState, GuardReading | None, datetime | None, datetime] | None:
        if is_locked:
            self._tx.run(SQL["ensure_guard"])
        row = self._tx.one(SQL["lock_guard" if is_locked else "guard"])
        if row is None:
            return None
        names = ("shed", "late_since", "full_since", "calm_since", "changed_at")
        state = GuardState(**{name: row[name] for name in names})
        reading = None if row["read_at"] is None else GuardReading(row["latency_s"], row["backlog"])
        return state, reading, row["read_at"], row["now"]

    def read(self, now: datetime, shed: Sequence[str]) -> GuardReading:
        latency = self._tx.one(SQL["latency"], {"since": now - _MINUTE, "now": now})
        backlog = self._tx.one(SQL["backlog"], {"now": now, "shed": list(shed)})
        assert latency is not None
        assert backlog is not None
        return GuardReading(latency["latency_s"], backlog["runs"])

    def save(self, state: GuardState, reading: GuardReading, now: datetime) -> None:
        times = {name: getattr(state, name) for name in ("late_since", "full_since", "calm_since", "changed_at")}
        given = {"shed": state.shed, "lanes": list(state.lanes), **times, **reading._asdict(), "now": now}
        self._tx.run(SQL["save_guard"], given)

    def circuits(self) -> list[RunCircuit]:
        return [_circuit(row) for row in self._tx.all(SQL["circuits"])]

    def outcomes(self, since: datetime, now: datetime) -> Mapping[CircuitKey, Outcomes]:
        rows = self._tx.all(SQL["outcomes"], {"since": since, "now": now})
        return {
            CircuitKey(row["tenant_id"], row["target"]): Outcomes(row["runs"], row["failures"], row["tenants"])
            for row in rows
        }

    def save_circuit(self, circuit: RunCircuit) -> None:
        names = ("state", "until", "changed_at", "openings", "probes", "runs", "failures")
        given = {**circuit.key._asdict(), **{name: getattr(circuit, name) for name in names}}
        self._tx.run(SQL["save_circuit"], given)

    def forget_circuit(self, key: CircuitKey) -> None:
        self._tx.run(SQL["forget_circuit"], key._asdict())

    def audit(self, action: str, target: str, details: Mapping[str, Any], *, tenant_id: UUID | None) -> None:
        self._audit.record(self._tx, actor_id=None, action=action, target=target, details=details, tenant_id=tenant_id)


class PostgresGuard:
    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    @contextlib.contextmanager
    def open(self) -> Iterator[GuardRows]:
        with self._database.service_transaction() as tx:
            yield GuardRows(tx, self._audit)


class HoldRows:
    """Inside the transaction of an admission."""

    def __init__(self, runs: RunTransaction) -> None:
        self._tx, self.change_loads = runs.tx, runs.change_loads

    def open_circuits(self) -> list[RunCircuit]:
        found = [_circuit(row) for row in self._tx.all(SQL["circuits"])]
        return [one for one in found if one.state is not CircuitState.CLOSED]

    def hosts(self, jobs: Sequence[JobKey]) -> Mapping[JobKey, str | None]:
        rows = self._tx.all(SQL["hosts"], _keys(jobs))
        return {JobKey(row["tenant_id"], row["job_id"]): row["target_host"] for row in rows}

    def hold(self, runs: Sequence[tuple[WaitingRun, datetime]], now: datetime) -> None:
        if runs:
            given = {
                **_keys([run.job for run, _ in runs]),
                "scheduled_ats": sql.array(run.scheduled_at.isoformat() for run, _ in runs),
                "due_ats": sql.array(at.isoformat() for _, at in runs),
            }
            self._tx.run(SQL["hold_runs"], {**given, "now": now})

    def use_probes(self, key: CircuitKey, count: int) -> None:
        self._tx.run(SQL["use_probes"], {**key._asdict(), "count": count})


class PostgresHolds:
    @contextlib.contextmanager
    def joined(self, run_tx: RunTransaction) -> Iterator[HoldRows]:
        yield HoldRows(run_tx)


def _circuit(row: Row) -> RunCircuit:
    key = CircuitKey(row.pop("tenant_id"), row.pop("target"))
    return RunCircuit(**{**row, "key": key, "state": CircuitState(row["state"])})


def _keys(jobs: Sequence[JobKey]) -> dict[str, str]:
    return {
        "tenant_ids": sql.array(key.tenant_id for key in jobs),
        "job_ids": sql.array(key.job_id for key in jobs),
    }
