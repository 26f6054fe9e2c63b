"""Polls the work queues for a free slot."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence

from worker.logs import Logger
from worker.model import WorkMessage
from worker.ports import ServiceFailed, WorkQueue

logger = Logger("polling")
BACKOFF_S, BACKOFF_MAX_S = 0.5, 15.0
SHORT_POLL_S = 1  # long poll on one of several queues, before the others are polled again


class QueuePoller:
    """Polls the queues of one slot: in each round a long poll on the next queue and short polls on the others.

    Only a free slot polls, so it receives no message that it cannot claim at once: SQS counts each receive and moves
    a message with too many receives to the dead letters.
    """

    def __init__(
        self, queue: WorkQueue, types: Sequence[str], *, start: int, wait_s: int, stopping: threading.Event
    ) -> None:
        self._queue, self._types, self._stopping = queue, deque(types), stopping
        self._types.rotate(-start)
        self._wait_s = wait_s if len(types) == 1 else min(SHORT_POLL_S, wait_s)
        self._pause_s = BACKOFF_S

    def poll(self) -> WorkMessage | None:
        """The first message of a round, or None if there is none or the worker is stopping."""
        self._types.rotate(-1)
        for index, node_type in enumerate(self._types):
            if self._stopping.is_set():
                return None
            if message := self._receive(node_type, self._wait_s if index == 0 else 0):
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
