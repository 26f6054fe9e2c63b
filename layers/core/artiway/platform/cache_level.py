"""The first level of the cache: the texts that this process read lately, and how long they may be believed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

LARGEST_TEXT = 65_536  # what is larger lives in Redis alone


class Entry(NamedTuple):
    text: str
    expires_at: float
    checked_at: float


class FirstLevel:
    """Least recently used go first. `head` is the last invalidation that this process has heard of."""

    def __init__(self, most_entries: int, longest_s: float) -> None:
        self._most_entries, self._longest_s = most_entries, longest_s
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._guard = threading.Lock()
        self._synced_at = float("-inf")
        self.head: str | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now: float, sync_s: float) -> str | None:
        """What is known and was confirmed lately: by a look at the head, or by being read itself."""
        if key not in self._entries:
            return None  # most often so, and no reason to wait for other threads
        with self._guard:
            entry = self._entries.get(key)
            # A clock that was set back makes everything doubtful, not everything young.
            if entry is None or not 0 <= now - max(self._synced_at, entry.checked_at) <= sync_s:
                return None
            if now >= entry.expires_at:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry.text

    def keep(self, key: str, stored: str, head: str | None, asked_at: float) -> str:
        """Take over what Redis holds, `expires_ms:text`, for what is left of its life; the text."""
        expires_ms, _, text = stored.partition(":")
        if not expires_ms.isdecimal():
            return ""  # not ours, and no JSON: the reader finds out
        expires_at = min(int(expires_ms) / 1000, asked_at + self._longest_s)
        self.put(key, Entry(text, expires_at, checked_at=asked_at), head)
        return text

    def put(self, key: str, entry: Entry, head: str | None) -> None:
        """Keep what was read under `head`. Had another thread moved on since, it could be what was just invalidated."""
        with self._guard:
            if head != self.head or len(entry.text) > LARGEST_TEXT:
                return
            self._entries[key] = entry
            self._entries.move_to_end(key)
            while len(self._entries) > self._most_entries:
                self._entries.popitem(last=False)

    def is_synced(self, now: float, sync_s: float) -> bool:
        return 0 <= now - self._synced_at <= sync_s

    def synced(self, at: float) -> None:
        with self._guard:
            self._synced_at = max(self._synced_at, at)

    def move(self, known: str | None, head: str | None, news: Iterable[str] | None, at: float) -> None:
        """Go from one head to the next, forgetting what lies between; forget all when that is not known."""
        with self._guard:
            if self.head != known:
                return  # another thread was faster
            if news is None:
                self._entries.clear()
            else:
                for what in news:
                    self._drop(what)
            self.head = head
            self._synced_at = at

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        with self._guard:
            for key in filter(is_meant, list(self._entries)):
                del self._entries[key]

    def _drop(self, what: str) -> None:
        if what.endswith("*"):
            for key in [key for key in self._entries if key.startswith(what[:-1])]:
                del self._entries[key]
        else:
            self._entries.pop(what, None)
