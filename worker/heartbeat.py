"""One call renews every lease with the addresses of its pictures, and returns the nodes to stop, the settings in force
and whether to drain. A lease without an answer for its whole time is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from artiway.tasks.contract import NodeVerdict, Settings, Verdict
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
        self.settings = Settings()
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
            rows: dict[str, NodeVerdict] = {}
            answered = False
        else:
            rows = {row.node_id: row for row in answer.nodes}
            answered = True
            self.take(answer.settings)
            if answer.drain:
                self._on_drain()
            if self._beat_file is not None:
                self._beat_file.touch()
        for attempt in held:
            self._apply(attempt, rows.get(attempt.node.node_id), sent_at)
        return answered

    def take(self, settings: Settings | None) -> None:
        """Use changed settings from now on. A platform of the release before sends none."""
        if settings is not None and settings.version != self.settings.version:
            self.settings = settings
            logger.info("settings taken", **settings.model_dump())

    def _apply(self, attempt: Attempt, row: NodeVerdict | None, sent_at: float) -> None:
        verdict = row.verdict if row else None
        if row and verdict is Verdict.GO:
            lease_s = self.settings.lease_seconds if self.settings.version else None
            attempt.renew(sent_at, urls=row.urls, lease_s=lease_s)
        elif verdict is Verdict.CANCELLED:
            attempt.stop(Stop.CANCELLED)
        elif (verdict is Verdict.FENCED or attempt.is_lease_over(self._clock())) and attempt.stop(Stop.FENCED):
            logger.warning("lease lost", node_id=attempt.node.node_id, attempt=attempt.node.attempt)

    def run(self, beat_s: float) -> None:
        """`beat_s` is for a platform that sends no settings."""
        while not self._end.wait(self._beat_and_pause(beat_s)):
            pass

    def _beat_and_pause(self, beat_s: float) -> float:
        try:
            answered = self.beat()
        except Exception as error:  # noqa: BLE001 (without a heartbeat the worker would lose every lease)
            logger.error("heartbeat raised", error=repr(error))
            answered = False
        pause_s = self.settings.beat_seconds if self.settings.version else beat_s
        return pause_s if answered else min(RETRY_S, pause_s)

    def end(self) -> None:
        self._end.set()
