"""One call renews every lease and returns the nodes to stop, and whether to drain. A lease without an answer for its
whole time is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from artiway.tasks.contract import Verdict
from worker.attempt import Attempt, Leases, Stop
from worker.logs import Logger
from worker.ports import Internal, ServiceFailed

logger = Logger("heartbeat")
RETRY_S = 2.0


class Heartbeat:
    def __init__(
        self,
        internal: Internal,
        leases: Leases,
        describe: Callable[[], Mapping[str, Any]],
        *,
        on_drain: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        beat_file: str = "",
    ) -> None:
        self._internal, self._leases, self._describe, self._clock = internal, leases, describe, clock
        self._on_drain = on_drain
        self._beat_file = Path(beat_file) if beat_file else None
        self._end = threading.Event()

    def beat(self) -> bool:
        """Send one heartbeat. False if `internal` did not answer; then leases that have expired here are given up."""
        sent_at = self._clock()  # the lease counts from before the call, so it never ends later here than in `internal`
        held = self._leases.held()
        try:
            answer = self._internal.beat(self._describe(), [attempt.node for attempt in held])
        except ServiceFailed as error:
            logger.warning("heartbeat failed", error=str(error), nodes=len(held))
            verdicts: dict[str, Verdict] = {}
            answered = False
        else:
            verdicts = {row.node_id: row.verdict for row in answer.nodes}
            answered = True
            if answer.drain:
                self._on_drain()
            if self._beat_file is not None:
                self._beat_file.touch()
        for attempt in held:
            self._apply(attempt, verdicts.get(attempt.node.node_id), sent_at)
        return answered

    def _apply(self, attempt: Attempt, verdict: Verdict | None, sent_at: float) -> None:
        if verdict is Verdict.GO:
            attempt.renew(sent_at)
        elif verdict is Verdict.CANCELLED:
            attempt.stop(Stop.CANCELLED)
        elif (verdict is Verdict.FENCED or attempt.is_lease_over(self._clock())) and attempt.stop(Stop.FENCED):
            logger.warning("lease lost", node_id=attempt.node.node_id, attempt=attempt.node.attempt)

    def run(self, beat_s: float) -> None:
        while not self._end.wait(self._beat_and_pause(beat_s)):
            pass

    def _beat_and_pause(self, beat_s: float) -> float:
        try:
            return beat_s if self.beat() else min(RETRY_S, beat_s)
        except Exception as error:  # noqa: BLE001 (without a heartbeat the worker would lose every lease)
            logger.error("heartbeat raised", error=repr(error))
            return min(RETRY_S, beat_s)

    def end(self) -> None:
        self._end.set()
