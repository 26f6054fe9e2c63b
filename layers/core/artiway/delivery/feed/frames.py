"""Server-sent events as text, and the rhythm of a stream: heartbeats, and an end after a while.

A function that streams does not see its viewer leave, so it ends by itself and the viewer reconnects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

# Every hop between function and viewer ends a connection without bytes, CloudFront's after a minute.
HEARTBEAT = ": heartbeat\n\n"
HEARTBEAT_MS = 10_000
# A viewer reconnects this long after the end of a stream, after the last event, or if newer streams replaced it.
RETRY_MS, OVER_RETRY_MS, REPLACED_RETRY_MS = 200, 60_000, 5_000
# One wait for events. Shorter than the time that one command of Redis may take.
TURN_MS = 500
# The lease of a crashed function expires this long after its stream would have ended.
LEASE_SLACK_MS = 5_000
# Without Redis nobody counts the streams, so each of them keeps its function for a short time only.
UNCOUNTED_LIFE_MS = 2_000

# How often a stream checks that no newer stream of the same user has replaced it.
LEASE_MS = 1_000
# One read of the database during a stream.
READ_WAIT_S = 2.5


def monotonic_ms() -> float:
    return time.monotonic() * 1_000


def retry(wait_ms: int) -> str:
    return f"retry: {wait_ms}\n\n"


class Rhythm:
    """When a stream ends, and when a heartbeat or another act is due."""

    def __init__(self, life_ms: float, *, now_ms: Callable[[], float]) -> None:
        self._now_ms, self._begun_ms, self._life_ms = now_ms, now_ms(), life_ms
        self._done_ms: dict[str, float] = {}

    @property
    def is_over(self) -> bool:
        return self._now_ms() - self._begun_ms >= self._life_ms

    def sent(self) -> None:
        """A frame leaves now, so no heartbeat is due for a while."""
        self._done_ms[HEARTBEAT] = self._now_ms()

    def is_due(self, act: str, interval_ms: float) -> bool:
        """Whether the act was last done this long ago. If so, it is done now."""
        if self._now_ms() - self._done_ms.get(act, self._begun_ms) < interval_ms:
            return False
        self._done_ms[act] = self._now_ms()
        return True

    def heartbeat(self) -> Iterator[str]:
        """One heartbeat, if it is due."""
        if self.is_due(HEARTBEAT, HEARTBEAT_MS):
            yield HEARTBEAT
