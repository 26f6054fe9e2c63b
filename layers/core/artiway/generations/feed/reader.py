"""Serves a generation's events to a reader after the last one that it received: no text twice, none left out.

The reader's position is the attempt and the number of characters that it has. Text comes from Redis while it is
written, and from PostgreSQL where Redis lost it and after the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.delivery.feed.frames import (
    LEASE_MS,
    LEASE_SLACK_MS,
    OVER_RETRY_MS,
    READ_WAIT_S,
    REPLACED_RETRY_MS,
    RETRY_MS,
    TURN_MS,
    UNCOUNTED_LIFE_MS,
    Rhythm,
    monotonic_ms,
    retry,
)
from artiway.errors import Unavailable
from artiway.generations.feed.model import (
    TERMINAL,
    TEXTS,
    Entry,
    EntryId,
    Name,
    Restart,
    StoredText,
    Text,
)
from artiway.platform import metrics, waits

PAGE = 1_000
# A reader that is further behind gets its missing text as one event.
FAR_BEHIND = 200
# Redis has every event but may lose them; PostgreSQL has the text some seconds later.
READ_MS, READ_WITHOUT_REDIS_MS = 10_000, 1_000
GAP_PAUSE_S = 0.25


class FeedEntries(Protocol):
    def after(self, generation_id: UUID, last: EntryId, *, wait_ms: int, limit: int) -> list[Entry]: ...


class TextStore(Protocol):
    def stored(self, tenant_id: UUID, generation_id: UUID) -> StoredText:
        """The text so far and the end. Raises NoSuchGeneration for one of another tenant too."""


class Lease(Protocol):
    is_counted: bool

    def is_held(self) -> bool: ...


class Uncounted:
    """The lease of a reader that no newer one replaces."""

    is_counted = False

    def is_held(self) -> bool:
        return True


class Listeners(Protocol):
    def lease(self, *, tenant_id: UUID, user_id: UUID, ttl_ms: int) -> AbstractContextManager[Lease]: ...


class Position:
    """What one reader has received. It turns entries into those that the reader lacks."""

    def __init__(self, last: EntryId | None) -> None:
        self.last = last or EntryId()

    @property
    def characters(self) -> int:
        return self.last.characters

    def take(self, entry: Entry) -> list[Entry] | None:
        """The entry as the reader needs it. None: text before it is missing, or the end is of another text."""
        if entry.entry_id <= self.last:
            return []
        begun, characters = self._begun(entry.entry_id.attempt, is_restart=entry.name is Name.RESTART)
        if entry.name in TEXTS:
            if entry.offset > characters:
                return None
            part = Text(entry.text[characters - entry.offset :], characters, is_first=entry.name is Name.TOKEN)
            taken = [Entry.of(entry.entry_id, part)] if part.text else []
        elif entry.name in TERMINAL and entry.body.get("characters") != characters:
            return None
        else:
            taken = [entry]
        self.last = entry.entry_id
        return [*begun, *taken]

    def recover(self, stored: StoredText) -> list[Entry]:
        """What PostgreSQL has and the reader lacks."""
        if stored.attempt < self.last.attempt or self.last == EntryId.of_end(stored.attempt, len(stored.text)):
            return []
        attempt, length = stored.attempt, len(stored.text)
        is_begun = attempt > self.last.attempt
        entries, characters = self._begun(attempt, is_restart=False)
        if stored.end is not None and characters > length:
            # The attempt was ended by a sweep, which had less of the text than this reader.
            entries, characters = [Entry.of(EntryId(attempt, 0), Restart())], 0
        if is_begun and stored.start is not None:
            entries.append(Entry.of(EntryId(attempt, len(entries)), stored.start))
        if characters < length:
            text = Text(stored.text[characters:], characters)
            entries.append(Entry.of(EntryId.of_text(attempt, length), text))
        if stored.end is not None:
            entries.append(Entry.of(EntryId.of_end(attempt, length), stored.end))
        if entries:
            self.last = entries[-1].entry_id
        return entries

    def _begun(self, attempt: int, *, is_restart: bool) -> tuple[list[Entry], int]:
        """At a newer attempt: the event with which the reader drops its text. And the characters that it has then."""
        if attempt == self.last.attempt:
            return [], self.characters
        if not self.characters or is_restart:
            return [], 0
        return [Entry.of(EntryId(attempt, 0), Restart())], 0


def compacted(entries: Sequence[Entry], *, is_new: bool) -> list[Entry]:
    """Only the last attempt, with all its text as one entry. A new reader has no text to drop."""
    restart = max((place for place, entry in enumerate(entries) if entry.name is Name.RESTART), default=-1)
    kept = [entry for entry in entries[max(restart, 0) :] if not (is_new and entry.name is Name.RESTART)]
    texts = [place for place, entry in enumerate(kept) if entry.name in TEXTS]
    if not texts:
        return kept
    first, last = kept[texts[0]], kept[texts[-1]]
    joined = Text("".join(kept[place].text for place in texts), first.offset)
    before = [entry for entry in kept[: texts[-1]] if entry.name in {Name.RESTART, Name.START}]
    return [*before, Entry.of(last.entry_id, joined), *kept[texts[-1] + 1 :]]


class Stored:
    """What PostgreSQL has of one generation, at the beginning of a stream and later."""

    def __init__(self, store: TextStore, tenant_id: UUID, generation_id: UUID) -> None:
        self._store, self._tenant_id, self._generation_id = store, tenant_id, generation_id
        self.first = self.now()

    def now(self) -> StoredText:
        return self._store.stored(self._tenant_id, self._generation_id)


class FeedReader:
    def __init__(
        self,
        store: TextStore,
        feed: FeedEntries,
        listeners: Listeners,
        *,
        pause: Callable[[float], None],
        now_ms: Callable[[], float] = monotonic_ms,
    ) -> None:
        self._store, self._feed, self._listeners = store, feed, listeners
        self._pause, self._now_ms = pause, now_ms

    def frames(
        self, *, tenant_id: UUID, user_id: UUID, generation_id: UUID, last: EntryId | None, life_ms: int
    ) -> Generator[str, None, None]:
        """The events after `last` as they come, until the terminal event or the end of the stream's life.

        Before the first frame: raises NoSuchGeneration, or TooManyListeners.
        """
        stored = Stored(self._store, tenant_id, generation_id)
        position = Position(last)
        metrics.emit("StreamReaders", 1)
        if last is not None:
            metrics.emit("StreamResumes", 1)
        if stored.first.end is not None:
            yield retry(OVER_RETRY_MS)
            yield from (entry.as_frame() for entry in position.recover(stored.first))
            return
        ttl_ms = life_ms + LEASE_SLACK_MS
        with self._listeners.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=ttl_ms) as lease:
            yield retry(RETRY_MS)
            rhythm = Rhythm(life_ms if lease.is_counted else min(life_ms, UNCOUNTED_LIFE_MS), now_ms=self._now_ms)
            for entry in self._entries(generation_id, position, rhythm, lease, stored, is_new=last is None):
                if isinstance(entry, str):
                    yield entry
                    continue
                yield entry.as_frame()
                rhythm.sent()
                if entry.name in TERMINAL:
                    yield retry(OVER_RETRY_MS)
                    return

    def follow(self, *, tenant_id: UUID, generation_id: UUID, life_ms: int) -> Generator[Entry | None, None, None]:
        """The entries from the first to the terminal one, for the request that made the text. None: a heartbeat is due.

        Such a request is not counted as a stream of events here: its reader cannot reconnect.
        """
        stored, position = Stored(self._store, tenant_id, generation_id), Position(None)
        if stored.first.end is not None:
            yield from position.recover(stored.first)
            return
        rhythm = Rhythm(life_ms, now_ms=self._now_ms)
        for entry in self._entries(generation_id, position, rhythm, Uncounted(), stored, is_new=True):
            if isinstance(entry, str):
                yield None
                continue
            yield entry
            rhythm.sent()
            if entry.name in TERMINAL:
                return

    def _entries(
        self,
        generation_id: UUID,
        position: Position,
        rhythm: Rhythm,
        lease: Lease,
        stored: Stored,
        *,
        is_new: bool,
    ) -> Iterator[Entry | str]:
        """The entries that the reader lacks, as they come, and frames that are no events."""
        entries, is_redis_away = self._after(generation_id, position.last, wait_ms=0)
        taken, is_whole = _taken(position, entries)
        if is_new or len(taken) > FAR_BEHIND:
            taken = compacted(taken, is_new=is_new)
        if not is_new:
            metrics.emit("StreamSnapshots", int(len(entries) > FAR_BEHIND))
        yield from taken
        yield from position.recover(stored.first)
        while not rhythm.is_over:
            if not is_whole or rhythm.is_due("read", READ_WITHOUT_REDIS_MS if is_redis_away else READ_MS):
                with contextlib.suppress(Unavailable), waits.counted(is_bounded=True, most_s=READ_WAIT_S):
                    yield from position.recover(stored.now())
            if not is_whole:
                self._pause(GAP_PAUSE_S)
            if rhythm.is_due("lease", LEASE_MS) and not lease.is_held():
                yield retry(REPLACED_RETRY_MS)
                return
            yield from rhythm.heartbeat()
            entries, is_redis_away = self._after(generation_id, position.last, wait_ms=TURN_MS)
            taken, is_whole = _taken(position, entries)
            yield from compacted(taken, is_new=False) if len(taken) > FAR_BEHIND else taken

    def _after(self, generation_id: UUID, last: EntryId, *, wait_ms: int) -> tuple[list[Entry], bool]:
        """All entries after `last`, and whether Redis is away."""
        found: list[Entry] = []
        try:
            while True:
                page = self._feed.after(generation_id, last, wait_ms=0 if found else wait_ms, limit=PAGE)
                found += page
                if len(page) < PAGE:
                    return found, False
                last = page[-1].entry_id
        except Unavailable:
            self._pause(wait_ms / 1_000)
            return found, True


def _taken(position: Position, entries: Sequence[Entry]) -> tuple[list[Entry], bool]:
    """What the reader lacks of these entries, up to the first that does not fit."""
    taken: list[Entry] = []
    for entry in entries:
        part = position.take(entry)
        if part is None:
            return taken, False
        taken += part
    return taken, True
