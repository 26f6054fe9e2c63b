"""The outbox's sweep: a schedule starts it each minute, and it sweeps repeatedly until the minute is over."""

from __future__ import annotations

import time
from typing import Any

from artiway import bootstrap
from artiway.platform import metrics, tracing
from artiway.platform.logs import Logger

logger = Logger("relay")


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """`{"once": true}` makes a single pass, for operators and tests."""
    settings = bootstrap.settings()
    sent = 0
    deadline = time.monotonic() + (0 if event.get("once") else settings.relay_work_s)
    with tracing.traced(None):
        while True:
            sent += _drain()
            metrics.emit("OutboxOldestSeconds", bootstrap.relay().oldest_unsent_age_s(), "Seconds")
            if time.monotonic() + settings.relay_pass_interval_s >= deadline:
                break
            time.sleep(settings.relay_pass_interval_s)
        bootstrap.push().forget_expired()
    logger.info("outbox swept", sent=sent)
    return {"sent": sent}


def _drain() -> int:
    """Sweep until a pass is no longer full."""
    settings = bootstrap.settings()
    total = 0
    while sent := bootstrap.relay().sweep(age_s=settings.outbox_sweep_age_s, limit=settings.outbox_batch):
        total += sent
        if sent < settings.outbox_batch:
            break
    return total
