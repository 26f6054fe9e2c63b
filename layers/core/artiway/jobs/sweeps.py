"""Sweeps of runs: a state that is not final has a time, and a sweep that acts when the time is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from artiway.jobs.dispatch import DispatchService
from artiway.jobs.results import ResultService
from artiway.platform import metrics
from artiway.platform.logs import Logger

logger = Logger("jobs")


@dataclass(frozen=True)
class RunThresholds:
    batch: int = 500
    unwritten_s: int = 60


class RunSweeper:
    def __init__(
        self, results: ResultService, dispatch: DispatchService, thresholds: RunThresholds | None = None
    ) -> None:
        self._results, self._dispatch, self._thresholds = results, dispatch, thresholds or RunThresholds()

    def quick(self) -> dict[str, int]:
        """At least every 30 s: attempts whose lease is over, and deferred runs for which there is room."""
        return _counted(
            run_leases=lambda: self._results.expire_leases(limit=self._thresholds.batch),
            run_wakes=self._dispatch.wake,
        )

    def slow(self) -> dict[str, int]:
        """Every few minutes: results that were not written back, and counters."""
        thresholds = self._thresholds
        return _counted(
            run_results=lambda: self._results.reconcile(age_s=thresholds.unwritten_s, limit=thresholds.batch),
            run_counters=self._results.recount,
        )


def _counted(**sweeps: Callable[[], int]) -> dict[str, int]:
    """Run each sweep; if one fails, the others still run."""
    counts: dict[str, int] = {}
    for name, sweep in sweeps.items():
        try:
            counts[name] = sweep()
        except Exception:
            logger.exception("sweep failed", sweep=name)
            metrics.emit("SweepFailures", 1, sweep=name)
            continue
        metrics.emit("Swept", counts[name], sweep=name)
    return counts
