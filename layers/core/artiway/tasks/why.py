"""Explains why each node of a task waits, with the fair queue's forecast of its start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID

from artiway.circuits.model import next_probe
from artiway.errors import Unavailable
from artiway.platform.clock import Clock
from artiway.scheduling.forecast import Expected, Forecast
from artiway.scheduling.model import MICROSECONDS, Priority, Track, WaitingFor
from artiway.tasks.model import HTTP, NODE_ENDS, Node, NodeStatus, Task
from artiway.tasks.service import TaskGraph, TaskService

# The queue is asked for so many nodes of each track; the nodes of the task behind them follow one another.
EXPLAINED_NODES = 10

DETAILS = {
    WaitingFor.LANE_PAUSED: "its lane is paused by an operator: it has no expected start",
    WaitingFor.NO_WORKER: "no worker serves its type now: it has no expected start",
    WaitingFor.CIRCUIT_OPEN: "its step fails at present and is stopped: it has no expected start",
    WaitingFor.LANE_CAP: "its lane runs as many nodes as it may",
    WaitingFor.MODEL_CAP: "its model runs as many nodes as it may",
    WaitingFor.TENANT_CAP: "your organisation runs as many nodes as it may",
    WaitingFor.USER_CAP: "you run as many nodes as you may",
    WaitingFor.TURN: "it waits for its turn",
    WaitingFor.NONE: "it is on its way to a worker",
}
CALL_WAITS = "it waits for a place: your organisation makes a limited number of calls at once"
PRIORITIES = {
    Priority.HIGH: "; its priority is HIGH: it goes before other work of your organisation",
    Priority.NORMAL: "",
    Priority.LOW: "; its priority is LOW: other work of your organisation goes before it",
}


class Explained(Protocol):
    @property
    def waiting_for(self) -> WaitingFor: ...
    @property
    def detail(self) -> Mapping[str, Any]: ...


class Queue(Protocol):
    """The fair queue of one pool. Raises StaleEpoch where Redis has lost it, RedisAway where it does not answer."""

    def attach(self) -> bool: ...

    def explain(self, node_id: str, *, now_ms: int) -> Explained: ...


@dataclass(frozen=True)
class Reason:
    """`position` nodes start before it; it starts about `eta_s` from now. None: unknown, or it will not start."""

    node: Node
    waiting_for: str
    position: int | None
    eta_s: int | None
    detail: str


@dataclass(frozen=True)
class Explanation:
    priority: Priority
    reasons: Sequence[Reason]


@dataclass(frozen=True)
class _Place:
    """`rank` nodes of the tenant wait before it on its track, `user_rank` of them are the user's own."""

    waiting_for: WaitingFor
    rank: int
    user_rank: int = 0
    user_cap: int | None = None
    user_running: int = 0


