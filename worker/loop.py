"""The worker's life: register, poll, claim, run, beat, drain. It may die at any line: fences cover the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from artiway.tasks.contract import Node, Terms
from worker.attempt import Attempt, Leases, Stop
from worker.heartbeat import Heartbeat
from worker.logs import Logger
from worker.model import WorkMessage
from worker.ports import Internal, OutsideFailed, ProgressQueue, WorkQueue
from worker.reporting import Reporter
from worker.rounds import BACKOFF_MAX_S, BACKOFF_S, Rounds, jittered
from worker.runner import Runner, Slot
from worker.settings import WorkerSettings

logger = Logger("worker")
RELEASE_S = 5.0


class Worker:
    def __init__(
        self,
        settings: WorkerSettings,
        *,
        worker_id: str,
        queue: WorkQueue,
        progress: ProgressQueue,
        internal: Internal,
        runner: Runner,
        slots: Sequence[Slot],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._worker_id = settings, worker_id
        self._queue, self._progress, self._internal, self._runner = queue, progress, internal, runner
        self._slots, self._clock = slots, clock
        self._stopping = threading.Event()
        self.leases = Leases()
        self.heartbeat = Heartbeat(internal, self.leases, self.describe, clock=clock, beat_file=settings.beat_file)

    def describe(self) -> dict[str, Any]:
        """How the scheduler sees us; without slots once we are leaving."""
        return {
            "workerId": self._worker_id,
            "pool": self._settings.worker_pool,
            "types": [str(node_type) for node_type in self._settings.types],
            "slots": 0 if self._stopping.is_set() else len(self._slots),
            "engine": self._settings.engine_names,
        }

    def stop(self) -> None:
        """Safe in a signal handler: it only raises a flag."""
        self._stopping.set()

    def run(self) -> None:
        terms = self.register()
        if terms is None:
            return
        beating = threading.Thread(target=self.heartbeat.run, args=(terms.beat_seconds,), name="beat", daemon=True)
        beating.start()
        for place, slot in enumerate(self._slots):
            threading.Thread(target=self._serve, args=(slot, place), name=f"slot-{place}", daemon=True).start()
        self._stopping.wait()
        self.drain()
        self.heartbeat.end()

    def register(self) -> Terms | None:
        pause = BACKOFF_S
        while not self._stopping.is_set():
            try:
                terms = self._internal.register(self.describe())
            except OutsideFailed as error:
                logger.warning("not registered yet", error=str(error))
                self._stopping.wait(jittered(pause))
                pause = min(pause * 2, BACKOFF_MAX_S)
            else:
                logger.info("registered", **self.describe())
                return terms
        return None

    def _serve(self, slot: Slot, place: int) -> None:
        """A slot's life."""
        types = [str(node_type) for node_type in self._settings.types]
        rounds = Rounds(self._queue, types, start=place, wait_s=self._settings.poll_wait_s, stopping=self._stopping)
        while not self._stopping.is_set():
            if message := rounds.next():
                self.accept(message, slot)

    def accept(self, message: WorkMessage, slot: Slot) -> None:
        """Work on a message if we are staying; otherwise somebody else may have it at once."""
        if self._stopping.is_set():
            self._quietly(self._queue.give_back, message)
        else:
            self._work(message, slot)

    def _work(self, message: WorkMessage, slot: Slot) -> None:
        try:
            attempt = self._claim(message)
            if attempt is not None:
                try:
                    self._run(attempt, slot)
                finally:
                    self.leases.remove(attempt)
        except Exception as error:  # noqa: BLE001 (one node's bug must not take the worker's other nodes with it)
            logger.error("attempt broke", error=repr(error))

    def _claim(self, message: WorkMessage) -> Attempt | None:
        if message.hint is None:
            logger.error("message is not work", node_type=message.node_type)
            self._quietly(self._queue.delete, message)
            return None
        claimed_at = self._clock()
        try:
            node = self._internal.claim(
                node_id=message.hint.node_id, attempt=message.hint.attempt, worker_id=self._worker_id
            )
        except OutsideFailed as error:
            # The message comes back by itself; if the claim did succeed, its lease runs out and the node is tried anew.
            logger.warning("claim not answered", node_id=message.hint.node_id, error=str(error))
            self._stopping.wait(jittered(BACKOFF_S))
            return None
        attempt = None if node is None else Attempt(node, claimed_at=claimed_at, trace_id=message.trace_id)
        if attempt is not None:
            self.leases.add(attempt)  # before anything else can fail: from here on beats renew it
        self._quietly(self._queue.delete, message)
        return attempt

    def _run(self, attempt: Attempt, slot: Slot) -> None:
        if self._stopping.is_set() and attempt.stop(Stop.DRAINED):
            self._release([attempt.node])  # claimed in the very moment of the signal
            return
        reporter = Reporter(
            self._progress,
            attempt,
            self._worker_id,
            interval_s=self._settings.progress_interval_s,
            min_gap_s=self._settings.progress_min_gap_s,
            give_up_s=self._settings.report_s,
        )
        self._runner.run(attempt, slot, reporter)

    def drain(self) -> None:
        """Finish what can be finished, hand back the rest, tell the scheduler at once that we are leaving."""
        logger.info("draining", nodes=len(self.leases.held()))
        self.heartbeat.beat()
        if self.leases.wait_until_none(self._settings.drain_s):
            return
        # Stopped first, released second: nothing of ours can report a node after it was handed back.
        stopped = [attempt.node for attempt in self.leases.held() if attempt.stop(Stop.DRAINED)]
        if stopped:
            self._release(stopped)
        self.leases.wait_until_none(RELEASE_S)

    def _release(self, nodes: Sequence[Node]) -> None:
        try:
            released = self._internal.release(worker_id=self._worker_id, nodes=nodes)
            logger.info("handed back", asked=len(nodes), released=released)
        except OutsideFailed as error:
            logger.warning("not handed back; the leases will run out", nodes=len(nodes), error=str(error))

    @staticmethod
    def _quietly(act: Callable[[WorkMessage], None], message: WorkMessage) -> None:
        """A message that could not be deleted or given back comes again, and is claimed or dropped then."""
        try:
            act(message)
        except OutsideFailed as error:
            logger.warning("message stays on the queue", error=str(error))
