"""Says whether what we stand on is there, and whether we keep up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from artiway.errors import Unavailable

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
    """How to measure something, and what is still well. `read` raises `Unavailable` where that is away."""

    name: str
    read: Callable[[], float]
    limit: float
    unit: str


@dataclass(frozen=True)
class Reading:
    """What was measured. None could not be, which is not well either."""

    name: str
    value: float | None
    limit: float
    unit: str

    @property
    def is_ok(self) -> bool:
        return self.value is not None and self.value <= self.limit


@dataclass(frozen=True)
class Look:
    health: Health
    readings: Sequence[Reading]

    @property
    def state(self) -> State:
        is_well = self.health.is_ok and all(reading.is_ok for reading in self.readings)
        return State.NORMAL if is_well else State.DEGRADED


class HealthService:
    """Each check either returns or raises `Unavailable`; one that is away does not hide the others."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    def look(self) -> Health:
        return Health({name: _outcome(check) for name, check in self._checks.items()})


def _outcome(check: Check) -> str:
    try:
        check()
    except Unavailable:
        return "away"
    return "ok"


class Guard:
    """Degraded is whoever lost what it stands on, or is beyond a limit. Looked at anew each time."""

    def __init__(self, health: HealthService, meters: Sequence[Meter]) -> None:
        self._health, self._meters = health, meters

    def look(self) -> Look:
        return Look(self._health.look(), [_read(meter) for meter in self._meters])


def _read(meter: Meter) -> Reading:
    try:
        value = meter.read()
    except Unavailable:
        value = None
    return Reading(meter.name, value, meter.limit, meter.unit)
