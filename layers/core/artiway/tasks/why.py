"""Explains why each node of a task waits, with the fair queue's forecast of its start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import Unavailable
from artiway.platform.clock import Clock
from artiway.scheduling.forecast import Expected, forecast
from artiway.scheduling.model import Snapshot, StaleEpoch, WaitingFor
from artiway.tasks.model import NODE_ENDS, Node, NodeStatus
from artiway.tasks.service import TaskService

DETAILS = {
    WaitingFor.LANE_PAUSED: "its lane is paused by an operator",
    WaitingFor.NO_WORKER: "no worker serves its type now",
    WaitingFor.LANE_CAP: "its lane runs as many nodes as it may",
    WaitingFor.MODEL_CAP: "its model runs as many nodes as it may",
    WaitingFor.TENANT_CAP: "your organisation runs as many nodes as it may",
    WaitingFor.USER_CAP: "you run as many nodes as you may",
    WaitingFor.TURN: "it waits for its turn",
    WaitingFor.NONE: "it is on its way to a worker",
}


class Explained(Protocol):
    @property
    def waiting_for(self) -> WaitingFor: ...
    @property
    def detail(self) -> Mapping[str, Any]: ...


class Queue(Protocol):
    """The fair queue of one pool. Raises StaleEpoch where Redis has lost it."""

    def attach(self) -> bool: ...

    def explain(self, node_id: str, *, now_ms: int) -> Explained: ...

    def snapshot(self) -> Snapshot: ...


@dataclass(frozen=True)
class Reason:
    """`position` nodes start before it; it starts about `eta_s` from now. None: unknown."""

    node: Node
    waiting_for: str
    position: int | None
    eta_s: int | None
    detail: str


class WhyService:
    def __init__(self, tasks: TaskService, queue_of: Callable[[str], Queue], clock: Clock) -> None:
        self._tasks, self._queue_of, self._clock = tasks, queue_of, clock

    def explain(self, *, tenant_id: UUID, task_id: UUID) -> Sequence[Reason]:
        graph = self._tasks.graph(tenant_id=tenant_id, task_id=task_id)
        by_id = {node.node_id: node for node in graph.nodes}
        queued = [node for node in graph.nodes if node.status is NodeStatus.QUEUED]
        found, expected = self._ask_queue(graph.task.pool, queued)
        reasons = []
        for node in graph.nodes:
            if node.status in NODE_ENDS:
                continue
            before = [by_id[other] for other in graph.dependencies.get(node.node_id, ())]
            waiting = sorted(other.name for other in before if other.status is not NodeStatus.COMPLETED)
            reasons.append(self._reason(node, waiting, found, expected))
        return reasons

    def _ask_queue(self, pool: str, nodes: Sequence[Node]) -> tuple[dict[UUID, Explained], Mapping[str, Expected]]:
        if not nodes:
            return {}, {}
        now_ms = int(self._clock.now().timestamp() * 1_000)
        queue = self._queue_of(pool)
        try:
            if not queue.attach():
                return {}, {}
            found = {node.node_id: queue.explain(str(node.node_id), now_ms=now_ms) for node in nodes}
            return found, forecast(queue.snapshot(), [str(node.node_id) for node in nodes])
        except (StaleEpoch, Unavailable):
            return {}, {}

    @staticmethod
    def _reason(
        node: Node, waiting: Sequence[str], found: Mapping[UUID, Explained], expected: Mapping[str, Expected]
    ) -> Reason:
        if waiting:
            return Reason(node, "dependency", None, None, f"it waits for {', '.join(waiting)}")
        if node.status is NodeStatus.PROCESSING:
            return Reason(node, WaitingFor.NONE, 0, 0, "it is running")
        if node.status is NodeStatus.PENDING:
            detail = "it is about to be retried" if node.attempt else "it is about to be queued"
            return Reason(node, WaitingFor.NONE, None, None, detail)
        known = found.get(node.node_id)
        if known is None:
            return Reason(node, WaitingFor.TURN, None, None, "the queue is being rebuilt")
        forecasted = expected.get(str(node.node_id))
        position = None if forecasted is None else forecasted.position
        eta_s = None if forecasted is None else -(-forecasted.start_us // 1_000_000)
        if known.waiting_for is WaitingFor.NONE:
            position, eta_s = 0, 0
        return Reason(node, known.waiting_for, position, eta_s, DETAILS[known.waiting_for])
