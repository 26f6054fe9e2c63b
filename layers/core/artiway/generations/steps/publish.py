"""Step 5: pieces of text go to the readers at once, and about every five seconds a snapshot to PostgreSQL.

The snapshot renews the lease. A lost lease or a newer attempt stops this one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from time import monotonic

from artiway.generations.feed.model import Info, Start
from artiway.generations.feed.writer import FeedWriter
from artiway.generations.model import Generation, Rules
from artiway.generations.ports import WorkerStore
from artiway.platform import metrics

CANCEL_CHECK_S = 1.0
IDLE_S = 5.0


class Publication:
    """One attempt. `now` returns the time of day, `clock_s` a time that only rises."""

    def __init__(
        self,
        writer: FeedWriter,
        store: WorkerStore,
        generation: Generation,
        rules: Rules,
        *,
        now: Callable[[], datetime],
        clock_s: Callable[[], float] = monotonic,
        cancel_check_s: float = CANCEL_CHECK_S,
    ) -> None:
        self._writer, self._store, self._generation, self._rules = writer, store, generation, rules
        self._now, self._clock_s, self._cancel_check_s = now, clock_s, cancel_check_s
        self._began_s = self._beat_s = self._checked_s = self._content_s = clock_s()
        self._idle_s = self._began_s
        self._stored = ""
        self.first_token_at: datetime | None = None
        self.is_lost = False
        self.is_cancelled = False

    @property
    def text(self) -> str:
        return self._writer.text

    def start(self, provider: str, model_id: str) -> None:
        self._writer.start(
            Start(
                queue_id=self._generation.lane,
                provider=provider,
                model_id=model_id,
                request_id=f"{self._generation.wire_id}-{self._generation.attempt}",
                trace_id=self._generation.trace_id,
            )
        )

    def write(self, text: str) -> None:
        if self.first_token_at is None:
            self.first_token_at = self._now()
            metrics.emit("FirstTokenMs", 1_000 * (self._clock_s() - self._began_s), "Milliseconds")
        self.note_content()
        self._writer.write(text)

    def note_content(self) -> None:
        """Content arrived, shown or not."""
        self._content_s = self._idle_s = self._clock_s()

    def beat(self) -> None:
        """Between two items: renew the lease with a snapshot, and publish that the provider is silent."""
        now_s = self._clock_s()
        if now_s - self._idle_s >= IDLE_S:
            self._idle_s = now_s
            silent_s = round(now_s - self._content_s)
            self._writer.info(Info("stream_idle", {"seconds": silent_s}))
            metrics.emit("StreamIdleSeconds", silent_s, "Seconds")
        if now_s - self._beat_s >= min(self._rules.snapshot_s, self._rules.lease_s / 3):
            self._beat_s = now_s
            self._renew()

    def must_stop(self) -> bool:
        """Asked before each item. PostgreSQL is asked about once a second."""
        now_s = self._clock_s()
        if self._writer.is_fenced:
            self.is_lost = True
        if not self.is_lost and not self.is_cancelled and now_s - self._checked_s >= self._cancel_check_s:
            self._checked_s = now_s
            self.is_cancelled = self._store.is_cancelled(self._generation)
        return self.is_lost or self.is_cancelled

    def _renew(self) -> None:
        text = self._writer.text
        answer = self._store.renew(
            self._generation,
            lease_s=self._rules.lease_s,
            text=text if text != self._stored else None,
            first_token_at=self.first_token_at,
        )
        self._stored = text
        if answer is None:
            self.is_lost = True
        elif answer:
            self.is_cancelled = True
