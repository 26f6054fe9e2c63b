"""One attempt at a node for which this worker holds the lease: its stop, its report and its lease time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from artiway.tasks.contract import Node


class Stop(StrEnum):
    CANCELLED = "cancelled"
    FENCED = "fenced"
    DRAINED = "drained"


class Stopped(Exception):
    """Raised inside an attempt that must end without a result."""

    def __init__(self, reason: Stop) -> None:
        super().__init__(reason)
        self.reason = reason


class Attempt:
    """An attempt is either stopped or reports its end, never both: the first call under the lock decides."""

    def __init__(self, node: Node, *, claimed_at: float, trace_id: str = "") -> None:
        self.node, self.trace_id = node, trace_id
        self._renewed_at = claimed_at
        self._lease_s = node.lease_seconds
        self._urls: Mapping[str, str] = node.urls
        self._lock = threading.Lock()
        self._reason: Stop | None = None
        self._is_reporting = False
        self._stop_callbacks: list[Callable[[], None]] = []

    @property
    def reason(self) -> Stop | None:
        return self._reason

    def stop(self, reason: Stop) -> bool:
        """True if this call stopped the attempt. A fence also stops an attempt that has begun to report."""
        with self._lock:
            if self._reason is not None or (self._is_reporting and reason is not Stop.FENCED):
                return False
            self._reason = reason
            callbacks = list(self._stop_callbacks)
        for callback in callbacks:
            callback()
        return True

    def on_stop(self, callback: Callable[[], None]) -> None:
        with self._lock:
            self._stop_callbacks.append(callback)
            is_late = self._reason is not None
        if is_late:
            callback()

    def check(self) -> None:
        if self._reason is not None:
            raise Stopped(self._reason)

    def begin_report(self) -> None:
        """Mark the attempt as reporting. From here on only a fence can stop it."""
        with self._lock:
            if self._reason is not None:
                raise Stopped(self._reason)
            self._is_reporting = True

    def renew(self, at: float, *, urls: Mapping[str, str] | None = None, lease_s: float | None = None) -> None:
        """`at` is before the heartbeat. Of two heartbeats at once the later one counts."""
        with self._lock:
            if at < self._renewed_at:
                return
            self._renewed_at = at
            self._urls = urls or self._urls
            self._lease_s = lease_s or self._lease_s

    def url(self, key: str) -> str:
        """The newest address of an input or output."""
        with self._lock:
            return self._urls.get(key, "")

    def is_lease_over(self, now: float) -> bool:
        return now - self._renewed_at >= self._lease_s


class Leases:
    """All attempts for which this worker holds a lease."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._changed = threading.Condition()

    def add(self, attempt: Attempt) -> None:
        with self._changed:
            self._attempts[attempt.node.node_id, attempt.node.attempt] = attempt

    def remove(self, attempt: Attempt) -> None:
        with self._changed:
            self._attempts.pop((attempt.node.node_id, attempt.node.attempt), None)
            self._changed.notify_all()

    def held(self) -> Sequence[Attempt]:
        with self._changed:
            return list(self._attempts.values())

    def wait_until_none(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._attempts, timeout_s)
