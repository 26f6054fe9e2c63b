"""Says whether what we stand on is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from artiway.errors import Unavailable

Check = Callable[[], None]


@dataclass(frozen=True)
class Health:
    checks: Mapping[str, str]

    @property
    def is_ok(self) -> bool:
        return all(answer == "ok" for answer in self.checks.values())


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
