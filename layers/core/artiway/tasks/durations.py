"""How long steps take, as measured lately: own figures for each step, the mean of its type or pool for a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artiway.scheduling.forecast import Speed


@dataclass(frozen=True)
class Durations:
    """`run_us` by step; `scales` are microseconds of a slot for each microsecond of the catalogue's cost, by type.

    `ready_us` passes from the end of the nodes before to the queue, `claim_us` from the free slot to the start.
    """

    run_us: Mapping[str, float]
    scales: Mapping[str, float]
    scale: float
    ready_us: float
    claim_us: float

    @staticmethod
    def from_rows(rows: Sequence[Mapping[str, Any]]) -> Durations:
        """Rows of steps, of types (without a step) and of the pool (without both); none if nothing was measured."""
        pool = next((row for row in rows if row["type"] is None), None)
        return Durations(
            run_us={row["step"]: row["run_us"] for row in rows if row["step"] is not None},
            scales={row["type"]: row["scale"] for row in rows if row["type"] is not None and row["step"] is None},
            scale=pool["scale"] if pool else 1.0,
            ready_us=pool["ready_us"] or 0.0 if pool else 0.0,
            claim_us=pool["claim_us"] or 0.0 if pool else 0.0,
        )

    def of(self, step: str, node_type: str, cost_us: int) -> float:
        """The time of a node at its worker."""
        measured = self.run_us.get(step)
        return cost_us * self.scales.get(node_type, self.scale) if measured is None else measured

    def speed(self, node_types: Mapping[str, int], *, prefetch: int) -> Speed:
        """For a forecast. `node_types` are the catalogue's costs. The time until a claim takes the slot as well."""
        return Speed(
            {kind: self.scales.get(kind, self.scale) + self.claim_us / cost for kind, cost in node_types.items()},
            prefetch,
        )
