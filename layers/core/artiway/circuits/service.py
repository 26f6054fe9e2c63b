"""Counts the ends of attempts, opens and closes circuits, and lets the fair queue follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from artiway.circuits.model import Attempt, Circuit, Rules, StoppedSteps
from artiway.errors import Unavailable
from artiway.platform import metrics
from artiway.platform.logs import Logger

logger = Logger("circuits")


class CircuitStore(Protocol):
    def stopped(self) -> StoppedSteps: ...

    def change(
        self, pool: str, step: str, act: Callable[[Circuit, datetime], Circuit], *, is_added: bool
    ) -> tuple[Circuit, Circuit]: ...


class CircuitService:
    """Each attempt is counted once: its end is a guarded UPDATE, and only the call that made it comes here."""

    def __init__(self, store: CircuitStore, rules_of: Callable[[], Rules], *, mirror: Callable[[str], object]) -> None:
        """`mirror` writes the limits of a pool to its queue."""
        self._store, self._rules_of, self._mirror = store, rules_of, mirror

    def stopped(self) -> StoppedSteps:
        return self._store.stopped()

    def rules(self) -> Rules:
        return self._rules_of()

    def record(self, attempts: Iterable[Attempt]) -> None:
        """Attempts ended. If this is lost in a crash, the next attempt decides."""
        for attempt in attempts:
            self._record(attempt)

    def _record(self, attempt: Attempt) -> None:
        def act(circuit: Circuit, now: datetime) -> Circuit:
            if not attempt.error:
                return circuit.succeeded(dispatched_at=attempt.dispatched_at)
            return circuit.failed(
                dispatched_at=attempt.dispatched_at, now=now, rules=self._rules_of(), error=attempt.error
            )

        before, after = self._store.change(attempt.pool, attempt.step, act, is_added=bool(attempt.error))
        if before.probe_at == after.probe_at:
            return
        verdict = _verdict(before, after)
        logger.warning(
            "circuit changed",
            verdict=verdict,
            pool=attempt.pool,
            step=attempt.step,
            error=after.last_error,
            probes_failed=after.probes_failed,
        )
        metrics.emit("CircuitChanges", 1, pool=attempt.pool, verdict=verdict)
        try:
            self._mirror(attempt.pool)
        except Unavailable as error:
            # Every scheduler reads the circuits from the database at its next refresh.
            logger.warning("circuit not mirrored yet", pool=attempt.pool, reason=error.code)

    def measure(self, pools: Iterable[str]) -> None:
        """Emit which circuits are open, for the alarm."""
        open_by_pool = dict.fromkeys(pools, 0)
        for circuit in self._store.stopped().circuits:
            open_by_pool[circuit.pool] = open_by_pool.get(circuit.pool, 0) + 1
            metrics.emit("CircuitOpen", 1, pool=circuit.pool, step=circuit.step)
        for pool, count in open_by_pool.items():
            metrics.emit("CircuitsOpen", count, pool=pool)


def _verdict(before: Circuit, after: Circuit) -> str:
    if before.opened_at is None:
        return "opened"
    return "closed" if after.opened_at is None else "probe_failed"
