"""Watches runs: pauses lanes under overload and stops calls to targets that fail. Every step is audited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.jobs.admission import BY_JOB, JobKey, Load, Track, WaitingRun
from artiway.jobs.guard.model import (
    NO_TENANT,
    CircuitKey,
    CircuitState,
    GuardReading,
    GuardState,
    Outcomes,
    RunCircuit,
    RunHealth,
    circuit_step,
    step,
)
from artiway.jobs.guard.settings import circuit_rules, guard_rules
from artiway.jobs.model import TaskType
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues

logger = Logger("jobs")
# Open circuits are read again after so long.
KNOWN_FOR = timedelta(seconds=1)
# A run over the probes of a half-open circuit is considered again after so long.
PROBE_WAIT = timedelta(seconds=15)


class GuardTransaction(Protocol):
    def guard(self, *, is_locked: bool) -> tuple[GuardState, GuardReading | None, datetime | None, datetime] | None:
        """State, last reading, its time, and the time now. None: another process has locked it, or none was stored."""

    def read(self, now: datetime, shed: Sequence[str]) -> GuardReading: ...
    def save(self, state: GuardState, reading: GuardReading, now: datetime) -> None: ...
    def circuits(self) -> list[RunCircuit]: ...
    def outcomes(self, since: datetime, now: datetime) -> Mapping[CircuitKey, Outcomes]: ...
    def save_circuit(self, circuit: RunCircuit) -> None: ...
    def forget_circuit(self, key: CircuitKey) -> None: ...
    def audit(self, action: str, target: str, details: Mapping[str, Any], *, tenant_id: UUID | None) -> None: ...


class GuardStore(Protocol):
    def open(self) -> AbstractContextManager[GuardTransaction]: ...


class RunGuard:
    def __init__(self, store: GuardStore, values: SettingValues) -> None:
        self._store, self._values = store, values

    def check(self) -> dict[str, int]:
        """One look at the readings: at most one lane changes, and each circuit moves by at most one state."""
        with self._store.open() as tx:
            known = tx.guard(is_locked=True)
            if known is None:
                return {}
            state, _, _, now = known
            reading = tx.read(now, state.lanes)
            following = step(state, reading, now, guard_rules(self._values))
            tx.save(following, reading, now)
            if following.shed != state.shed:
                self._note_lane(tx, state, following, reading)
            moved = self._move_circuits(tx, now)
        metrics.emit("RunLanesShed", following.shed)
        return {"shed": following.shed, "circuits": moved}

    def health(self) -> RunHealth:
        with self._store.open() as tx:
            known = tx.guard(is_locked=False)
            state, reading, read_at = (GuardState(), None, None) if known is None else known[:3]
            return RunHealth(state, reading, read_at, [one for one in tx.circuits() if one.state is not _CLOSED])

    @staticmethod
    def _note_lane(tx: GuardTransaction, before: GuardState, after: GuardState, reading: GuardReading) -> None:
        is_shed = after.shed > before.shed
        (lane,) = {*before.lanes} ^ {*after.lanes}
        action = "run_guard.pause" if is_shed else "run_guard.resume"
        tx.audit(
            action, lane, {"latencySeconds": round(reading.latency_s, 3), "backlog": reading.backlog}, tenant_id=None
        )
        logger.warning("lane of runs changed", lane=lane, is_paused=is_shed, backlog=reading.backlog)

    def _move_circuits(self, tx: GuardTransaction, now: datetime) -> int:
        rules = circuit_rules(self._values)
        known = {one.key: one for one in tx.circuits()}
        found = tx.outcomes(now - timedelta(seconds=rules.failure_for_s), now)
        moved = 0
        for key in sorted({*known, *found}):
            before = known.get(key)
            after = circuit_step(before, key, found.get(key, Outcomes()), now, rules)
            if after == before:
                continue
            if after is None:
                tx.forget_circuit(key)
                continue
            tx.save_circuit(after)
            if before is None or before.state is not after.state:
                self._note_circuit(tx, after)
                moved += 1
        return moved

    @staticmethod
    def _note_circuit(tx: GuardTransaction, circuit: RunCircuit) -> None:
        tenant_id = None if circuit.key.tenant_id == NO_TENANT else circuit.key.tenant_id
        details = {"runs": circuit.runs, "failures": circuit.failures, "until": circuit.until.isoformat()}
        tx.audit(f"run_circuit.{circuit.state.lower()}", circuit.key.target[:200], details, tenant_id=tenant_id)
        name = None if tenant_id is None else ids.to_wire("tnt", tenant_id)
        logger.warning("circuit of runs changed", state=circuit.state, target=circuit.key.target, tenant_id=name)
        metrics.emit("RunCircuits", 1, state=circuit.state)


_CLOSED = CircuitState.CLOSED


class HoldTransaction(Protocol):
    def open_circuits(self) -> list[RunCircuit]: ...
    def hosts(self, jobs: Sequence[JobKey]) -> Mapping[JobKey, str | None]: ...
    def hold(self, runs: Sequence[tuple[WaitingRun, datetime]], now: datetime) -> None: ...
    def use_probes(self, key: CircuitKey, count: int) -> None: ...
    def change_loads(self, changes: Mapping[Track, Load], known: Iterable[Track] = ()) -> None: ...


class HoldStore(Protocol):
    def joined(self, run_tx: Any) -> AbstractContextManager[HoldTransaction]: ...


class HeldTargets:
    """Holds runs back whose circuit is not closed, under the lock of admissions."""

    def __init__(self, store: HoldStore) -> None:
        self._store = store
        self._known: Mapping[CircuitKey, RunCircuit] = {}
        self._known_at: datetime | None = None

    def pass_on(self, run_tx: Any, runs: Sequence[WaitingRun], now: datetime) -> list[WaitingRun]:
        """Those of the runs that may start. The others are due again when their circuit may be probed."""
        if not runs:
            return []
        with self._store.joined(run_tx) as tx:
            circuits = self._circuits(tx, now)
            if not circuits:
                return list(runs)
            return self._split(tx, runs, circuits, now)

    def _circuits(self, tx: HoldTransaction, now: datetime) -> Mapping[CircuitKey, RunCircuit]:
        is_known = self._known_at is not None and timedelta(0) <= now - self._known_at < KNOWN_FOR
        # Probes are counted, so a half-open circuit is read each time.
        if not is_known or any(one.state is CircuitState.HALF_OPEN for one in self._known.values()):
            self._known = {one.key: one for one in tx.open_circuits()}
            self._known_at = now
        return self._known

    @staticmethod
    def _split(
        tx: HoldTransaction, runs: Sequence[WaitingRun], circuits: Mapping[CircuitKey, RunCircuit], now: datetime
    ) -> list[WaitingRun]:
        tenants = {key.tenant_id for key in circuits}
        called = sorted({run.job for run in runs if run.tenant_id in tenants and run.task_type is TaskType.HTTP})
        hosts = tx.hosts(called) if called else {}
        kept, held = [], []
        probed: dict[CircuitKey, int] = defaultdict(int)
        for run in sorted(runs, key=lambda run: run.order):
            is_call = run.task_type is TaskType.HTTP
            key = (
                CircuitKey(run.tenant_id, hosts.get(run.job) or "") if is_call else CircuitKey(NO_TENANT, run.task_type)
            )
            circuit = circuits.get(key)
            if circuit is None:
                kept.append(run)
            elif circuit.state is CircuitState.OPEN:
                held.append((run, max(circuit.until, now + timedelta(seconds=1))))
            elif probed[key] < circuit.probes:
                probed[key] += 1
                kept.append(run)
            else:
                held.append((run, now + PROBE_WAIT))
        for key, count in probed.items():
            tx.use_probes(key, count)
        tx.hold(held, now)
        changes: dict[Track, Load] = defaultdict(Load)
        for run, _ in held:
            if run.is_deferred and run.defer_reason in BY_JOB:
                changes[run.track].blocked -= 1
            elif run.is_deferred:
                changes[run.track].deferred -= 1
        tx.change_loads(changes, known=changes)
        if held:
            metrics.emit("RunsHeld", len(held))
        return kept
