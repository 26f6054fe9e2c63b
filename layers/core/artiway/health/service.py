"""Checks that PostgreSQL and Redis answer, and compares the platform's load with its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from artiway.circuits.model import StoppedSteps
from artiway.errors import Unavailable
from artiway.health.model import Check, GuardReport, Health, Meter, Reading
from artiway.jobs.guard.model import RunHealth
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.scheduling.model import LaneState

logger = Logger("health")


class HealthService:
    """Runs every check, also after one of them has failed."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    def check(self) -> Health:
        return Health({name: _outcome(check) for name, check in self._checks.items()})


def _outcome(check: Check) -> str:
    try:
        check()
    except Unavailable:
        return "away"
    return "ok"


class Guard:
    """The platform is degraded if a check fails, a reading is above its limit, a step is stopped or a lane of runs is
    paused by its guard. Every report measures anew."""

    def __init__(
        self,
        health: HealthService,
        meters: Sequence[Meter],
        *,
        stopped: Callable[[], StoppedSteps],
        runs: Callable[[], RunHealth],
    ) -> None:
        self._health, self._meters, self._stopped, self._runs = health, meters, stopped, runs

    def report(self) -> GuardReport:
        health, readings = self._health.check(), [_read(meter) for meter in self._meters]
        try:
            return GuardReport(health, readings, self._stopped(), self._runs())
        except Unavailable:
            return GuardReport(health, readings, None, None)


def _read(meter: Meter) -> Reading:
    try:
        value = meter.read()
    except Unavailable:
        value = None
    return Reading(meter.name, value, meter.limit(), meter.unit)


class FrontDoor:
    """The synthetic check: whether the platform answers a client at its public address."""

    def __init__(self, url: str, get_health: Callable[[str], str], now: Callable[[], float]) -> None:
        self._url, self._get_health, self._now = url, get_health, now

    def check(self) -> bool:
        began = self._now()
        try:
            status = self._get_health(self._url)
        except Unavailable as error:
            status = error.message
        is_ok = status == "ok"
        metrics.emit("FrontDoorAnswers", int(is_ok))
        metrics.emit("FrontDoorMilliseconds", 1000 * (self._now() - began), "Milliseconds")
        if not is_ok:
            logger.error("front door does not answer", url=self._url, reason=status)
        return is_ok


def waiting_nodes(lanes: Callable[[], Sequence[LaneState]]) -> Callable[[], float]:
    """Reads how many nodes wait in all lanes together."""
    return lambda: sum(lane.depth for lane in lanes())
