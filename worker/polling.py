"""Polls the work queues for a free slot."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from worker.logs import Logger
from worker.model import WorkMessage
from worker.ports import ServiceFailed, WorkQueue

logger = Logger("polling")
BACKOFF_S, BACKOFF_MAX_S = 0.5, 15.0
TURN_S = 1  # long poll on one of several queues, before the next one has its turn
EAGER_S = 10.0  # after the slot has run a node


class QueuePoller:
    """Polls the queues of one slot: in each round a long poll on each queue in turn.

    After a node the next one is likely: for some seconds only the first queue of a round has a long poll. A short poll
    asks some of the servers of SQS and can miss a message; the long poll of a later round finds it.
    Only a free slot polls, so it receives no message that it cannot claim at once: SQS counts each receive and moves
    a message with too many receives to the dead letters.
    """

    def __init__(
        self,
        queue: WorkQueue,
        types: Sequence[str],
        *,
        start: int,
        wait_s: int,
        stopping: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue, self._types, self._stopping = queue, deque(types), stopping
        self._types.rotate(-start)
        self._wait_s = wait_s if len(types) == 1 else min(TURN_S, wait_s)
        self._clock, self._eager_until, self._has_run = clock, 0.0, False
        self._pause_s = BACKOFF_S

    def poll(self) -> WorkMessage | None:
        """The first message of a round, or None if there is none or the worker is stopping."""
        self._types.rotate(-1)
        if self._has_run:
            self._eager_until, self._has_run = self._clock() + EAGER_S, False
        for index, node_type in enumerate(self._types):
            if self._stopping.is_set():
                return None
            is_eager = self._clock() < self._eager_until
            if message := self._receive(node_type, 0 if is_eager and index > 0 else self._wait_s):
                self._has_run = True
                return message
        return None

    def _receive(self, node_type: str, wait_s: int) -> WorkMessage | None:
        try:
            message = self._queue.receive(node_type, wait_s)
        except ServiceFailed as error:
            logger.warning("queue did not answer", node_type=node_type, error=str(error))
            self._stopping.wait(jittered(self._pause_s))
            self._pause_s = min(self._pause_s * 2, BACKOFF_MAX_S)
            return None
        self._pause_s = BACKOFF_S
        return message


def jittered(pause_s: float) -> float:
    return pause_s * random.uniform(0.5, 1.5)  # noqa: S311
