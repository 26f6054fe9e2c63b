"""Loaded models within a memory budget. The least recently used is evicted first. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from worker.errors import EngineBusy

Model = TypeVar("Model")


@dataclass
class Entry(Generic[Model]):
    memory_mb: int
    model: Model | None = None
    users: int = 0
    ready: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class ModelCache(Generic[Model]):
    """A model in use is never evicted. A model that several threads request is loaded once."""

    def __init__(self, budget_mb: int, unload: Callable[[Model], None] = lambda _model: None) -> None:
        self._budget_mb, self._unload = budget_mb, unload
        self._entries: OrderedDict[str, Entry[Model]] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, name: str, memory_mb: int, load: Callable[[], Model]) -> Iterator[Model]:
        entry, is_new = self._take(name, memory_mb)
        try:
            if is_new:
                self._load(name, entry, load)
            entry.ready.wait()
            if entry.error is not None:
                raise entry.error
            assert entry.model is not None
            yield entry.model
        finally:
            with self._lock:
                entry.users -= 1

    def names(self) -> list[str]:
        """Least recently used first."""
        with self._lock:
            return list(self._entries)

    def used_mb(self) -> int:
        with self._lock:
            return sum(entry.memory_mb for entry in self._entries.values())

    def _take(self, name: str, memory_mb: int) -> tuple[Entry[Model], bool]:
        evicted: list[Model] = []
        with self._lock:
            entry = self._entries.get(name)
            is_new = entry is None
            if entry is None:
                evicted = self._make_room(memory_mb)
                entry = self._entries[name] = Entry(memory_mb)
            self._entries.move_to_end(name)
            entry.users += 1
        for model in evicted:
            self._unload(model)
        return entry, is_new

    def _make_room(self, memory_mb: int) -> list[Model]:
        used = sum(entry.memory_mb for entry in self._entries.values())
        idle = [name for name, entry in self._entries.items() if entry.users == 0]
        evicted: list[Model] = []
        if used - sum(self._entries[name].memory_mb for name in idle) + memory_mb > self._budget_mb:
            raise EngineBusy(
                f"a model of {memory_mb} MB does not fit beside those in use ({self._budget_mb} MB in all)"
            )
        for name in idle:
            if used + memory_mb <= self._budget_mb:
                break
            entry = self._entries.pop(name)
            used -= entry.memory_mb
            if entry.model is not None:
                evicted.append(entry.model)
        return evicted

    def _load(self, name: str, entry: Entry[Model], load: Callable[[], Model]) -> None:
        try:
            entry.model = load()
        except BaseException as error:
            entry.error = error
            with self._lock:
                if self._entries.get(name) is entry:
                    del self._entries[name]  # the next use loads it again
            raise
        finally:
            entry.ready.set()