class WhyService:
    def __init__(
        self,
        tasks: TaskService,
        queue_of: Callable[[str], Queue],
        forecast_of: Callable[[str, str], Forecast],
        clock: Clock,
    ) -> None:
        self._tasks, self._queue_of, self._forecast_of, self._clock = tasks, queue_of, forecast_of, clock

    def explain(self, *, tenant_id: UUID, task_id: UUID) -> Explanation:
        graph = self._tasks.graph(tenant_id=tenant_id, task_id=task_id)
        by_id = {node.node_id: node for node in graph.nodes}
        queued = [node for node in graph.nodes if node.status is NodeStatus.QUEUED and node.type != HTTP]
        places = self._places(graph, queued)
        forecast = self._forecast_of(graph.task.pool, str(graph.task.tenant_id)) if places else None
        reasons = []
        for node in graph.nodes:
            if node.status in NODE_ENDS:
                continue
            before = [by_id[other] for other in graph.dependencies.get(node.node_id, ())]
            waiting = sorted(other.name for other in before if other.status is not NodeStatus.COMPLETED)
            reasons.append(self._reason(graph.task, node, waiting, places.get(node.node_id), forecast))
        return Explanation(graph.task.priority, self._with_probes(graph.task, reasons))

    def _with_probes(self, task: Task, reasons: Sequence[Reason]) -> Sequence[Reason]:
        """Add to each node of a stopped step when the step is tried again."""
        if not any(reason.waiting_for == WaitingFor.CIRCUIT_OPEN for reason in reasons):
            return reasons
        stopped = self._tasks.stopped_steps(tenant_id=task.tenant_id)
        return [
            replace(reason, detail=f"{reason.detail}; {next_probe(circuit.probes_in_s(stopped.now))}")
            if reason.waiting_for == WaitingFor.CIRCUIT_OPEN
            and (circuit := stopped.of(task.pool, reason.node.step)) is not None
            else reason
            for reason in reasons
        ]

    # --- where the nodes stand in the queue

    def _places(self, graph: TaskGraph, nodes: Sequence[Node]) -> dict[UUID, _Place]:
        if not nodes:
            return {}
        by_track: dict[Track, list[Node]] = {}
        for node in nodes:
            by_track.setdefault(Track(node.type, node.lane, node.model, node.step), []).append(node)
        queue = self._queue_of(graph.task.pool)
        try:
            if queue.attach():
                return {
                    node_id: place
                    for own in by_track.values()
                    for node_id, place in self._explained(queue, own).items()
                }
        except Unavailable:  # Redis is away, or is being filled again
            pass
        ranks = self._tasks.ranks(graph.task)
        forecast = self._forecast_of(graph.task.pool, str(graph.task.tenant_id))
        return {
            node.node_id: _Place(forecast.blocked_by(track) or WaitingFor.TURN, ranks[node.node_id])
            for track, own in by_track.items()
            for node in own
            if node.node_id in ranks
        }

    def _explained(self, queue: Queue, nodes: Sequence[Node]) -> dict[UUID, _Place]:
        """The places of nodes of one track. Those that are not asked for follow the last of the others."""
        now_ms = int(self._clock.now().timestamp() * 1_000)
        found = {
            node.node_id: _place(queue.explain(str(node.node_id), now_ms=now_ms)) for node in nodes[:EXPLAINED_NODES]
        }
        waiting = [place for place in found.values() if place.waiting_for is not WaitingFor.NONE]
        last = max(waiting, key=lambda place: place.rank, default=_Place(WaitingFor.TURN, -1, -1))
        for step, node in enumerate(nodes[EXPLAINED_NODES:], 1):
            found[node.node_id] = replace(last, rank=last.rank + step, user_rank=last.user_rank + step)
        return found

    # --- one node

    def _reason(
        self, task: Task, node: Node, waiting: Sequence[str], place: _Place | None, forecast: Forecast | None
    ) -> Reason:
        if waiting:
            return Reason(node, "dependency", None, None, f"it waits for {', '.join(waiting)}")
        if node.status is NodeStatus.PROCESSING:
            return Reason(node, WaitingFor.NONE, 0, 0, "it is running")
        if node.status is NodeStatus.PENDING:
            detail = "it is about to be retried" if node.attempt else "it is about to be queued"
            return Reason(node, WaitingFor.NONE, None, None, detail)
        if node.type == HTTP:
            return Reason(node, WaitingFor.TURN, None, None, CALL_WAITS)
        if place is None or forecast is None or place.waiting_for is WaitingFor.NONE:
            return Reason(node, WaitingFor.NONE, 0, 0, DETAILS[WaitingFor.NONE])
        expected = _expected(node, place, forecast)
        detail = DETAILS[place.waiting_for] + PRIORITIES[task.priority]
        if expected is None:
            reason = forecast.blocked_by(_track(node)) or place.waiting_for
            return Reason(node, reason, None, None, DETAILS[reason] + PRIORITIES[task.priority])
        return Reason(node, place.waiting_for, expected.position, -(-expected.start_us // MICROSECONDS), detail)


def _place(answer: Explained) -> _Place:
    detail = answer.detail
    return _Place(
        answer.waiting_for,
        rank=detail.get("before_of_tenant", detail.get("before_of_user", 0)),
        user_rank=detail.get("before_of_user", 0),
        user_cap=detail.get("user_cap"),
        user_running=detail.get("user_running", 0),
    )


def _track(node: Node) -> Track:
    return Track(node.type, node.lane, node.model, node.step)


def _expected(node: Node, place: _Place, forecast: Forecast) -> Expected | None:
    """Where the user's own limit decides, its nodes start as those before them end."""
    if place.waiting_for in (WaitingFor.LANE_PAUSED, WaitingFor.NO_WORKER, WaitingFor.CIRCUIT_OPEN):
        return None
    expected = forecast.start(_track(node), place.rank)
    if expected is None or place.user_cap is None:
        return expected
    if place.user_cap == 0:
        return None
    ends = place.user_rank + 1 + place.user_running - place.user_cap
    limited_us = max(0, ends) * forecast.node_us(_track(node), node.cost_us) / place.user_cap
    return Expected(expected.position, max(expected.start_us, round(limited_us)))
