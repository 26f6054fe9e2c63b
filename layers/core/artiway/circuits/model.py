"""The circuit of a step in a pool: it opens after failures in a row, and closes when a probe succeeds.

A circuit without failures is closed and is not stored. An open one becomes half-open by time alone, so no process has
to be alive for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from artiway.errors import Unavailable

# Failures of the engine. Other failures say nothing about it: bad input and parameters, cancels, an S3 that is away
# (that would open every circuit), and workers that are lost, shut down or do not claim. An engine runs in a process of
# its own, so its crash is ENGINE_CRASHED: a lost worker is a lost machine.
ENGINE_FAULTS = frozenset(
    {
        "ENGINE_FAILED",
        "ENGINE_CRASHED",
        "ENGINE_BUSY",
        "ENGINE_NOT_INSTALLED",
        "MODEL_UNKNOWN",
        "MODEL_CHECKSUM",
        "OUTPUT_UNEXPECTED",
        "STEP_UNKNOWN",
        "TIME_LIMIT",
        "EXECUTION_TIMED_OUT",
    }
)
PROBES_AT_ONCE = 1
LARGEST_DOUBLING = 20


class StepUnavailable(Unavailable):
    """A step of the task has failed for a long time. Nothing was stored and no points are held."""

    code = "TASK_503_STEP_UNAVAILABLE"

    def __init__(self, step: str, *, retry_after_s: int) -> None:
        super().__init__(f"the step {step} fails at present; try again later", retry_after_s=retry_after_s, step=step)


class CircuitState(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True)
class Rules:
    """`failures` in a row open a circuit. Probes go after `probe_s`, and twice as long after each that fails, up to
    `probe_max_s`. A node waits for `wait_s`; submissions are refused once a circuit is open for `refuse_after_s`."""

    failures: int = 5
    probe_s: int = 15
    probe_max_s: int = 300
    wait_s: int = 900
    refuse_after_s: int = 300

    def back_off(self, probes_failed: int) -> timedelta:
        doubled_s = self.probe_s * 2 ** min(probes_failed, LARGEST_DOUBLING)
        return timedelta(seconds=max(self.probe_s, min(doubled_s, self.probe_max_s)))


@dataclass(frozen=True)
class Circuit:
    """`failures` in a row while it is closed; since `opened_at` it is not, and `probes_failed` so far."""

    pool: str
    step: str
    failures: int = 0
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    probes_failed: int = 0
    last_error: str = ""

    def state(self, now: datetime) -> CircuitState:
        if self.probe_at is None:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.probe_at else CircuitState.HALF_OPEN

    def limit(self, now: datetime) -> int | None:
        """How many nodes of the step may run at once in the pool. None is no limit of the circuit's."""
        return {CircuitState.CLOSED: None, CircuitState.OPEN: 0, CircuitState.HALF_OPEN: PROBES_AT_ONCE}[
            self.state(now)
        ]

    def failed(self, *, dispatched_at: datetime, now: datetime, rules: Rules, error: str = "") -> Circuit:
        """The circuit after an attempt failed. While it is open only probes count: other attempts began before."""
        if self.probe_at is None:
            counted = replace(self, failures=self.failures + 1, last_error=error)
            if counted.failures < rules.failures:
                return counted
            return replace(counted, opened_at=now, probe_at=now + rules.back_off(0), probes_failed=0)
        if dispatched_at < self.probe_at:
            return self
        probes_failed = self.probes_failed + 1
        return replace(
            self, probes_failed=probes_failed, probe_at=now + rules.back_off(probes_failed), last_error=error
        )

    def succeeded(self, *, dispatched_at: datetime) -> Circuit:
        """The circuit after an attempt completed. An open one closes by a probe only."""
        if self.probe_at is not None and dispatched_at < self.probe_at:
            return self
        return Circuit(self.pool, self.step)

    def is_sparing(self, now: datetime, rules: Rules) -> bool:
        """Whether a failure of the engine counts against the circuit alone, and not against the retries of the node.

        That ends after the time for which nodes wait, so that a node whose own input breaks the engine ends too.
        """
        return self.opened_at is not None and now < self.opened_at + timedelta(seconds=rules.wait_s)

    def refuses_for_s(self, now: datetime, rules: Rules) -> int | None:
        """Seconds for which submissions are refused. None: they are accepted and wait.

        One that comes when a probe is due is accepted: without it a circuit with no waiting node could not close.
        """
        if self.opened_at is None or now < self.opened_at + timedelta(seconds=rules.refuse_after_s):
            return None
        return self.probes_in_s(now) or None

    def probes_in_s(self, now: datetime) -> int:
        """Seconds until the next probe, rounded up. 0 if it is due."""
        return 0 if self.probe_at is None else max(0, -(-(self.probe_at - now) // timedelta(seconds=1)))


def next_probe(in_s: int) -> str:
    """When a stopped step is tried again, in words."""
    return f"it is tried again in {in_s} s" if in_s else "it is being tried again"


@dataclass(frozen=True)
class Attempt:
    """The end of an attempt that concerns a circuit. `error` is empty for one that completed."""

    pool: str
    step: str
    dispatched_at: datetime
    error: str = ""


@dataclass(frozen=True)
class StoppedSteps:
    """The circuits that are not closed, read at `now` on the database's clock."""

    now: datetime
    circuits: Sequence[Circuit] = ()

    def of(self, pool: str, step: str) -> Circuit | None:
        return next((one for one in self.circuits if (one.pool, one.step) == (pool, step)), None)
