"""The first level of the cache: the texts that this process read recently, and until when they are valid."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

LARGEST_TEXT = 65_536  # larger texts are kept in Redis only


class Entry(NamedTuple):
    text: str
    expires_at: float
    checked_at: float


class FirstLevel:
    """Evicts the least recently used entry. `head` is the last invalidation that this process has read."""

    def __init__(self, most_entries: int, longest_s: float) -> None:
        self._most_entries, self._longest_s = most_entries, longest_s
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._guard = threading.Lock()
        self._synced_at = float("-inf")
        self.head: str | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, now: float, sync_s: float) -> str | None:
        """An entry that was confirmed within `sync_s`, by a read of the head or by its own read."""
        if key not in self._entries:
            return None  # the usual case, which needs no lock
        with self._guard:
            entry = self._entries.get(key)
            # After the clock was set back no entry is valid.
            if entry is None or not 0 <= now - max(self._synced_at, entry.checked_at) <= sync_s:
                return None
            if now >= entry.expires_at:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry.text

    def keep(self, key: str, stored: str, head: str | None, asked_at: float) -> str:
        """Keep a value of Redis, `expires_ms:text`, until it expires. Returns the text."""
        expires_ms, _, text = stored.partition(":")
        if not expires_ms.isdecimal():
            return ""  # not written by the cache; the reader fails to parse it and loads again
        expires_at = min(int(expires_ms) / 1000, asked_at + self._longest_s)
        self.put(key, Entry(text, expires_at, checked_at=asked_at), head)
        return text

    def put(self, key: str, entry: Entry, head: str | None) -> None:
        """Keep a value that was read under `head`, unless another thread moved the head: then it may be invalidated."""
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

    def move(self, known: str | None, head: str | None, invalidated: Iterable[str] | None, at: float) -> None:
        """Move to a new head and drop what was invalidated since. If that is not known, drop all entries."""
        with self._guard:
            if self.head != known:
                return  # another thread has moved the head
            if invalidated is None:
                self._entries.clear()
            else:
                for what in invalidated:
                    self._drop(what)
            self.head = head
            self._synced_at = at

    def forget(self, is_affected: Callable[[str], bool]) -> None:
        with self._guard:
            for key in filter(is_affected, list(self._entries)):
                del self._entries[key]

    def _drop(self, what: str) -> None:
        if what.endswith("*"):
            for key in [key for key in self._entries if key.startswith(what[:-1])]:
                del self._entries[key]
        else:
            self._entries.pop(what, None)
