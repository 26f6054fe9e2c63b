"""How long steps take and how promises are kept, as measured lately."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from artiway.platform.ports import Cache
from artiway.scheduling.forecast import Demand, Speed

# As many tasks weigh as much as the assumption that promises are kept.
LATENESS_SAMPLES = 10
LATENESS_LIMITS = (0.5, 4.0)


@dataclass(frozen=True)
class Windows:
    """How far back is read: so many nodes for durations, and seconds for nodes, tasks and the demand of types."""

    nodes: int
    nodes_s: int
    tasks_s: int
    demand_s: int = 120


class Store(Protocol):
    def measured(self, pool: str, windows: Windows) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Durations:
    """`run_us` by step; `scales` are microseconds of a slot for each microsecond of the catalogue's cost, by type.

    `ready_us` passes from the end of the nodes before to the queue, `claim_us` from the free slot to the start.
    `lateness` is actual / expected duration of the tasks of the last minutes.
    """

    run_us: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    scale: float = 1.0
    ready_us: float = 0.0
    claim_us: float = 0.0
    lateness: float = 1.0
    demand: Mapping[str, Demand] = field(default_factory=dict)

    @staticmethod
    def measured(found: Mapping[str, Any]) -> Durations:
        """Rows of steps, of types (without a step) and of the pool (without both); none if nothing was measured."""
        rows, kept = found["rows"], found["lateness"]
        pool = next((row for row in rows if row["type"] is None), None)
        if pool is None:
            return Durations()
        samples = kept.get("samples") or 0
        ratio = (kept.get("ratio") or 1.0) ** (samples / (samples + LATENESS_SAMPLES))
        return Durations(
            run_us={row["step"]: row["run_us"] for row in rows if row["step"] is not None},
            scales={row["type"]: row["scale"] for row in rows if row["type"] is not None and row["step"] is None},
            scale=pool["scale"],
            ready_us=pool["ready_us"] or 0.0,
            claim_us=pool["claim_us"] or 0.0,
            lateness=min(max(ratio, LATENESS_LIMITS[0]), LATENESS_LIMITS[1]),
            demand={
                row["type"]: Demand(row["demand"], row["completed_us"], row["window_us"]) for row in found["demand"]
            },
        )

    def of(self, step: str, node_type: str, cost_us: int) -> float:
        """The time of a node at its worker. A step without a figure of its own follows its type, a type the pool."""
        measured = self.run_us.get(step)
        return cost_us * self.scales.get(node_type, self.scale) if measured is None else measured

    def speed(self, node_types: Mapping[str, int], *, prefetch: int) -> Speed:
        """For a forecast. `node_types` are the catalogue's costs. The time until a claim takes the slot as well."""
        scales = {kind: self.scales.get(kind, self.scale) + self.claim_us / cost for kind, cost in node_types.items()}
        return Speed(scales, prefetch, self.demand)


class MeasuredDurations:
    """The durations of each pool, shared by all processes for a few seconds."""

    def __init__(self, store: Store, cache: Cache, windows: Windows, *, for_s: float) -> None:
        self._store, self._cache, self._windows, self._for_s = store, cache, windows, for_s

    def of(self, pool: str) -> Durations:
        found = self._cache.get(
            f"durations:{pool}", lambda: self._store.measured(pool, self._windows), ttl_s=self._for_s, jitter_s=0
        )
        assert found is not None
        return Durations.measured(found)
