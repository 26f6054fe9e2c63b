"""Takes requests: plans them, asks whether there is room, holds the points, and stores it all in one transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID, uuid5

from artiway import ids
from artiway.errors import Conflict
from artiway.identity.model import TenantSuspended
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.points.model import Hold
from artiway.scheduling.lanes import LANES, Tier, route
from artiway.tasks import messages
from artiway.tasks.catalogue import Catalogue
from artiway.tasks.lifecycle import BY_REQUEST, NodeService
from artiway.tasks.model import (
    RETRYABLE_ENDS,
    DispatchBacklog,
    Event,
    FlowNode,
    InvalidRequest,
    LaneLoad,
    NewNode,
    NewTask,
    Node,
    NodeStatus,
    NoSuchTask,
    NotRetryable,
    Occurrence,
    Plan,
    PlannedNode,
    QueueFull,
    Requester,
    Source,
    Task,
    TaskFilter,
    TaskStatus,
    TenantLimits,
)
from artiway.tasks.work import Work

DRAIN_WINDOW_S = 600
RETRY_AFTER_LIMIT_S = 300
SEED_BITS = 2**31


class Store(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[Work]: ...


class Holds(Protocol):
    def place_hold(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        hold_id: UUID,
        amount_points: int,
        expires_at: datetime,
        reference: str = "",
    ) -> Hold: ...


@dataclass(frozen=True)
class Picture:
    """An upload that may be worked on."""

    key: str
    content_type: str


class Inputs(Protocol):
    def inspect(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Mapping[UUID, Picture]:
        """The uploads by id. Raises for one that is not there, or is not the picture that it was said to be."""


@dataclass(frozen=True)
class Accepted:
    task: Task
    eta_s: int


@dataclass(frozen=True)
class Estimate:
    price_points: int
    lane: str
    eta_start_s: int
    eta_end_s: int
    nodes: int


@dataclass(frozen=True)
class TaskView:
    task: Task
    nodes: Sequence[Node]
    dependencies: Mapping[UUID, Sequence[UUID]]


class TaskService:
    def __init__(
        self,
        store: Store,
        holds: Holds,
        inputs: Inputs,
        catalogue: Catalogue,
        nodes: NodeService,
        clock: Clock,
        *,
        load_of: Callable[[str], LaneLoad],
        hold_ttl_s: int,
        refusal_of: Callable[[str], str | None],
    ) -> None:
        """`load_of` tells what stands in a lane's way; it may be a second or two old.

        `refusal_of` says why a webhook's URL could never be called, if so.
        """
        self._store, self._holds, self._inputs, self._catalogue = store, holds, inputs, catalogue
        self._nodes, self._clock, self._load_of, self._refusal_of = nodes, clock, load_of, refusal_of
        self._hold_ttl = timedelta(seconds=hold_ttl_s)

    # Asking

    def submit(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        tool: str,
        inputs: Mapping[str, UUID],
        params: Mapping[str, Any],
        count: int | None,
        webhook_url: str | None,
    ) -> Accepted:
        task_id = ids.new_id()
        plan = self._catalogue.plan(tool, inputs=inputs, params=params, count=count, seed=_seed(task_id))
        return self._accept(tenant_id, user_id, task_id, plan, name="", params=params, webhook_url=webhook_url)

    def submit_flow(
        self, *, tenant_id: UUID, user_id: UUID, name: str, nodes: Sequence[FlowNode], webhook_url: str | None
    ) -> Accepted:
        task_id = ids.new_id()
        plan = self._catalogue.flow(nodes, seed=_seed(task_id))
        return self._accept(tenant_id, user_id, task_id, plan, name=name, params={}, webhook_url=webhook_url)

    def estimate(
        self,
        *,
        tenant_id: UUID,
        tool: str,
        inputs: Mapping[str, UUID],
        params: Mapping[str, Any],
        count: int | None,
    ) -> Estimate:
        """What a submission would cost, and when it would be done. Changes nothing, holds nothing."""
        plan = self._catalogue.plan(tool, inputs=inputs, params=params, count=count, seed=0)
        with self._store.open(tenant_id) as work:
            lane = _lane(work.limits(), plan)
        start_s = _wait_s(self._load_of(lane))
        end_s = start_s + math.ceil(plan.critical_path_us / 1_000_000)
        return Estimate(plan.price_points, lane, start_s, end_s, len(plan.nodes))

    def _accept(
        self,
        tenant_id: UUID,
        user_id: UUID,
        task_id: UUID,
        plan: Plan,
        *,
        name: str,
        params: Mapping[str, Any],
        webhook_url: str | None,
    ) -> Accepted:
        if webhook_url is not None and (reason := self._refusal_of(webhook_url)) is not None:
            raise InvalidRequest("webhookUrl", reason)
        pictures = self._inputs.inspect(tenant_id, _uploads(plan))
        with self._store.open(tenant_id) as work:
            limits = work.limits()
            lane = _lane(limits, plan)
            load = self._check_room(work, limits, lane, nodes=len(plan.nodes))
            # The hold is named by the task, so asking again for this task holds nothing more.
            self._hold(tenant_id, user_id, task_id, hold_id=task_id, points=plan.price_points)
            pool = LANES[lane].pool
            work.add_task(
                NewTask(task_id, user_id, plan.tool, name, task_id, lane, pool, params, plan.price_points, webhook_url)
            )
            task = _found(work.task(task_id))
            work.add_nodes(task, _new_nodes(plan.nodes, pictures))
            self._start(work, task)
        metrics.emit("TasksAccepted", 1, lane=lane)
        eta_s = _wait_s(load) + math.ceil(plan.critical_path_us / 1_000_000)
        return Accepted(task, eta_s)

    def _check_room(self, work: Work, limits: TenantLimits, lane: str, *, nodes: int) -> LaneLoad:
        """Back-pressure, before anything is held: the tenant's depth, then the lane's."""
        if limits.status != "ACTIVE":
            raise TenantSuspended  # the access check may not know it for a minute
        work.lock_submissions()
        if work.live_tasks() >= limits.queue_depth:
            retry_after_s = _drain_s(1, work.recent_ends(window_s=DRAIN_WINDOW_S), DRAIN_WINDOW_S)
            raise QueueFull("too many unfinished tasks", retry_after_s=retry_after_s, limit=limits.queue_depth)
        load = self._load_of(lane)
        if load.depth + nodes > load.depth_limit:
            excess = load.depth + nodes - load.depth_limit
            retry_after_s = _drain_s(excess, load.ended_lately, DRAIN_WINDOW_S // 2)
            raise DispatchBacklog("the lane is full", retry_after_s=retry_after_s, lane=lane, limit=load.depth_limit)
        return load

    def _hold(self, tenant_id: UUID, user_id: UUID, task_id: UUID, *, hold_id: UUID, points: int) -> None:
        self._holds.place_hold(
            tenant_id=tenant_id,
            user_id=user_id,
            hold_id=hold_id,
            amount_points=points,
            expires_at=self._clock.now() + self._hold_ttl,
            reference=f"task:{task_id}",
        )

    def _start(self, work: Work, task: Task) -> None:
        """Have Step Functions run what is not done, and tell whoever listens."""
        nodes = [node for node in work.nodes(task.task_id) if node.status is NodeStatus.PENDING]
        work.send(
            messages.start_execution(task, nodes, frozenset(node.node_id for node in nodes if node.in_degree > 0))
        )
        details = {"status": task.status, "pricePoints": task.price_points, "lane": task.lane}
        work.tell(task, Occurrence(Event.QUEUED, details=details))

    # Looking

    def tasks(
        self, *, tenant_id: UUID, wanted: TaskFilter, before: UUID | None, limit: int
    ) -> Sequence[tuple[Task, int]]:
        """Newest first, each with its progress."""
        with self._store.open(tenant_id) as work:
            found = work.tasks(wanted, before=before, limit=limit)
            progress = work.progress_of([task.task_id for task in found])
        return [(task, progress.get(task.task_id, 0)) for task in found]

    def task(self, *, tenant_id: UUID, task_id: UUID) -> TaskView:
        with self._store.open(tenant_id) as work:
            task = _found(work.task(task_id))
            nodes = work.nodes(task_id)
            return TaskView(task, nodes, work.dependencies([node.node_id for node in nodes]))

    # Changing one's mind

    def cancel(self, *, tenant_id: UUID, task_id: UUID, requester: Requester) -> TaskStatus:
        """Stop everything at once, charge what was delivered, release the rest. A running worker hears at its beat."""
        with self._store.open(tenant_id) as work:
            task = _found(work.lock_task(task_id))
            requester.must_control(task)
            if task.status is TaskStatus.CANCELLED:
                return task.status
            if task.ended_at is not None:
                raise Conflict("the task has ended", code="TASK_409_ENDED", status=task.status)
            work.request_cancel(task_id)
            return self._nodes.stop(work, replace(task, cancel_requested_at=self._clock.now()), BY_REQUEST)

    def retry(self, *, tenant_id: UUID, task_id: UUID, requester: Requester) -> Task:
        """Run again what is not done, for what was not charged. Nodes that were cancelled get successors."""
        with self._store.open(tenant_id) as work:
            task = _found(work.lock_task(task_id))
            requester.must_control(task)
            if task.status not in RETRYABLE_ENDS:
                raise NotRetryable("only what failed, whole or in part, can be tried again", status=task.status)
            nodes = work.nodes(task_id)
            undone = [node for node in nodes if node.status is not NodeStatus.COMPLETED]
            points = sum(node.price_points for node in undone)
            self._check_room(work, work.limits(), task.lane, nodes=len(undone))
            hold_id = uuid5(task.task_id, str(task.run + 1))
            self._hold(tenant_id, task.user_id, task_id, hold_id=hold_id, points=points)
            work.begin_run(task_id, hold_id)
            for node in undone:
                if node.status is not NodeStatus.CANCELLED:
                    work.retry(node, node.attempt, delay_s=0)
            work.reset_failures(task_id)
            self._replace_cancelled(work, task, nodes)
            task = _found(work.task(task_id))
            self._start(work, task)
            return task

    @staticmethod
    def _replace_cancelled(work: Work, task: Task, nodes: Sequence[Node]) -> None:
        cancelled = [node for node in nodes if node.status is NodeStatus.CANCELLED]
        if not cancelled:
            return
        before = work.dependencies([node.node_id for node in nodes])
        work.supersede([node.node_id for node in cancelled])
        successor = {node.node_id: ids.new_id() for node in cancelled}
        done = {node.node_id for node in nodes if node.status is NodeStatus.COMPLETED}
        work.add_nodes(
            task,
            [
                NewNode(
                    node_id=successor[node.node_id],
                    position=node.position,
                    name=node.name,
                    type=node.type,
                    step=node.step,
                    model=node.model,
                    params=node.params,
                    inputs=node.inputs,
                    cost_us=node.cost_us,
                    price_points=node.price_points,
                    is_result=node.is_result,
                    in_degree=sum(other not in done for other in before.get(node.node_id, ())),
                    depends_on_ids=tuple(successor.get(other, other) for other in before.get(node.node_id, ())),
                )
                for node in cancelled
            ],
        )


def _found(task: Task | None) -> Task:
    if task is None:
        raise NoSuchTask
    return task


def _seed(task_id: UUID) -> int:
    """The same task makes the same pictures however often it is tried."""
    return task_id.int % SEED_BITS


def _lane(limits: TenantLimits, plan: Plan) -> str:
    return route(tier=Tier(limits.tier), is_paid=limits.tier != Tier.FREE, expected_us=plan.cost_us)


def _uploads(plan: Plan) -> list[UUID]:
    found = [source.input_id for node in plan.nodes for source in node.sources if source.input_id is not None]
    return list(dict.fromkeys(found))


def _new_nodes(nodes: Sequence[PlannedNode], pictures: Mapping[UUID, Picture]) -> list[NewNode]:
    node_ids = {node.name: ids.new_id() for node in nodes}
    return [
        NewNode(
            node_id=node_ids[node.name],
            position=position,
            name=node.name,
            type=node.type,
            step=node.step,
            model=node.model,
            params=node.params,
            inputs=[_input(source, pictures) for source in node.sources],
            cost_us=node.cost_us,
            price_points=node.price_points,
            is_result=node.is_result,
            in_degree=len(node.depends_on),
            depends_on_ids=tuple(node_ids[name] for name in node.depends_on),
        )
        for position, node in enumerate(nodes)
    ]


def _input(source: Source, pictures: Mapping[UUID, Picture]) -> dict[str, str]:
    if source.input_id is None:
        return {"name": source.name, "node": source.node or "", "output": source.output}
    picture = pictures[source.input_id]
    return {"name": source.name, "key": picture.key, "contentType": picture.content_type}


def _wait_s(load: LaneLoad) -> int:
    """How long the pool needs for what waits in it. Without a worker it is as if there were one."""
    return math.ceil(load.waiting_us / 1_000_000 / max(1, load.slots))


def _drain_s(wanted: int, ended: int, window_s: int) -> int:
    """When there will be room, if things go on ending as they did in the window."""
    return max(1, min(RETRY_AFTER_LIMIT_S, math.ceil(wanted * window_s / max(1, ended))))
