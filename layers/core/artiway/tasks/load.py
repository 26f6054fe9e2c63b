"""Caches a lane's load for a moment, because counting it for each submission would be expensive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from artiway.platform.clock import Clock
from artiway.tasks.model import LaneLoad


def cached(count: Callable[[str], LaneLoad], clock: Clock, *, for_s: float) -> Callable[[str], LaneLoad]:
    known: dict[str, tuple[datetime, LaneLoad]] = {}

    def load_of(lane: str) -> LaneLoad:
        now = clock.now()
        if lane not in known or known[lane][0] <= now:
            known[lane] = (now + timedelta(seconds=for_s), count(lane))
        return known[lane][1]

    return load_of
