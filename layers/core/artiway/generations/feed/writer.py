"""Writes the events of one attempt. A lost Redis never fails it: the text is written again once Redis is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

from artiway.errors import Unavailable
from artiway.generations.feed.model import Appended, End, Event, Info, Restart, Start, Text, TextBatch
from artiway.platform import metrics


class Feed(Protocol):
    def append(self, generation_id: UUID, attempt: int, events: Sequence[Event]) -> Appended:
        """Append all events or none. Text that is in the stream already is left out, so a call may be repeated."""


def publish_end(feed: Feed, generation_id: UUID, attempt: int, *, text: str, end: End) -> None:
    """Append the terminal event for an attempt without a writer: one that a sweep or a cancel ended."""
    try:
        feed.append(generation_id, attempt, [Text(text, 0), end] if text else [end])
    except Unavailable:
        metrics.emit("FeedMisses", 1)


def monotonic_ms() -> float:
    return time.monotonic() * 1_000


class FeedWriter:
    """One attempt's events. Use it as a context manager: a thread of its own sends text that waits for a full batch.

    `close` is called after the transaction that ended the generation. Without it the stream stays open, and readers
    find the end in PostgreSQL.
    """

    def __init__(
        self,
        feed: Feed,
        generation_id: UUID,
        attempt: int,
        *,
        first_attempt: int = 1,
        now_ms: Callable[[], float] = monotonic_ms,
    ) -> None:
        """No attempt before `first_attempt` had text, so there is none to drop."""
        self._is_again = attempt > first_attempt
        self._feed, self._generation_id, self._attempt, self._now_ms = feed, generation_id, attempt, now_ms
        self._batch = TextBatch()
        self._first: list[Event] = []
        self._unsent_first: list[Event] = []
        self._written: list[str] = []
        self._sent: list[str] = []
        self._outcome = Appended.APPENDED
        self._changed = threading.Condition()
        self._is_over = False
        self._flusher = threading.Thread(target=self._flush_pending, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._flusher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._send(self._batch.flush(now_ms=self._now_ms()))
            self._is_over = True
            self._changed.notify()
        self._flusher.join()

    @property
    def text(self) -> str:
        """The whole text of the attempt so far, for a snapshot and for the end."""
        with self._changed:
            return "".join(self._written)

    @property
    def is_fenced(self) -> bool:
        """A newer attempt writes, or the generation has ended: this attempt must stop."""
        return self._outcome in {Appended.FENCED, Appended.ENDED}

    def start(self, start: Start) -> None:
        """The first event. After `restart` readers drop the text that they have."""
        with self._changed:
            self._first = [Restart(), start] if self._is_again else [start]
            self._unsent_first = self._first
            self._append([])

    def write(self, text: str) -> None:
        with self._changed:
            if text:
                self._written.append(text)
            self._send(self._batch.add(text, now_ms=self._now_ms()))
            if not self._batch.is_empty:  # nothing waits for the thread otherwise, and waking it costs two switches
                self._changed.notify()

    def info(self, info: Info) -> None:
        with self._changed:
            self._send(self._batch.flush(now_ms=self._now_ms()))
            self._append([info])

    def close(self, end: End) -> None:
        with self._changed:
            last = self._batch.flush(now_ms=self._now_ms())
            if last is not None:
                self._sent.append(last.text)
            self._append([end] if last is None else [last, end])

    def _flush_pending(self) -> None:
        with self._changed:
            while not self._is_over:
                if self._batch.is_empty:
                    self._changed.wait()
                elif (wait_ms := self._batch.wait_ms(now_ms=self._now_ms())) > 0:
                    self._changed.wait(wait_ms / 1_000)
                else:
                    self._send(self._batch.flush(now_ms=self._now_ms()))

    def _send(self, text: Text | None) -> None:
        if text is not None:
            self._sent.append(text.text)
            self._append([text])

    def _append(self, events: Sequence[Event]) -> None:
        if self.is_fenced:
            return
        events = [*self._unsent_first, *events]
        try:
            self._outcome = self._feed.append(self._generation_id, self._attempt, events)
            if self._outcome is Appended.GAP:
                self._outcome = self._feed.append(self._generation_id, self._attempt, self._again(events))
                metrics.emit("FeedRewrites", 1)
            self._unsent_first = []
        except Unavailable:
            metrics.emit("FeedMisses", len(events))

    def _again(self, events: Sequence[Event]) -> list[Event]:
        """The attempt from its beginning: the first events, all text as one, and the others of this call."""
        text = [Text("".join(self._sent), 0)] if self._sent else []
        others = [event for event in events if not isinstance(event, Text | Start | Restart)]
        return [*self._first, *text, *others]
