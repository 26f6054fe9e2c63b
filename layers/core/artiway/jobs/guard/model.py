"""The guard of runs: pauses lanes under overload, stops calls to targets that fail, and recovers. Pure.

Hysteresis: a limit must be exceeded for minutes without a break before a lane is paused, and both readings must stay
below half of their limits before one is resumed. In between the state stays as it is, so readings that jump around a
limit do not move it. Each step starts all times anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from artiway.errors import Unavailable

# In the order in which they are paused. They are resumed in the opposite order.
SHED_LANES = ("run_low", "run_normal")
PROBES = 3
LONGEST_OPEN_S = 600
# A circuit of a whole task type opens only with so many runs, and failures in so many tenants.
TYPE_RUNS = 100
TYPE_TENANTS = 5
NO_TENANT = UUID(int=0)


@dataclass(frozen=True)
class GuardRules:
    latency_s: float = 2.0
    latency_for_s: int = 300
    backlog: int = 200_000
    backlog_for_s: int = 600
    calm_for_s: int = 120


@dataclass(frozen=True)
class GuardState:
    """`shed` lanes are paused. The times say since when a reading has been as it is, without a break."""

    shed: int = 0
    late_since: datetime | None = None
    full_since: datetime | None = None
    calm_since: datetime | None = None
    changed_at: datetime | None = None

    @property
    def lanes(self) -> tuple[str, ...]:
        return SHED_LANES[: self.shed]

    @property
    def is_degraded(self) -> bool:
        return self.shed > 0


class GuardReading(NamedTuple):
    """`backlog` leaves out the lanes that the guard has paused: their runs wait because of it."""

    latency_s: float
    backlog: int


def step(state: GuardState, reading: GuardReading, now: datetime, rules: GuardRules) -> GuardState:
    """The next state. At most one lane is paused or resumed in a step."""
    is_calm = reading.latency_s <= rules.latency_s / 2 and reading.backlog <= rules.backlog / 2
    seen = replace(
        state,
        late_since=_since(state.late_since, now, is_so=reading.latency_s > rules.latency_s),
        full_since=_since(state.full_since, now, is_so=reading.backlog > rules.backlog),
        calm_since=_since(state.calm_since, now, is_so=is_calm),
    )
    is_late = _lasts(seen.late_since, now, rules.latency_for_s)
    is_full = _lasts(seen.full_since, now, rules.backlog_for_s)
    if (is_late or is_full) and seen.shed < len(SHED_LANES):
        return GuardState(seen.shed + 1, changed_at=now)
    if seen.shed and _lasts(seen.calm_since, now, rules.calm_for_s):
        return GuardState(seen.shed - 1, changed_at=now)
    return seen


def _since(since: datetime | None, now: datetime, *, is_so: bool) -> datetime | None:
    return (since or now) if is_so else None


def _lasts(since: datetime | None, now: datetime, seconds: int) -> bool:
    return since is not None and now - since >= timedelta(seconds=seconds)


# Circuits


class CircuitState(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class CircuitKey(NamedTuple):
    """A tenant and host of its targets, or no tenant and a task type."""

    tenant_id: UUID
    target: str


@dataclass(frozen=True)
class CircuitRules:
    failure_percent: float = 3.0
    failure_for_s: int = 300
    least_runs: int = 20
    open_s: int = 60


class Outcomes(NamedTuple):
    """Runs that ended since the circuit changed, at most over the window. `tenants` had failures."""

    runs: int = 0
    failures: int = 0
    tenants: int = 1


@dataclass(frozen=True)
class RunCircuit:
    key: CircuitKey
    state: CircuitState
    until: datetime
    changed_at: datetime
    openings: int = 0
    probes: int = 0
    runs: int = 0
    failures: int = 0


def circuit_step(
    circuit: RunCircuit | None, key: CircuitKey, found: Outcomes, now: datetime, rules: CircuitRules
) -> RunCircuit | None:
    """The next state of a circuit; None is one that is closed and forgotten."""
    match None if circuit is None else circuit.state:
        case None | CircuitState.CLOSED:
            if _opens(key, found, rules):
                return _opened(key, 1, found, now, rules)
            is_over = circuit is not None and now - circuit.changed_at >= timedelta(seconds=rules.failure_for_s)
            return None if is_over else circuit
        case CircuitState.OPEN:
            assert circuit is not None
            if now < circuit.until:
                return circuit
            return replace(circuit, state=CircuitState.HALF_OPEN, changed_at=now, probes=PROBES)
        case _:
            assert circuit is not None
            if found.failures:
                return _opened(key, circuit.openings + 1, found, now, rules)
            # Without traffic there is nothing to probe, so a quiet target is not held back for ever.
            is_quiet = now - circuit.changed_at >= timedelta(seconds=rules.failure_for_s)
            if found.runs >= PROBES or is_quiet:
                return RunCircuit(key, CircuitState.CLOSED, now, now)
            return circuit


def _opens(key: CircuitKey, found: Outcomes, rules: CircuitRules) -> bool:
    is_type = key.tenant_id == NO_TENANT
    if is_type and found.tenants < TYPE_TENANTS:
        return False
    least = TYPE_RUNS if is_type else rules.least_runs
    return found.runs >= least and found.failures * 100 > rules.failure_percent * found.runs


def _opened(key: CircuitKey, openings: int, found: Outcomes, now: datetime, rules: CircuitRules) -> RunCircuit:
    seconds = min(LONGEST_OPEN_S, rules.open_s << min(openings - 1, 10))
    until = now + timedelta(seconds=seconds)
    return RunCircuit(key, CircuitState.OPEN, until, now, openings, 0, found.runs, found.failures)


@dataclass(frozen=True)
class RunHealth:
    """For operators. `reading` is the last one, None before the first."""

    state: GuardState
    reading: GuardReading | None
    read_at: datetime | None
    circuits: Sequence[RunCircuit]


class DispatchBacklog(Unavailable):
    """The guard has paused the lane of the run that a request asks for."""

    code = "SCHED_503_DISPATCH_BACKLOG"

    def __init__(self, lane: str) -> None:
        super().__init__(f"too many runs wait; {lane} is paused for a while", retry_after_s=60, lane=lane)
