"""What a health check and the guard report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from artiway.circuits.model import StoppedSteps
from artiway.jobs.guard.model import RunHealth

# A check returns when its server answers and raises `Unavailable` when it does not.
Check = Callable[[], None]


@dataclass(frozen=True)
class Health:
    checks: Mapping[str, str]

    @property
    def is_ok(self) -> bool:
        return all(answer == "ok" for answer in self.checks.values())


class State(StrEnum):
    NORMAL = "NORMAL"
    DEGRADED = "DEGRADED"


@dataclass(frozen=True)
class Meter:
    """A value and its upper limit. `read` raises `Unavailable` if the server that has the value does not answer."""

    name: str
    read: Callable[[], float]
    limit: Callable[[], float]
    unit: str


@dataclass(frozen=True)
class Reading:
    """A measured value. It is None if it could not be measured, and then it is not ok."""

    name: str
    value: float | None
    limit: float
    unit: str

    @property
    def is_ok(self) -> bool:
        return self.value is not None and self.value <= self.limit


@dataclass(frozen=True)
class GuardReport:
    """`stopped` has the circuits that are not closed, `runs` the guard of runs. None: it could not be read."""

    health: Health
    readings: Sequence[Reading]
    stopped: StoppedSteps | None
    runs: RunHealth | None

    @property
    def state(self) -> State:
        is_running = self.stopped is not None and not self.stopped.circuits
        is_running = is_running and self.runs is not None and not self.runs.state.is_degraded
        is_normal = self.health.is_ok and is_running and all(reading.is_ok for reading in self.readings)
        return State.NORMAL if is_normal else State.DEGRADED
