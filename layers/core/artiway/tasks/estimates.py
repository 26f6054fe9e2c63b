"""When a task will start and end: its critical path, with the wait in the queue before each node."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from artiway.scheduling.forecast import Forecast
from artiway.scheduling.lanes import LANES
from artiway.scheduling.model import MICROSECONDS, Priority, Track, WaitingFor
from artiway.tasks.durations import Durations
from artiway.tasks.model import Plan, TenantLimits

NO_START = {
    WaitingFor.LANE_PAUSED: "the lane is paused by an operator: there is no expected start",
    WaitingFor.NO_WORKER: "no worker serves {type} now: there is no expected start",
    WaitingFor.CIRCUIT_OPEN: "the step {step} fails at present and is stopped: there is no expected start",
    WaitingFor.MODEL_CAP: "the model {model} is switched off: there is no expected start",
    WaitingFor.TENANT_CAP: "your organisation may run no node now: there is no expected start",
}


@dataclass(frozen=True)
class Timing:
    """Seconds from now. Both are None where the task cannot start, and `detail` has the reason.

    `model_s` is the end before it was corrected by lateness, if all of its steps were measured before. `stopped_step`
    is the step whose circuit is open, if that is the reason.
    """

    start_s: int | None
    end_s: int | None
    detail: str | None = None
    model_s: float | None = None
    stopped_step: str | None = None


class Estimator:
    def __init__(self, forecast_of: Callable[[str, str], Forecast], durations_of: Callable[[str], Durations]) -> None:
        self._forecast_of, self._durations_of = forecast_of, durations_of

    def timing(self, plan: Plan, *, tenant_id: UUID, limits: TenantLimits, lane: str, priority: Priority) -> Timing:
        pool = LANES[lane].pool
        return timing(
            plan,
            limits=limits,
            lane=lane,
            priority=priority,
            forecast=self._forecast_of(pool, str(tenant_id)),
            durations=self._durations_of(pool),
        )


def timing(
    plan: Plan,
    *,
    limits: TenantLimits,
    lane: str,
    priority: Priority,
    forecast: Forecast,
    durations: Durations,
) -> Timing:
    """Nodes of the plan also wait for each other, where they share the slots of a type, a lane or the tenant."""
    if limits.concurrency == 0:
        return Timing(None, None, NO_START[WaitingFor.TENANT_CAP])
    ends: dict[str, float] = {}
    starts: list[float] = []
    slots: dict[str, list[float]] = defaultdict(list)
    for node in plan.nodes:
        track = Track(node.type, lane, node.model, node.step)
        ready_us = max((ends[name] for name in node.depends_on), default=0.0) + durations.ready_us
        if node.is_http:  # in no queue of a pool
            ends[node.name] = ready_us + node.cost_us
            starts.append(ready_us)
            continue
        expected = forecast.arrival(
            track,
            cost_us=node.cost_us,
            weight=limits.weight,
            after_us=ready_us,
            is_first=priority is Priority.HIGH,
        )
        if expected is None:
            reason = forecast.blocked_by(track) or WaitingFor.TENANT_CAP
            detail = NO_START[reason].format(type=node.type, model=node.model, step=node.step)
            stopped_step = node.step if reason is WaitingFor.CIRCUIT_OPEN else None
            return Timing(None, None, detail, stopped_step=stopped_step)
        start_us = expected.start_us + durations.claim_us
        shared = forecast.limits(track) | {"tenant": limits.concurrency}
        for name, limit in shared.items():
            if len(slots[name]) >= limit:
                start_us = max(start_us, heapq.heappop(slots[name]))
        ends[node.name] = start_us + durations.of(node.step, node.type, node.cost_us)
        for name in shared:
            heapq.heappush(slots[name], ends[node.name] + durations.claim_us)
        starts.append(start_us)
    start_s, end_s = min(starts) / MICROSECONDS, max(ends.values()) / MICROSECONDS
    is_measured = all(node.step in durations.run_us for node in plan.nodes if not node.is_http)
    return Timing(
        start_s=round(start_s * durations.lateness),
        end_s=max(1, round(end_s * durations.lateness)),
        model_s=end_s if is_measured else None,
    )
