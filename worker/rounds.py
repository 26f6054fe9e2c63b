"""How a free slot looks for work on the queues of its types."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence

from worker.logs import Logger
from worker.model import WorkMessage
from worker.ports import OutsideFailed, WorkQueue

logger = Logger("rounds")
BACKOFF_S, BACKOFF_MAX_S = 0.5, 15.0
GLANCE_S = 1  # of waiting at one of several queues before the others are looked at again


class Rounds:
    """One slot's rounds of the queues: wait at one, each round another, and look at the rest in passing.

    Only a free slot goes round, so nothing is received that cannot be worked on at once: each receipt of a message
    counts, and one that was received too often is taken for a dead letter.
    """

    def __init__(
        self, queue: WorkQueue, types: Sequence[str], *, start: int, wait_s: int, stopping: threading.Event
    ) -> None:
        self._queue, self._types, self._stopping = queue, deque(types), stopping
        self._types.rotate(-start)
        self._wait_s = wait_s if len(types) == 1 else min(GLANCE_S, wait_s)
        self._pause_s = BACKOFF_S

    def next(self) -> WorkMessage | None:
        """The first message of a round; None if there was none, or if the worker is stopping."""
        self._types.rotate(-1)
        for place, node_type in enumerate(self._types):
            if self._stopping.is_set():
                return None
            if message := self._receive(node_type, self._wait_s if place == 0 else 0):
                return message
        return None

    def _receive(self, node_type: str, wait_s: int) -> WorkMessage | None:
        try:
            message = self._queue.receive(node_type, wait_s)
        except OutsideFailed as error:
            logger.warning("queue did not answer", node_type=node_type, error=str(error))
            self._stopping.wait(jittered(self._pause_s))
            self._pause_s = min(self._pause_s * 2, BACKOFF_MAX_S)
            return None
        self._pause_s = BACKOFF_S
        return message


def jittered(pause_s: float) -> float:
    return pause_s * random.uniform(0.5, 1.5)  # noqa: S311
