"""The life of a node after its submission: claim, lease, report, time-out, retry; and the end of a task.

Each method is one transaction that locks the task first. If a guarded UPDATE changes no row, another call has made the
change or a later one, and the method does nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from artiway import ids
from artiway.circuits.model import ENGINE_FAULTS, Attempt
from artiway.circuits.model import Rules as CircuitRules
from artiway.delivery.webhooks.service import WebhookService
from artiway.errors import NotAllowed
from artiway.events import Event
from artiway.jobs.messages import task_ended
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.points.service import PointsService
from artiway.tasks import messages
from artiway.tasks.model import (
    HTTP,
    NODE_ENDS,
    Claimed,
    Failure,
    Held,
    Node,
    NodeStatus,
    Occurrence,
    OnFailure,
    Renewal,
    Report,
    ReportKind,
    Task,
    TaskStatus,
    Terms,
    Trial,
    WorkerCard,
)
from artiway.tasks.transaction import TaskStore, TaskTransaction

logger = Logger("tasks")
LEASE_LOST = Failure("WORKER_LOST", "the worker sent no heartbeat for a whole lease", is_retryable=True)
UNCLAIMED = Failure("NOT_CLAIMED", "no worker claimed the node", is_retryable=True)
HANDED_BACK = Failure("HANDED_BACK", "the worker shut down and returned the node", is_retryable=True)
EXECUTION_TIMED_OUT = Failure("EXECUTION_TIMED_OUT", "execution timed out")
STEP_UNAVAILABLE = Failure("STEP_UNAVAILABLE", "the step kept failing and the task waited too long; it is not charged")
BY_REQUEST = Failure("CANCELLED", "cancelled by request")
DEPENDENCY_FAILED = Failure("DEPENDENCY_FAILED", "a node that this one depends on failed")
FLOW_STOPPED = Failure("FLOW_STOPPED", "another node failed, and the flow stops at the first failure")
NO_RESULT = Failure("CALL_NO_RESULT", "no result of the call arrived in time", is_retryable=True)
# SQS delays a message no longer.
MOST_RETRY_AFTER_S = 900


class Nodes(Protocol):
    """Nodes and workers of all tenants."""

    def places(self, node_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, UUID]]: ...

    def register(self, card: WorkerCard, *, engine: str) -> None: ...

    def renew(self, card: WorkerCard, held: Sequence[tuple[UUID, int]], *, lease_s: int) -> Renewal: ...

    def delete_worker(self, worker_id: str) -> None: ...


class WrongPool(NotAllowed):
    """A worker works for the nodes of its own pool only."""

    code = "WORKER_403_WRONG_POOL"


class Beat(NamedTuple):
    """For each node: go on, cancelled, or fenced by a newer attempt. `renewed` are the nodes that go on."""

    verdicts: Mapping[UUID, str]
    is_draining: bool
    renewed: Mapping[UUID, Mapping[str, Any]]


@dataclass(frozen=True)
class Rules:
    retries: int = 3
    backoff_s: float = 1.0
    progress_interval_s: float = 5.0


class NodeService:
    def __init__(
        self,
        store: TaskStore,
        nodes: Nodes,
        points: PointsService,
        webhooks: WebhookService,
        rules: Rules,
        *,
        jitter: Callable[[], float],
        circuit_rules: Callable[[], CircuitRules] = CircuitRules,
        terms: Callable[[], Terms] = Terms,
    ) -> None:
        """`jitter` returns a number from 0 to 1, `circuit_rules` and `terms` what is in force."""
        self._store, self._nodes, self._points, self._webhooks = store, nodes, points, webhooks
        self.rules, self._jitter, self._circuit_rules, self.terms = rules, jitter, circuit_rules, terms

    # Calls of workers

    def register(self, card: WorkerCard, *, engine: str) -> None:
        self._nodes.register(card, engine=engine)

    def claim(
        self,
        *,
        node_id: UUID,
        attempt: int,
        worker_id: str,
        place: tuple[UUID, UUID] | None = None,
        pool: str | None = None,
    ) -> dict[str, Any] | None:
        """Assign an attempt to a worker. None: another worker has it, or the attempt is over.

        `place` is the tenant and the task that the work message names, `pool` that of the worker where it is proved.
        """
        terms = self.terms()
        place = place or self._nodes.places([node_id]).get(node_id)
        if place is None:
            return None
        tenant_id, task_id = place
        with self._store.open(tenant_id) as tx:
            task = tx.lock_task(task_id)
            claim = tx.claim(node_id, attempt, worker_id, lease_s=terms.lease_s)
            node = claim.node
            if task is None or node is None or node.task_id != task_id:
                return None
            if pool is not None and node.pool != pool:
                raise WrongPool("this node is of another pool", pool=pool)
            if claim.claimed is Claimed.NOW:
                logger.info(
                    "node claimed", task_id=str(task_id), node_id=str(node_id), attempt=attempt, worker_id=worker_id
                )
                tx.publish(task, about(Event.TASK_STARTED, node, status=NodeStatus.PROCESSING, attempt=attempt))
            return _order(task, node, claim.outputs, terms)

    def beat(self, card: WorkerCard, held: Sequence[tuple[UUID, int]]) -> Beat:
        """Renew all leases of a worker."""
        renewal = self._nodes.renew(card, held, lease_s=self.terms().lease_s)
        verdicts = {
            node_id: "go" if node_id in renewal.renewed else "cancelled" if node_id in renewal.cancelled else "fenced"
            for node_id, _ in held
        }
        return Beat(verdicts, renewal.is_draining, {one: _pictures(row) for one, row in renewal.renewed.items()})

    def release(self, *, worker_id: str, held: Sequence[tuple[UUID, int]]) -> int:
        """A worker shuts down and returns its nodes. That does not count as a failure of the node."""
        self._nodes.delete_worker(worker_id)
        return sum(
            self._time_out("hand_back", node_id, attempt, HANDED_BACK, worker_id=worker_id) for node_id, attempt in held
        )

    # Reports of workers

    def settle_report(self, report: Report) -> bool:
        """Store the end of an attempt. False: it is not the running attempt, and nothing changed."""
        with self._store.open(report.tenant_id) as tx:
            task = tx.lock_task(report.task_id)
            if task is None:
                return False
            if report.kind is ReportKind.RESULT:
                return self._complete(tx, task, report)
            node = tx.node(report.node_id)
            assert report.failure is not None
            if node is None or node.task_id != task.task_id:
                return False
            return self._fail(tx, task, node, report, report.failure)

    def note_progress(self, report: Report, *, is_forced: bool = False) -> bool:
        """Store progress in the database, at most once per interval."""
        interval_s = 0.0 if is_forced else self.rules.progress_interval_s
        with self._store.open(report.tenant_id) as tx:
            return tx.note_progress(report.node_id, report.attempt, report.progress, interval_s=interval_s)

    # Time-outs

    def time_out_lease(self, node_id: UUID, attempt: int) -> bool:
        return self._time_out("time_out_lease", node_id, attempt, LEASE_LOST)

    def time_out_unclaimed(self, node_id: UUID, attempt: int) -> bool:
        """Return the slot. That does not count as a failure of the node."""
        return self._time_out("time_out_unclaimed", node_id, attempt, UNCLAIMED)

    def time_out_stopped(self, node_id: UUID, attempt: int) -> bool:
        """The step of a waiting node is stopped for too long: the node fails, although it never ran."""
        return self._time_out("time_out_stopped", node_id, attempt, STEP_UNAVAILABLE)

    def time_out_running(self, node_id: UUID, attempt: int, *, is_requeued: bool) -> bool:
        failure = Failure(EXECUTION_TIMED_OUT.code, EXECUTION_TIMED_OUT.message, is_retryable=is_requeued)
        return self._time_out("time_out_running", node_id, attempt, failure)

    # Calls of Step Functions

    def settle(self, *, tenant_id: UUID, task_id: UUID) -> TaskStatus | None:
        """End the task if all of its nodes have ended. Returns its status."""
        with self._store.open(tenant_id) as tx:
            task = tx.lock_task(task_id)
            if task is None:
                return None
            status = self.conclude(tx, task)
            logger.info("task settled", task_id=str(task_id), status=status)
            return status

    def compensate(self, *, tenant_id: UUID, task_id: UUID) -> TaskStatus | None:
        """The execution failed, so the task ends: delivered results are charged, the other points are released."""
        with self._store.open(tenant_id) as tx:
            task = tx.lock_task(task_id)
            if task is None:
                return None
            return self.stop(tx, task, EXECUTION_TIMED_OUT)

    # The end of a task

    def stop(self, tx: TaskTransaction, task: Task, failure: Failure) -> TaskStatus:
        """Cancel the nodes that have not ended, then end the task."""
        cancelled = set(tx.cancel_all(task, failure))
        for node in tx.nodes(task.task_id):
            if node.node_id in cancelled:
                tx.publish(task, about(Event.TASK_CANCELLED, node, status=NodeStatus.CANCELLED))
        tx.answer_tokens(sorted(cancelled))
        return self.conclude(tx, task)

    def conclude(self, tx: TaskTransaction, task: Task) -> TaskStatus:
        """If the last node has ended, end the task and settle its hold in the same transaction. A task that has ended
        stays as it is."""
        if task.ended_at is not None:
            return task.status
        nodes = tx.nodes(task.task_id)
        if any(node.status not in NODE_ENDS for node in nodes):
            return task.status
        status = outcome(nodes, is_cancelled=task.cancel_requested_at is not None)
        charged = tx.charge_nodes(task.task_id)
        if charged:
            self._points.confirm_hold(
                tenant_id=task.tenant_id,
                hold_id=task.hold_id,
                charge_points=charged,
                reference=f"task:{task.task_id}",
            )
        else:
            self._points.cancel_hold(
                tenant_id=task.tenant_id,
                user_id=task.user_id,
                hold_id=task.hold_id,
                reference=f"task:{task.task_id}",
            )
        error = next((node.error for node in nodes if node.status in (NodeStatus.FAILED, NodeStatus.TIMEOUT)), None)
        tx.end_task(task.task_id, status, charged=charged, error=error)
        body = {"status": status, "chargedPoints": task.charged_points + charged}
        tx.publish(task, Occurrence(_END_EVENTS[status], details={"status": status}))
        tx.publish(task, Occurrence(Event.TASK_SETTLED, details=body))
        self._webhooks.task_ended(tx, task, body)
        if task.submission_key is not None:
            ended = task_ended(task.tenant_id, task.task_id, task.submission_key, at=task.created_at)
            if ended is not None:
                tx.send(ended)
        metrics.emit("TasksEnded", 1, status=status)
        logger.info("task ended", task_id=str(task.task_id), status=status)
        return status

    # Steps

    def _complete(self, tx: TaskTransaction, task: Task, report: Report) -> bool:
        prefix = output_prefix(report, report.attempt)
        if not all(output.key.startswith(prefix) for output in report.outputs):
            logger.error("result outside its prefix", node_id=str(report.node_id), attempt=report.attempt)
            return False
        finished = tx.finish(report)
        if finished is None:
            return False
        logger.info("node completed", **_named(report))
        metrics.emit("NodeSeconds", finished.run_s, "Seconds", pool=finished.pool, type=finished.type)
        details = {"status": NodeStatus.COMPLETED, "attempt": report.attempt}
        tx.publish(task, _event(Event.TASK_COMPLETED, finished.name, report.node_id, details))
        if finished.is_leaf:  # otherwise a dependent has yet to run
            self.conclude(tx, task)
        return True

    def _fail(self, tx: TaskTransaction, task: Task, node: Node, report: Report, failure: Failure) -> bool:
        """While the circuit of its step is open, a node keeps its retries: the engine fails, not the node."""
        is_engine = failure.code in ENGINE_FAULTS
        trial = tx.trial(node) if is_engine else None
        is_spared = trial is not None and trial.circuit.is_sparing(trial.now, self._circuit_rules())
        if not tx.fail(node, report.attempt, failure, gpu_us=report.gpu_us, is_counted=not is_spared):
            return False
        if trial is not None:
            self._count(tx, node, trial, failure)
        failures = node.failures + (not is_spared)
        ended = replace(node, status=NodeStatus.FAILED, failures=failures, attempt=report.attempt)
        self._after_failure(tx, task, ended, failure, is_spared=is_spared)
        return True

    @staticmethod
    def _count(tx: TaskTransaction, node: Node, trial: Trial, failure: Failure) -> None:
        if trial.dispatched_at is not None:
            tx.count_attempt(Attempt(node.pool, node.step, trial.dispatched_at, failure.code))

    def _time_out(self, verb: str, node_id: UUID, attempt: int, failure: Failure, *, worker_id: str = "") -> bool:
        place = self._nodes.places([node_id]).get(node_id)
        if place is None:
            return False
        tenant_id, task_id = place
        with self._store.open(tenant_id) as tx:
            task = tx.lock_task(task_id)
            node = tx.node(node_id)
            if task is None or node is None:
                return False
            if node.type == HTTP and failure is LEASE_LOST:
                failure = NO_RESULT
            trial = tx.trial(node) if failure.code in ENGINE_FAULTS else None
            if not tx.time_out(verb, node, attempt, failure, worker_id=worker_id):
                return False
            if trial is not None:
                self._count(tx, node, trial, failure)
            failures = node.failures + (verb in ("time_out_lease", "time_out_running"))
            ended = replace(node, status=NodeStatus.TIMEOUT, failures=failures, attempt=attempt)
            self._after_failure(tx, task, ended, failure)
            return True

    def _after_failure(
        self, tx: TaskTransaction, task: Task, node: Node, failure: Failure, *, is_spared: bool = False
    ) -> None:
        """Retry the node if the failure allows it and retries remain. Otherwise cancel the nodes that depend on it, or
        all that have not started if the flow stops at a failure."""
        error, attempt = failure.as_json(), node.attempt
        logger.info("attempt failed", code=failure.code, **_named(node))
        may_retry = is_spared or (failure.is_retryable and node.failures <= self.rules.retries)
        if may_retry and not _is_stopped(tx, task, node):
            delay_s = max(self._backoff_s(node.failures), min(failure.retry_after_s, MOST_RETRY_AFTER_S))
            tx.retry(node, attempt, delay_s=delay_s)
            tx.send(
                messages.ready(
                    tenant_id=task.tenant_id,
                    task_id=task.task_id,
                    node_id=node.node_id,
                    lane=node.lane,
                    delay_s=-int(-delay_s // 1),
                )
            )
            tx.publish(task, about(Event.TASK_QUEUED, node, status=NodeStatus.PENDING, attempt=attempt, error=error))
            metrics.emit("NodesRetried", 1, type=node.type, code=failure.code)
            return
        is_stop = task.on_failure is OnFailure.STOP
        found = tx.cancel_waiting(task, FLOW_STOPPED) if is_stop else tx.cancel_dependents(node, DEPENDENCY_FAILED)
        cancelled = set(found)
        tx.publish(task, about(Event.TASK_FAILED, node, status=node.status, attempt=attempt, error=error))
        for dependent in tx.nodes(task.task_id):
            if dependent.node_id in cancelled:
                tx.publish(task, about(Event.TASK_CANCELLED, dependent, status=NodeStatus.CANCELLED))
        tx.answer_tokens([node.node_id, *sorted(cancelled)])
        metrics.emit("NodesFailed", 1, type=node.type, code=failure.code)
        self.conclude(tx, task)

    def _backoff_s(self, failures: int) -> float:
        """1, 2, 4 … seconds, each times 0.5 to 1.5. A returned node has no failure and runs again at once."""
        if failures == 0:
            return 0.0
        return self.rules.backoff_s * 2.0 ** (failures - 1) * (0.5 + self._jitter())


_END_EVENTS = {
    TaskStatus.COMPLETED: Event.TASK_COMPLETED,
    TaskStatus.PARTIAL: Event.TASK_COMPLETED,
    TaskStatus.FAILED: Event.TASK_FAILED,
    TaskStatus.CANCELLED: Event.TASK_CANCELLED,
}


def outcome(nodes: Sequence[Node], *, is_cancelled: bool) -> TaskStatus:
    """The status of a task whose nodes have all ended."""
    if all(node.status is NodeStatus.COMPLETED for node in nodes):
        return TaskStatus.COMPLETED
    if is_cancelled:
        return TaskStatus.CANCELLED
    is_delivered = any(node.is_result and node.status is NodeStatus.COMPLETED for node in nodes)
    return TaskStatus.PARTIAL if is_delivered else TaskStatus.FAILED


def _is_stopped(tx: TaskTransaction, task: Task, node: Node) -> bool:
    """Another node has failed for good, so that no attempt of this flow may start. The task is locked, and a node that
    is retried leaves its failure in the transaction that stored it."""
    if task.on_failure is not OnFailure.STOP:
        return False
    failures = (NodeStatus.FAILED, NodeStatus.TIMEOUT)
    return any(other.status in failures for other in tx.nodes(task.task_id) if other.node_id != node.node_id)


def _named(node: Node | Report) -> dict[str, Any]:
    """The fields by which a line of the log names an attempt."""
    return {"task_id": str(node.task_id), "node_id": str(node.node_id), "attempt": node.attempt}


def output_prefix(node: Held | Report, attempt: int) -> str:
    """The key contains the attempt, so a late attempt cannot overwrite a newer one."""
    return f"outputs/{node.tenant_id}/{node.task_id}/{node.node_id}/{attempt}/"


def _order(task: Task, node: Node, outputs: Mapping[str, Sequence[Mapping[str, Any]]], terms: Terms) -> dict[str, Any]:
    """The facts that a worker needs to run the node, and no other data of the tenant."""
    return {
        "nodeId": str(node.node_id),
        "taskId": str(node.task_id),
        "tenantId": str(node.tenant_id),
        "attempt": node.attempt,
        "name": node.name,
        "type": node.type,
        "tool": task.tool,
        "model": node.model,
        **_pictures(Held(node.tenant_id, node.task_id, node.node_id, node.attempt, node.params, node.inputs, outputs)),
        "timeLimitSeconds": terms.time_limit_s,
        "leaseSeconds": terms.lease_s,
    }


def _pictures(held: Held) -> dict[str, Any]:
    """The parameters, the inputs and the place of the outputs of a running attempt."""
    return {
        "params": dict(held.params),
        "inputs": _resolved(held.inputs, held.outputs),
        "outputPrefix": output_prefix(held, held.attempt),
    }


def about(event: Event, node: Node, **details: Any) -> Occurrence:
    return _event(event, node.name, node.node_id, details)


def _event(event: Event, name: str, node_id: UUID, details: Mapping[str, Any]) -> Occurrence:
    return Occurrence(event, name, {"nodeId": ids.to_wire("node", node_id), **details})


def _resolved(
    inputs: Sequence[Mapping[str, Any]], outputs: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """The node's inputs as objects in S3. `outputs` are those of the nodes before it, which have completed."""
    found = []
    for source in inputs:
        if "node" not in source:
            found.append({"name": source["name"], "key": source["key"], "contentType": source["contentType"]})
            continue
        for output in outputs.get(source["node"], []):
            if source["output"] in ("", output["name"]):
                found.append({"name": source["name"], "key": output["key"], "contentType": output["contentType"]})
                break
    return found
