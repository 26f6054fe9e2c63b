"""The DAG and how often it runs, the same for Artiway and the peers."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

PICTURES = 3
NODES = 1 + 2 * PICTURES
DEPTH = 3
LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Plan:
    """`alone` DAGs one after the other; `together` rounds of `at_once` DAGs; submissions for `seconds`."""

    alone: int
    together: int
    seconds: float
    at_once: int = 10

    @classmethod
    def of(cls, *, is_quick: bool) -> Plan:
        return cls(alone=7, together=3, seconds=3) if is_quick else cls(alone=20, together=7, seconds=10)

    def summary(self, alone: list[float], together: list[float]) -> dict[str, Any]:
        median_ms, nodes = statistics.median(alone) * 1000, self.at_once * NODES
        return {
            "oneDagMs": round(median_ms, 1),
            "perLevelMs": round(median_ms / DEPTH, 1),
            "atOnce": self.at_once,
            "nodesPerSecond": round(nodes / statistics.median(together), 1),
            "perNodeMs": round(statistics.median(together) * 1000 / nodes, 2),
        }
