"""Faults on purpose: crashes around each effect, duplicated, refused, lost and delayed messages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from artiway.delivery.feed.queue import RedisFeed
from artiway.platform.database import Database
from artiway.tasks.model import Published, Report


class Crash(Exception):
    """The process crashed here."""


@dataclass
class Chaos:
    """Which faults happen, and how often. With all rates at zero nothing fails.

    The process can crash before and after each effect outside of it. Such a point is named by the actor and by its
    number within the action, so a run without faults collects the list of points.
    """

    random: Random
    crash: float = 0.0
    duplicate: float = 0.0
    refuse: float = 0.0
    lose: float = 0.0
    delay: float = 0.0
    actor: str = "none"
    passed: int = 0
    points: dict[str, None] = field(default_factory=dict)
    # The one point to crash at.
    crash_at: str | None = None

    def act(self, actor: str) -> None:
        self.actor, self.passed = actor, 0

    def point(self, name: str) -> None:
        self.passed += 1
        full = f"{self.actor} {self.passed}: {name}"
        self.points[full] = None
        if self.crash_at == full:
            self.crash_at = None
            raise Crash(full)
        if self.crash and self.random.random() < self.crash:
            raise Crash(full)

    @contextlib.contextmanager
    def around(self, effect: str) -> Iterator[None]:
        self.point(f"before {effect}")
        yield
        self.point(f"after {effect}")

    def stop(self) -> None:
        self.crash = self.duplicate = self.refuse = self.lose = self.delay = 0.0


def until_crash(action: Callable[[], object]) -> None:
    """Run an action of a process that may crash."""
    with contextlib.suppress(Crash):
        action()


class CrashingDatabase(Database):
    """Crashes before or after a commit, or in an action that follows it. A transaction without a write is no effect."""

    chaos: Chaos

    def _end(self, command: bytes) -> None:
        if command != b"COMMIT":
            super()._end(command)
            return
        if self._active is not None:
            self._active.callbacks = [_until_crash(callback) for callback in self._active.callbacks]
        if not self._has_written():
            super()._end(command)
            return
        try:
            with self.chaos.around("commit"):
                super()._end(command)
        except Crash:
            self._end(b"ROLLBACK")  # as the server does when the connection of the process breaks
            raise

    def _has_written(self) -> bool:
        assert self._connection is not None
        row = self._connection.execute(b"SELECT pg_current_xact_id_if_assigned() AS written").fetchone()
        return row is not None and row["written"] is not None


def _until_crash(callback: Callable[[], object]) -> Callable[[], object]:
    return lambda: until_crash(callback)


class CrashingFeed(RedisFeed):
    chaos: Chaos

    def add(self, events: Sequence[Published]) -> None:
        with self.chaos.around("event stream"):
            super().add(events)

    def note_progress(self, report: Report, node: str, body: dict[str, Any]) -> str:
        with self.chaos.around("progress stream"):
            return super().note_progress(report, node, body)
