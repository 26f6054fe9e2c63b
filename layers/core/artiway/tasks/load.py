"""A lane's load as it was a moment ago: counting anew for each submission would cost more than it tells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from artiway.platform.clock import Clock
from artiway.tasks.model import LaneLoad


def remembered(look: Callable[[str], LaneLoad], clock: Clock, *, for_s: float) -> Callable[[str], LaneLoad]:
    known: dict[str, tuple[datetime, LaneLoad]] = {}

    def load_of(lane: str) -> LaneLoad:
        now = clock.now()
        if lane not in known or known[lane][0] <= now:
            known[lane] = (now + timedelta(seconds=for_s), look(lane))
        return known[lane][1]

    return load_of
