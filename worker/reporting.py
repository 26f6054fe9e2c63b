"""Sends the reports of one attempt to the progress queue: start, progress at a bounded rate, and one end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from artiway.tasks.contract import Engine, Fault, Output, ReportData
from worker.attempt import Attempt, Stop, Stopped
from worker.engines.base import EngineInfo
from worker.errors import AttemptFailed
from worker.logs import Logger
from worker.ports import ProgressQueue, ServiceFailed

logger = Logger("reporting")
STEP_PERCENT = 10
BACKOFF_MAX_S = 5.0


class Reporter:
    def __init__(
        self,
        queue: ProgressQueue,
        attempt: Attempt,
        worker_id: str,
        *,
        interval_s: Callable[[], float] = lambda: 2.0,
        min_gap_s: float = 0.25,
        give_up_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._queue, self._attempt, self._worker_id = queue, attempt, worker_id
        self._interval_s, self._min_gap_s, self._give_up_s = interval_s, min_gap_s, give_up_s
        self._clock, self._sleep = clock, sleep
        self._sequence = 0
        self._sent_percent, self._sent_at = 0, clock()

    def progress(self, percent: float, gpu_s: float = 0.0) -> None:
        """Send progress after each 10 % or each interval, with a minimum gap, and never a lower value."""
        now, value = self._clock(), min(99, int(percent))
        since = now - self._sent_at
        is_step = value - self._sent_percent >= STEP_PERCENT and since >= self._min_gap_s
        if value > self._sent_percent and (is_step or since >= self._interval_s()):
            self._sent_percent, self._sent_at = value, now
            self._send_once("progress", progress=value, gpu_seconds=round(gpu_s, 3))

    def result(self, outputs: Sequence[Output], engine: EngineInfo, gpu_s: float) -> None:
        self._send_until_accepted(
            "result",
            progress=100,
            gpu_seconds=round(gpu_s, 3),
            outputs=list(outputs),
            engine=Engine(name=engine.name, version=engine.version, is_neural=engine.is_neural, detail=engine.detail),
        )

    def failure(self, error: AttemptFailed, gpu_s: float) -> None:
        fault = Fault(code=error.code, message=error.message[:500], is_retryable=error.is_retryable)
        self._send_until_accepted("failure", progress=self._sent_percent, gpu_seconds=round(gpu_s, 3), error=fault)

    def _envelope(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        self._sequence += 1
        node = self._attempt.node
        return {
            "type": kind,
            "aggregate": f"node:{node.node_id}",
            "traceId": self._attempt.trace_id,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "data": ReportData(
                node_id=node.node_id,
                task_id=node.task_id,
                tenant_id=node.tenant_id,
                attempt=node.attempt,
                worker_id=self._worker_id,
                sequence=self._sequence,
                **{"gpu_seconds": 0, **fields},
            ).as_wire(),
        }

    def _send_once(self, kind: str, **fields: Any) -> None:
        """Send progress without a retry: the attempt continues without it."""
        try:
            self._queue.send(self._envelope(kind, fields), tenant_id=self._attempt.node.tenant_id)
        except ServiceFailed as error:
            logger.warning("progress not sent", node_id=self._attempt.node.node_id, kind=kind, error=str(error))

    def _send_until_accepted(self, kind: str, **fields: Any) -> None:
        """Retry until the queue accepts the end of the attempt, the lease is lost or the time is over."""
        envelope = self._envelope(kind, fields)
        deadline, pause = self._clock() + self._give_up_s, 0.2
        while True:
            if self._attempt.reason is Stop.FENCED:
                raise Stopped(Stop.FENCED)
            try:
                self._queue.send(envelope, tenant_id=self._attempt.node.tenant_id)
            except ServiceFailed as error:
                logger.warning("end not sent", node_id=self._attempt.node.node_id, kind=kind, error=str(error))
                if self._clock() >= deadline:
                    raise
            else:
                return
            self._sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 (jitter)
            pause = min(pause * 2, BACKOFF_MAX_S)
