"""The worker registers, polls, claims, runs, sends heartbeats and drains. Leases and fences cover a kill -9."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from artiway.tasks.contract import Node, Terms
from worker.attempt import Attempt, Leases, Stop
from worker.heartbeat import Heartbeat
from worker.logs import Logger, traced
from worker.model import WorkMessage
from worker.polling import BACKOFF_MAX_S, BACKOFF_S, QueuePoller, jittered
from worker.ports import Internal, ProgressQueue, ServiceFailed, WorkQueue
from worker.reporting import Reporter
from worker.runner import Runner, Slot
from worker.settings import WorkerSettings

logger = Logger("worker")
RELEASE_S = 5.0
PREPARE_S = 5.0  # weights may arrive in the folder while the worker runs


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
        self.heartbeat = Heartbeat(
            internal, self.leases, self.describe, on_drain=self.stop, clock=clock, beat_file=settings.beat_file
        )

    def describe(self) -> dict[str, Any]:
        """The worker as the scheduler sees it. It has no slots while it drains."""
        return {
            "workerId": self._worker_id,
            "pool": self._settings.worker_pool,
            "types": [str(node_type) for node_type in self._settings.types],
            "slots": 0 if self._stopping.is_set() else len(self._slots),
            "engine": self._settings.engine_names,
            "neural": self._runner.neural_steps(),
        }

    def stop(self) -> None:
        """Called by a signal, or by a heartbeat when an operator drains the worker. It only sets an event."""
        self._stopping.set()

    def run(self) -> None:
        faults = self._runner.prepare()  # before it registers: with its weights, its steps are no drafts
        terms = self.register()
        if terms is None:
            return
        if faults:
            logger.warning("weights are missing", faults=faults)
            threading.Thread(target=self._prepare_later, name="weights", daemon=True).start()
        self.heartbeat.take(terms.settings)
        beating = threading.Thread(target=self.heartbeat.run, args=(terms.beat_seconds,), name="beat", daemon=True)
        beating.start()
        for index, slot in enumerate(self._slots):
            threading.Thread(target=self._serve, args=(slot, index), name=f"slot-{index}", daemon=True).start()
        self._stopping.wait()
        self.drain()
        self.heartbeat.end()
        beating.join(RELEASE_S)  # a late heartbeat would register the worker again
        self._release([])

    def register(self) -> Terms | None:
        pause = BACKOFF_S
        while not self._stopping.is_set():
            try:
                terms = self._internal.register(self.describe())
            except ServiceFailed as error:
                logger.warning("not registered yet", error=str(error))
                self._stopping.wait(jittered(pause))
                pause = min(pause * 2, BACKOFF_MAX_S)
            else:
                logger.info("registered", **self.describe())
                return terms
        return None

    def _prepare_later(self) -> None:
        """In a thread of its own: a heartbeat that waited for a download would lose its leases."""
        while not self._stopping.wait(PREPARE_S):
            if not self._runner.prepare():
                logger.info("weights are complete")
                return

    def _serve(self, slot: Slot, index: int) -> None:
        types = [str(node_type) for node_type in self._settings.types]
        poller = QueuePoller(
            self._queue, types, start=index, wait_s=self._settings.poll_wait_s, stopping=self._stopping
        )
        while not self._stopping.is_set():
            if message := poller.poll():
                self.accept(message, slot)

    def accept(self, message: WorkMessage, slot: Slot) -> None:
        """Process a message. A worker that drains makes it visible again, so that another worker gets it at once."""
        if self._stopping.is_set():
            self._ignoring_failure(self._queue.make_visible, message)
        else:
            with traced(message.trace_id):
                self._process(message, slot)

    def _process(self, message: WorkMessage, slot: Slot) -> None:
        try:
            attempt = self._claim(message)
            if attempt is not None:
                try:
                    self._run(attempt, slot)
                finally:
                    self.leases.remove(attempt)
        except Exception as error:  # noqa: BLE001 (a bug in one node must not end the worker's other nodes)
            logger.error("attempt raised", error=repr(error))

    def _claim(self, message: WorkMessage) -> Attempt | None:
        if message.hint is None:
            logger.error("message is not a work message", node_type=message.node_type)
            self._ignoring_failure(self._queue.delete, message)
            return None
        claimed_at = self._clock()
        try:
            node = self._internal.claim(message.hint, worker_id=self._worker_id)
        except ServiceFailed as error:
            # SQS delivers the message again. If the claim did succeed, its lease expires and the node is retried.
            logger.warning("claim not answered", node_id=message.hint.node_id, error=str(error))
            self._stopping.wait(jittered(BACKOFF_S))
            return None
        attempt = None if node is None else Attempt(node, claimed_at=claimed_at, trace_id=message.trace_id)
        if attempt is not None:
            self.leases.add(attempt)  # first, so that heartbeats renew the lease from here on
        self._ignoring_failure(self._queue.delete, message)
        return attempt

    def _run(self, attempt: Attempt, slot: Slot) -> None:
        if self._stopping.is_set() and attempt.stop(Stop.DRAINED):
            self._release([attempt.node])  # the signal arrived during the claim
            return
        if not attempt.node.urls:
            # A platform of the release before hands out no addresses; a worker of that release can do the work.
            logger.error("no addresses for the node", node_id=attempt.node.node_id)
            if attempt.stop(Stop.DRAINED):
                self._release([attempt.node])
            self._stopping.wait(jittered(BACKOFF_MAX_S))
            return
        reporter = Reporter(
            self._progress,
            attempt,
            self._worker_id,
            interval_s=lambda: self.heartbeat.settings.progress_interval_ms / 1_000,
            min_gap_s=self._settings.progress_min_gap_s,
            give_up_s=self._settings.report_s,
        )
        self._runner.run(attempt, slot, reporter, renew=self.heartbeat.beat)

    def drain(self) -> None:
        """Report no free slots, wait for the running nodes, and release those that do not finish in time."""
        logger.info("draining", nodes=len(self.leases.held()))
        self.heartbeat.beat()
        if self.leases.wait_until_none(self._settings.drain_s):
            return
        # Stop before release: a stopped attempt cannot report a node that another worker may hold by then.
        stopped = [attempt.node for attempt in self.leases.held() if attempt.stop(Stop.DRAINED)]
        if stopped:
            self._release(stopped)
        self.leases.wait_until_none(RELEASE_S)

    def _release(self, nodes: Sequence[Node]) -> None:
        """Return nodes, and take the worker off the list of workers."""
        try:
            released = self._internal.release(worker_id=self._worker_id, nodes=nodes)
            logger.info("nodes released", requested=len(nodes), released=released)
        except ServiceFailed as error:
            logger.warning("nodes not released; their leases will expire", nodes=len(nodes), error=str(error))

    @staticmethod
    def _ignoring_failure(call: Callable[[WorkMessage], None], message: WorkMessage) -> None:
        """Ignore a failure: SQS delivers the message again, and the claim of that delivery decides."""
        try:
            call(message)
        except ServiceFailed as error:
            logger.warning("message stays on the queue", error=str(error))
