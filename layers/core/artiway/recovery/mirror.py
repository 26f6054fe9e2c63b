"""Compares the slots in Redis with those in PostgreSQL. A recent difference is normal: Redis follows the commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import Unavailable
from artiway.platform.logs import Logger
from artiway.recovery.model import Check

logger = Logger("invariants")
NAME = "slots_are_mirrored"
# The scheduler's sweep corrects a difference within half a minute; an older one is a violation.
GRACE_S = 90


class Queue(Protocol):
    def attach(self) -> bool: ...

    def running_ids(self) -> set[str]: ...


class Slots(Protocol):
    """The slots in PostgreSQL, which decides."""

    def held(self, pool: str) -> set[UUID]: ...

    def unexplained(
        self, *, surplus: Sequence[UUID], missing: Sequence[UUID], limit: int, grace_s: int
    ) -> Sequence[Mapping[str, Any]]:
        """The differences that are older than `grace_s`."""


class SlotMirror:
    def __init__(
        self,
        slots: Slots,
        queue_of: Callable[[str], Queue],
        pools: Sequence[str],
        *,
        losses: tuple[type[Exception], ...] = (),
    ) -> None:
        """`losses` are the exceptions of the queue while Redis is down."""
        self._slots, self._queue_of, self._pools = slots, queue_of, pools
        self._losses: tuple[type[Exception], ...] = (Unavailable, *losses)

    def check(self, *, limit: int, grace_s: int = GRACE_S) -> Check:
        checked = 0
        violations: list[Mapping[str, Any]] = []
        for pool in self._pools:
            try:
                held, rows = self._compare(pool, limit=limit, grace_s=grace_s)
            except self._losses as error:  # Redis is down or being rebuilt: there is nothing to compare
                logger.warning("slots not compared", pool=pool, reason=type(error).__name__)
                continue
            checked += held
            violations += [{**row, "pool": pool} for row in rows]
        return Check(NAME, checked, tuple(violations[:limit]))

    def _compare(self, pool: str, *, limit: int, grace_s: int) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """Redis is read before and after the database, so that a change between the reads is no difference."""
        queue = self._queue_of(pool)
        if not queue.attach():
            return 0, ()
        before = set(map(UUID, queue.running_ids()))
        truth = self._slots.held(pool)
        after = set(map(UUID, queue.running_ids()))
        surplus, missing = sorted((before & after) - truth), sorted(truth - before - after)
        if not surplus and not missing:
            return len(truth), ()
        rows = self._slots.unexplained(surplus=surplus, missing=missing, limit=limit, grace_s=grace_s)
        return len(truth | before), rows
