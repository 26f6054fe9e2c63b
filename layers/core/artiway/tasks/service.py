"""Accepts requests: plans the nodes, checks limits, holds the points and stores the task in one transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID, uuid5

from artiway import ids
from artiway.circuits.model import Rules, StepUnavailable, StoppedSteps, next_probe
from artiway.errors import Conflict
from artiway.events import Event
from artiway.identity.model import TenantSuspended
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.points.service import PointsService
from artiway.scheduling.lanes import LANES, Tier, route
from artiway.scheduling.model import Priority
from artiway.tasks import messages
from artiway.tasks.catalogue import Catalogue
from artiway.tasks.drafts import Drafts
from artiway.tasks.estimates import Timing
from artiway.tasks.lifecycle import BY_REQUEST, NodeService
from artiway.tasks.model import (
    RETRYABLE_ENDS,
    DispatchBacklog,
    FlowNode,
    InvalidRequest,
    LaneLoad,
    NewNode,
    NewTask,
    Node,
    NodeProgress,
    NodeStatus,
    NoSuchTask,
    NotRetryable,
    Occurrence,
    OnFailure,
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
from artiway.tasks.transaction import TaskStore, TaskTransaction

logger = Logger("tasks")
DRAIN_WINDOW_S = 600
RETRY_AFTER_LIMIT_S = 300
SEED_BITS = 2**31


@dataclass(frozen=True)
class Picture:
    """An upload that passed inspection."""

    key: str
    content_type: str


class Inputs(Protocol):
    def inspect(self, tenant_id: UUID, input_ids: Sequence[UUID]) -> Mapping[UUID, Picture]:
        """The uploads by id. Raises for one that is missing, or that is not the declared picture."""


@dataclass(frozen=True)
class Accepted:
    task: Task
    timing: Timing


@dataclass(frozen=True)
class Estimate:
    price_points: int
    lane: str
    timing: Timing
    nodes: int
    is_draft: bool = False
    draft_steps: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Wishes:
    """What a caller sets beside the nodes."""

    name: str
    params: Mapping[str, Any]
    webhook_url: str | None
    priority: Priority
    submission_key: str | None
    request: Mapping[str, Any]
    on_failure: OnFailure = OnFailure.CONTINUE


class TimingOf(Protocol):
    def __call__(
        self, plan: Plan, *, tenant_id: UUID, limits: TenantLimits, lane: str, priority: Priority
    ) -> Timing: ...


@dataclass(frozen=True)
class TaskGraph:
    task: Task
    nodes: Sequence[Node]
    dependencies: Mapping[UUID, Sequence[UUID]]


@dataclass(frozen=True)
class TaskView:
    """A task with its graph, its progress and that of each node, in percent."""

    graph: TaskGraph
    progress: int
    node_progress: Mapping[UUID, int]


class TaskService:
    def __init__(
        self,
        store: TaskStore,
        points: PointsService,
        inputs: Inputs,
        catalogue: Catalogue,
        nodes: NodeService,
        clock: Clock,
        *,
        load_of: Callable[[str], LaneLoad],
        timing_of: TimingOf,
        hold_ttl_s: int,
        refusal_of: Callable[[str], str | None],
        live_progress: Callable[[Sequence[UUID]], Mapping[UUID, NodeProgress]],
        circuit_rules: Callable[[], Rules],
        drafts: Drafts,
        check_calls: Callable[[UUID, Plan], None],
    ) -> None:
        """`load_of` returns a lane's load, `timing_of` the expected times of a plan; both may be seconds old.

        `refusal_of` returns the reason why a webhook's URL can never be called, or None.
        `live_progress` returns the newest progress of the running nodes of tasks.
        `check_calls` raises InvalidRequest for a target or a secret of HTTP nodes.
        `circuit_rules` returns the rules by which tasks that need a stopped step are refused.
        """
        self._store, self._points, self._inputs, self._catalogue = store, points, inputs, catalogue
        self._nodes, self._clock, self._load_of, self._refusal_of = nodes, clock, load_of, refusal_of
        self._live_progress, self._timing, self._circuit_rules = live_progress, timing_of, circuit_rules
        self._drafts, self._check_calls = drafts, check_calls
        self._hold_ttl = timedelta(seconds=hold_ttl_s)

    # Submissions

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
        priority: Priority = Priority.NORMAL,
        submission_key: str | None = None,
    ) -> Accepted:
        """A repeated submission with the same key returns the first task and holds no more points."""
        task_id = ids.new_id()
        plan = self._catalogue.plan(tool, inputs=inputs, params=params, count=count, seed=_seed(task_id))
        request = {"inputs": {name: str(input_id) for name, input_id in inputs.items()}, "count": count}
        wishes = _Wishes("", params, webhook_url, priority, submission_key, request)
        return self._accept(tenant_id, user_id, task_id, plan, wishes)

    def submit_flow(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        name: str,
        nodes: Sequence[FlowNode],
        webhook_url: str | None,
        priority: Priority = Priority.NORMAL,
        submission_key: str | None = None,
        on_failure: OnFailure = OnFailure.CONTINUE,
    ) -> Accepted:
        """As `submit`, for nodes that the caller names."""
        task_id = ids.new_id()
        plan = self._catalogue.flow(nodes, seed=_seed(task_id))
        uploads = {f"{node.name}.{key}": str(value) for node in nodes for key, value in node.uploads.items()}
        wishes = _Wishes(name, {}, webhook_url, priority, submission_key, {"inputs": uploads}, on_failure)
        return self._accept(tenant_id, user_id, task_id, plan, wishes)

    def estimate(
        self,
        *,
        tenant_id: UUID,
        tool: str,
        inputs: Mapping[str, UUID],
        params: Mapping[str, Any],
        count: int | None,
        priority: Priority = Priority.NORMAL,
    ) -> Estimate:
        """The price and duration of a submission. Changes nothing, holds no points."""
        plan = self._catalogue.plan(tool, inputs=inputs, params=params, count=count, seed=0)
        with self._store.open(tenant_id) as tx:
            limits = tx.limits()
        lane = _lane(limits, plan)
        plan = self._drafts.priced(plan, LANES[lane].pool)
        timing = self._timing(plan, tenant_id=tenant_id, limits=limits, lane=lane, priority=priority)
        if timing.stopped_step is not None:
            with self._store.open(tenant_id) as tx:
                timing = _probed(timing, tx.stopped_steps(), LANES[lane].pool)
        drafts = self._drafts.steps(LANES[lane].pool) & {node.step for node in plan.nodes}
        return Estimate(plan.price_points, lane, timing, len(plan.nodes), plan.is_draft, drafts)

    def draft_steps(self, tenant_id: UUID) -> frozenset[str]:
        """The steps whose results would be drafts for this tenant: they need a network, and its workers have none."""
        with self._store.open(tenant_id) as tx:
            limits = tx.limits()
        return self._drafts.steps(LANES[_lane(limits, Plan("", ()))].pool)

    def _accept(self, tenant_id: UUID, user_id: UUID, task_id: UUID, plan: Plan, wishes: _Wishes) -> Accepted:
        webhook_url = wishes.webhook_url
        if webhook_url is not None and (reason := self._refusal_of(webhook_url)) is not None:
            raise InvalidRequest("webhookUrl", reason)
        self._check_calls(tenant_id, plan)
        pictures = self._inputs.inspect(tenant_id, _uploads(plan))
        with self._store.open(tenant_id) as tx:
            limits = tx.limits()
            lane = _lane(limits, plan)
            plan = self._drafts.priced(plan, LANES[lane].pool)
            # Before the lock of the tenant's submissions, which a forecast must not make longer.
            timing = self._timing(plan, tenant_id=tenant_id, limits=limits, lane=lane, priority=wishes.priority)
            if timing.stopped_step is not None:
                timing = self._check_steps(tx, timing, LANES[lane].pool, [node.step for node in plan.nodes])
            if wishes.submission_key is not None:
                tx.lock_submissions()  # of two at once the second sees the task of the first
                if (known := tx.task_with_key(wishes.submission_key)) is not None:
                    return Accepted(known, timing)
            self._check_room(tx, limits, lane, nodes=len(plan.nodes))
            # The hold has the id of the task, so a repeated call holds no more points.
            self._hold(tenant_id, user_id, task_id, hold_id=task_id, points=plan.price_points)
            task = tx.add_task(
                NewTask(
                    task_id=task_id,
                    user_id=user_id,
                    tool=plan.tool,
                    name=wishes.name,
                    hold_id=task_id,
                    lane=lane,
                    pool=LANES[lane].pool,
                    priority=wishes.priority,
                    params=wishes.params,
                    price_points=plan.price_points,
                    webhook_url=webhook_url,
                    eta_s=timing.end_s,
                    eta_model_s=timing.model_s,
                    submission_key=wishes.submission_key,
                    is_draft=plan.is_draft,
                    request=wishes.request,
                    on_failure=wishes.on_failure,
                )
            )
            nodes = _new_nodes(plan.nodes, pictures)
            tx.add_nodes(task, nodes)
            self._start(tx, task, sorted(nodes, key=lambda node: (node.position, node.node_id)))
        metrics.emit("TasksAccepted", 1, lane=lane)
        logger.info("task accepted", task_id=str(task_id), tool=plan.tool, lane=lane, nodes=len(plan.nodes))
        return Accepted(task, timing)

    def _check_steps(self, tx: TaskTransaction, timing: Timing, pool: str, steps: Sequence[str]) -> Timing:
        """Accept a task that needs a stopped step, because most stops are short; refuse it once the stop is a long one.

        A refusal comes before points are held.
        """
        stopped, rules = tx.stopped_steps(), self._circuit_rules()
        for step in dict.fromkeys(steps):
            circuit = stopped.of(pool, step)
            refused_s = None if circuit is None else circuit.refuses_for_s(stopped.now, rules)
            if refused_s is not None:
                raise StepUnavailable(step, retry_after_s=refused_s)
        return _probed(timing, stopped, pool)

    def _check_room(self, tx: TaskTransaction, limits: TenantLimits, lane: str, *, nodes: int) -> None:
        """Back-pressure, before points are held: check the tenant's queue depth, then the lane's."""
        if limits.status != "ACTIVE":
            raise TenantSuspended  # the access check may have cached the older status for a minute
        tx.lock_submissions()
        if tx.live_tasks() >= limits.queue_depth:
            retry_after_s = _drain_s(1, tx.recent_ends(window_s=DRAIN_WINDOW_S), DRAIN_WINDOW_S)
            raise QueueFull("too many unfinished tasks", retry_after_s=retry_after_s, limit=limits.queue_depth)
        load = self._load_of(lane)
        if load.depth + nodes > load.depth_limit:
            excess = load.depth + nodes - load.depth_limit
            retry_after_s = _drain_s(excess, load.ended_lately, DRAIN_WINDOW_S // 2)
            raise DispatchBacklog("the lane is full", retry_after_s=retry_after_s, lane=lane, limit=load.depth_limit)

    def _hold(self, tenant_id: UUID, user_id: UUID, task_id: UUID, *, hold_id: UUID, points: int) -> None:
        self._points.place_hold(
            tenant_id=tenant_id,
            user_id=user_id,
            hold_id=hold_id,
            amount_points=points,
            expires_at=self._clock.now() + self._hold_ttl,
            reference=f"task:{task_id}",
        )

    def _start(self, tx: TaskTransaction, task: Task, nodes: Sequence[Node | NewNode]) -> None:
        """Start an execution for the nodes that have not completed, and publish the event."""
        tx.send(messages.start_execution(task, nodes))
        details = {"status": task.status, "pricePoints": task.price_points, "lane": task.lane}
        tx.publish(task, Occurrence(Event.TASK_QUEUED, details=details))

    # Reads

    def tasks(
        self, *, tenant_id: UUID, wanted: TaskFilter, before: UUID | None, limit: int
    ) -> Sequence[tuple[Task, int]]:
        """Newest first, each with its progress."""
        with self._store.open(tenant_id) as tx:
            found = tx.tasks(wanted, before=before, limit=limit)
            live = self._live_progress([task.task_id for task in found if task.ended_at is None])
            progress = tx.progress_of([task.task_id for task in found], live)
        return [(task, progress.get(task.task_id, 0)) for task in found]

    def graph(self, *, tenant_id: UUID, task_id: UUID) -> TaskGraph:
        with self._store.open(tenant_id) as tx:
            task = _found(tx.task(task_id))
            nodes = tx.nodes(task_id)
            return TaskGraph(task, nodes, tx.dependencies([node.node_id for node in nodes]))

    def stopped_steps(self, *, tenant_id: UUID) -> StoppedSteps:
        with self._store.open(tenant_id) as tx:
            return tx.stopped_steps()

    def ranks(self, task: Task) -> Mapping[UUID, int]:
        """How many nodes of its tenant wait before each waiting node of a task, by PostgreSQL alone."""
        with self._store.open(task.tenant_id) as tx:
            return tx.ranks(task)

    def view(self, *, tenant_id: UUID, task_id: UUID) -> TaskView:
        graph = self.graph(tenant_id=tenant_id, task_id=task_id)
        live = self._live_progress([task_id]) if graph.task.ended_at is None else {}
        percents = {node.node_id: _percent(node, live.get(node.node_id)) for node in graph.nodes}
        total_us = sum(node.cost_us for node in graph.nodes)
        done_us = sum(node.cost_us * percents[node.node_id] for node in graph.nodes)
        return TaskView(graph, done_us // max(1, total_us), percents)

    # Cancel and retry

    def cancel(self, *, tenant_id: UUID, task_id: UUID, requester: Requester) -> TaskStatus:
        """Cancel all nodes, charge delivered results, release other points. A worker stops at its next heartbeat."""
        with self._store.open(tenant_id) as tx:
            task = _found(tx.lock_task(task_id))
            requester.must_control(task)
            if task.status is TaskStatus.CANCELLED:
                return task.status
            if task.ended_at is not None:
                raise Conflict("the task has ended", code="TASK_409_ENDED", status=task.status)
            tx.request_cancel(task_id)
            return self._nodes.stop(tx, replace(task, cancel_requested_at=self._clock.now()), BY_REQUEST)

    def retry(self, *, tenant_id: UUID, task_id: UUID, requester: Requester) -> Task:
        """Run the nodes that did not complete, for the points that were not charged. Cancelled nodes are replaced."""
        with self._store.open(tenant_id) as tx:
            task = _found(tx.lock_task(task_id))
            requester.must_control(task)
            if task.status not in RETRYABLE_ENDS:
                raise NotRetryable("only a task that failed or is partial can be retried", status=task.status)
            nodes = tx.nodes(task_id)
            undone = [node for node in nodes if node.status is not NodeStatus.COMPLETED]
            self._check_steps(tx, Timing(None, None), task.pool, [node.step for node in undone])
            points = sum(node.price_points for node in undone)
            self._check_room(tx, tx.limits(), task.lane, nodes=len(undone))
            hold_id = uuid5(task.task_id, str(task.run + 1))
            self._hold(tenant_id, task.user_id, task_id, hold_id=hold_id, points=points)
            tx.begin_run(task_id, hold_id)
            for node in undone:
                if node.status is not NodeStatus.CANCELLED:
                    tx.retry(node, node.attempt, delay_s=0)
            tx.reset_failures(task_id)
            self._replace_cancelled(tx, task, nodes)
            task = _found(tx.task(task_id))
            self._start(tx, task, [node for node in tx.nodes(task_id) if node.status is NodeStatus.PENDING])
            return task

    @staticmethod
    def _replace_cancelled(tx: TaskTransaction, task: Task, nodes: Sequence[Node]) -> None:
        cancelled = [node for node in nodes if node.status is NodeStatus.CANCELLED]
        if not cancelled:
            return
        before = tx.dependencies([node.node_id for node in nodes])
        tx.supersede([node.node_id for node in cancelled])
        successor = {node.node_id: ids.new_id() for node in cancelled}
        done = {node.node_id for node in nodes if node.status is NodeStatus.COMPLETED}
        tx.add_nodes(
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
                    pool=node.pool,
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


def _percent(node: Node, live: NodeProgress | None) -> int:
    """The newest known percentage of the node's present attempt."""
    if live is not None and node.status is NodeStatus.PROCESSING and live.attempt == node.attempt:
        return max(node.progress, live.percent)
    return node.progress


def _seed(task_id: UUID) -> int:
    """Derived from the task's id, so a retry makes the same pictures."""
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
            pool=node.pool,
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


def _drain_s(wanted: int, ended: int, window_s: int) -> int:
    """When there will be room, at the rate at which tasks ended in the window."""
    return max(1, min(RETRY_AFTER_LIMIT_S, math.ceil(wanted * window_s / max(1, ended))))


def _probed(timing: Timing, stopped: StoppedSteps, pool: str) -> Timing:
    """Add when the stopped step is tried again."""
    circuit = stopped.of(pool, timing.stopped_step or "")
    if circuit is None:
        return timing
    return replace(timing, detail=f"{timing.detail}; {next_probe(circuit.probes_in_s(stopped.now))}")
