"""The trigger of jobs: a schedule starts it each minute, and it makes a pass every few seconds of that minute."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from artiway import bootstrap
from artiway.platform import tracing
from artiway.platform.logs import Logger

logger = Logger("trigger")


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """`{"once": true}` makes a single pass, for operators and tests."""
    settings = bootstrap.settings()
    counts: Counter[str] = Counter()
    next_at = time.monotonic()
    deadline = next_at + (0 if event.get("once") else settings.trigger_work_s)
    with tracing.traced(None):
        bootstrap.trigger().keep_warm()
        while True:
            counts.update(bootstrap.trigger().run_pass())
            next_at = max(next_at + settings.trigger_interval_s, time.monotonic())
            if next_at >= deadline:
                break
            time.sleep(next_at - time.monotonic())
    logger.info("jobs triggered", counts=dict(counts))
    return dict(counts)
