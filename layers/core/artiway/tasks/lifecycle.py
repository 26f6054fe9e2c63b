"""The life of a node after it was accepted: claimed, renewed, reported on, timed out, tried again; and a task's end.

Each act is one transaction that locks the task first. A guard that finds nothing to change means that the act was done
before, or overtaken: then nothing else happens either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.points.model import Hold
from artiway.tasks import messages
from artiway.tasks.model import (
    NODE_ENDS,
    Claimed,
    Event,
    Failure,
    Node,
    NodeStatus,
    Occurrence,
    Report,
    ReportKind,
    Task,
    TaskStatus,
    WorkerCard,
)
from artiway.tasks.work import Work

logger = Logger("tasks")
LEASE_LOST = Failure("WORKER_LOST", "the worker was not heard of for a whole lease", is_retryable=True)
UNCLAIMED = Failure("NOT_CLAIMED", "no worker took the node", is_retryable=True)
HANDED_BACK = Failure("HANDED_BACK", "the worker went away and gave the node back", is_retryable=True)
EXECUTION_TIMED_OUT = Failure("EXECUTION_TIMED_OUT", "execution timed out")
BY_REQUEST = Failure("CANCELLED", "cancelled by request")
DEPENDENCY_FAILED = Failure("DEPENDENCY_FAILED", "a node that this one depends on failed")


class Store(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[Work]: ...


class Nodes(Protocol):
    """Nodes of all tenants."""

    def places(self, node_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, UUID]]: ...

    def register(self, card: WorkerCard, *, engine: str) -> None: ...

    def renew(
        self, card: WorkerCard, held: Sequence[tuple[UUID, int]], *, lease_s: int
    ) -> tuple[frozenset[UUID], frozenset[UUID]]: ...

    def forget_worker(self, worker_id: str) -> None: ...


class Holds(Protocol):
    def confirm_hold(self, *, tenant_id: UUID, hold_id: UUID, charge_points: int, reference: str = "") -> Hold: ...

    def cancel_hold(self, *, tenant_id: UUID, user_id: UUID, hold_id: UUID, reference: str = "") -> Hold: ...


class Ends(Protocol):
    """Whoever else has something to say when a task is over, in the same transaction."""

    def task_ended(self, work: Work, task: Task, body: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Rules:
    lease_s: int = 30
    beat_s: int = 10
    retries: int = 3
    backoff_s: float = 1.0
    node_time_limit_s: int = 600
    progress_interval_s: float = 5.0


class NodeService:
    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        holds: Holds,
        ends: Ends,
        rules: Rules,
        *,
        jitter: Callable[[], float],
    ) -> None:
        """`jitter` gives a number from 0 to 1."""
        self._store, self._nodes, self._holds, self._ends = store, nodes, holds, ends
        self.rules, self._jitter = rules, jitter

    # What workers ask

    def register(self, card: WorkerCard, *, engine: str) -> None:
        self._nodes.register(card, engine=engine)

    def claim(self, *, node_id: UUID, attempt: int, worker_id: str) -> dict[str, Any] | None:
        """Give an attempt to a worker. None: somebody else has it, or nobody wants it any more."""
        place = self._nodes.places([node_id]).get(node_id)
        if place is None:
            return None
        tenant_id, task_id = place
        with self._store.open(tenant_id) as work:
            task = work.lock_task(task_id)
            claimed, node = work.claim(node_id, attempt, worker_id, lease_s=self.rules.lease_s)
            if task is None or node is None:
                return None
            if claimed is Claimed.NOW:
                if task.status is TaskStatus.QUEUED:
                    work.start_task(task_id)
                work.tell(task, _about(Event.STARTED, node, status=NodeStatus.PROCESSING, attempt=attempt))
            return self._order(work, task, node)

    def beat(self, card: WorkerCard, held: Sequence[tuple[UUID, int]]) -> dict[UUID, str]:
        """Renew all leases of a worker. Each node is the worker's still, or cancelled, or somebody else's."""
        renewed, cancelled = self._nodes.renew(card, held, lease_s=self.rules.lease_s)
        return {
            node_id: "go" if node_id in renewed else "cancelled" if node_id in cancelled else "fenced"
            for node_id, _ in held
        }

    def release(self, *, worker_id: str, held: Sequence[tuple[UUID, int]]) -> int:
        """A worker goes away and hands back what it holds. It costs no retry."""
        self._nodes.forget_worker(worker_id)
        return sum(
            self._time_out("hand_back", node_id, attempt, HANDED_BACK, worker_id=worker_id) for node_id, attempt in held
        )

    # What workers report

    def settle_report(self, report: Report) -> bool:
        """The end of an attempt. False: it is not the attempt that runs, and nothing changed."""
        with self._store.open(report.tenant_id) as work:
            task = work.lock_task(report.task_id)
            node = work.node(report.node_id)
            if task is None or node is None or node.task_id != task.task_id:
                return False
            if report.kind is ReportKind.RESULT:
                return self._complete(work, task, node, report)
            assert report.failure is not None
            if not work.fail(node, report.attempt, report.failure, gpu_us=report.gpu_us):
                return False
            ended = replace(node, status=NodeStatus.FAILED, failures=node.failures + 1, attempt=report.attempt)
            self._after_failure(work, task, ended, report.failure)
            return True

    def note_progress(self, report: Report, *, is_forced: bool = False) -> bool:
        """Write progress down, unless that was done a moment ago."""
        interval_s = 0.0 if is_forced else self.rules.progress_interval_s
        with self._store.open(report.tenant_id) as work:
            return work.note_progress(report.node_id, report.attempt, report.progress, interval_s=interval_s)

    # What time brings

    def time_out_lease(self, node_id: UUID, attempt: int) -> bool:
        return self._time_out("time_out_lease", node_id, attempt, LEASE_LOST)

    def time_out_unclaimed(self, node_id: UUID, attempt: int) -> bool:
        """The slot goes back; the node is not to blame."""
        return self._time_out("time_out_unclaimed", node_id, attempt, UNCLAIMED)

    def time_out_running(self, node_id: UUID, attempt: int, *, is_requeued: bool) -> bool:
        failure = Failure(EXECUTION_TIMED_OUT.code, EXECUTION_TIMED_OUT.message, is_retryable=is_requeued)
        return self._time_out("time_out_running", node_id, attempt, failure)

    # What Step Functions asks

    def gate(self, *, tenant_id: UUID, task_id: UUID, node_id: UUID, token: str) -> None:
        """An execution waits until the node may start. One that may, or never will, is answered at once."""
        with self._store.open(tenant_id) as work:
            work.lock_task(task_id)
            if work.remember_gate(node_id, token):
                work.answer_tokens([node_id])

    def settle(self, *, tenant_id: UUID, task_id: UUID) -> TaskStatus | None:
        """Bring a task to its end if all of its nodes are at theirs. Returns where it stands."""
        with self._store.open(tenant_id) as work:
            task = work.lock_task(task_id)
            if task is None:
                return None
            return self.conclude(work, task)

    def compensate(self, *, tenant_id: UUID, task_id: UUID) -> TaskStatus | None:
        """The execution gave up: so does the task. What was delivered is charged, the rest released."""
        with self._store.open(tenant_id) as work:
            task = work.lock_task(task_id)
            if task is None:
                return None
            return self.stop(work, task, EXECUTION_TIMED_OUT)

    # How a task ends

    def stop(self, work: Work, task: Task, failure: Failure) -> TaskStatus:
        """Cancel whatever has not ended; the task is over."""
        cancelled = set(work.cancel_all(task, failure))
        for node in work.nodes(task.task_id):
            if node.node_id in cancelled:
                work.tell(task, _about(Event.CANCELLED, node, status=NodeStatus.CANCELLED))
        work.answer_tokens(sorted(cancelled))
        return self.conclude(work, task)

    def conclude(self, work: Work, task: Task) -> TaskStatus:
        """End the task and settle its hold, in the transaction of its last node. Before that, and after it, nothing."""
        if task.ended_at is not None:
            return task.status
        nodes = work.nodes(task.task_id)
        if any(node.status not in NODE_ENDS for node in nodes):
            return task.status
        status = outcome(nodes, is_cancelled=task.cancel_requested_at is not None)
        charged = work.charge_nodes(task.task_id)
        if charged:
            self._holds.confirm_hold(
                tenant_id=task.tenant_id,
                hold_id=task.hold_id,
                charge_points=charged,
                reference=f"task:{task.task_id}",
            )
        else:
            self._holds.cancel_hold(
                tenant_id=task.tenant_id,
                user_id=task.user_id,
                hold_id=task.hold_id,
                reference=f"task:{task.task_id}",
            )
        error = next((node.error for node in nodes if node.status in (NodeStatus.FAILED, NodeStatus.TIMEOUT)), None)
        work.end_task(task.task_id, status, charged=charged, error=error)
        work.answer_tokens([node.node_id for node in nodes])
        body = {"status": status, "chargedPoints": task.charged_points + charged}
        work.tell(task, Occurrence(_END_EVENTS[status], details={"status": status}))
        work.tell(task, Occurrence(Event.SETTLED, details=body))
        self._ends.task_ended(work, task, body)
        metrics.emit("TasksEnded", 1, status=status)
        return status

    # Steps

    def _complete(self, work: Work, task: Task, node: Node, report: Report) -> bool:
        prefix = output_prefix(node, report.attempt)
        if not all(output.key.startswith(prefix) for output in report.outputs):
            logger.error("result outside its place", node_id=str(node.node_id), attempt=report.attempt)
            return False
        if not work.finish(node, report.attempt, report.outputs, engine=report.engine, gpu_us=report.gpu_us):
            return False
        work.add_artefacts(node, report.outputs)
        dependents = work.lower_in_degrees(node.node_id)
        opened = [dependent for dependent, in_degree in dependents.items() if in_degree == 0]
        work.answer_tokens([node.node_id, *opened])
        work.tell(task, _about(Event.COMPLETED, node, status=NodeStatus.COMPLETED, attempt=report.attempt))
        if not dependents:  # otherwise somebody is still to run
            self.conclude(work, task)
        return True

    def _time_out(self, verb: str, node_id: UUID, attempt: int, failure: Failure, *, worker_id: str = "") -> bool:
        place = self._nodes.places([node_id]).get(node_id)
        if place is None:
            return False
        tenant_id, task_id = place
        with self._store.open(tenant_id) as work:
            task = work.lock_task(task_id)
            node = work.node(node_id)
            if task is None or node is None:
                return False
            if not work.time_out(verb, node, attempt, failure, worker_id=worker_id):
                return False
            failures = node.failures + (verb in ("time_out_lease", "time_out_running"))
            ended = replace(node, status=NodeStatus.TIMEOUT, failures=failures, attempt=attempt)
            self._after_failure(work, task, ended, failure)
            return True

    def _after_failure(self, work: Work, task: Task, node: Node, failure: Failure) -> None:
        """Try again while that makes sense; else all that depends on the node is cancelled, and nothing else."""
        error, attempt = failure.as_json(), node.attempt
        if failure.is_retryable and node.failures <= self.rules.retries:
            delay_s = self._backoff_s(node.failures)
            work.retry(node, attempt, delay_s=delay_s)
            work.send(
                messages.ready_hint(
                    tenant_id=task.tenant_id,
                    task_id=task.task_id,
                    node_id=node.node_id,
                    lane=node.lane,
                    delay_s=-int(-delay_s // 1),
                )
            )
            work.tell(task, _about(Event.QUEUED, node, status=NodeStatus.PENDING, attempt=attempt, error=error))
            metrics.emit("NodesRetried", 1, type=node.type, code=failure.code)
            return
        cancelled = set(work.cancel_dependents(node, DEPENDENCY_FAILED))
        work.tell(task, _about(Event.FAILED, node, status=node.status, attempt=attempt, error=error))
        for dependent in work.nodes(task.task_id):
            if dependent.node_id in cancelled:
                work.tell(task, _about(Event.CANCELLED, dependent, status=NodeStatus.CANCELLED))
        work.answer_tokens([node.node_id, *sorted(cancelled)])
        metrics.emit("NodesFailed", 1, type=node.type, code=failure.code)
        self.conclude(work, task)

    def _backoff_s(self, failures: int) -> float:
        """1, 2, 4 … seconds, each from half to one and a half of that. What was handed back goes at once."""
        if failures == 0:
            return 0.0
        return self.rules.backoff_s * 2.0 ** (failures - 1) * (0.5 + self._jitter())

    def _order(self, work: Work, task: Task, node: Node) -> dict[str, Any]:
        """All that a worker needs to run a node, and nothing of the tenant besides."""
        return {
            "nodeId": str(node.node_id),
            "taskId": str(node.task_id),
            "tenantId": str(node.tenant_id),
            "attempt": node.attempt,
            "name": node.name,
            "type": node.type,
            "tool": task.tool,
            "model": node.model,
            "params": dict(node.params),
            "inputs": _resolved(work, node),
            "outputPrefix": output_prefix(node, node.attempt),
            "timeLimitSeconds": self.rules.node_time_limit_s,
            "leaseSeconds": self.rules.lease_s,
        }


_END_EVENTS = {
    TaskStatus.COMPLETED: Event.COMPLETED,
    TaskStatus.PARTIAL: Event.COMPLETED,
    TaskStatus.FAILED: Event.FAILED,
    TaskStatus.CANCELLED: Event.CANCELLED,
}


def outcome(nodes: Sequence[Node], *, is_cancelled: bool) -> TaskStatus:
    """What became of a task whose nodes have all ended."""
    if all(node.status is NodeStatus.COMPLETED for node in nodes):
        return TaskStatus.COMPLETED
    if is_cancelled:
        return TaskStatus.CANCELLED
    is_delivered = any(node.is_result and node.status is NodeStatus.COMPLETED for node in nodes)
    return TaskStatus.PARTIAL if is_delivered else TaskStatus.FAILED


def output_prefix(node: Node, attempt: int) -> str:
    """The attempt is in the key: a late attempt can never overwrite a newer one."""
    return f"outputs/{node.tenant_id}/{node.task_id}/{node.node_id}/{attempt}/"


def _about(event: Event, node: Node, **details: Any) -> Occurrence:
    return Occurrence(event, node.name, {"nodeId": ids.to_wire("node", node.node_id), **details})


def _resolved(work: Work, node: Node) -> list[dict[str, Any]]:
    """The node's inputs as objects in S3. What another node made is looked up now that it is there."""
    sources = [source["node"] for source in node.inputs if "node" in source]
    made = work.outputs(node.task_id, sources) if sources else {}
    found = []
    for source in node.inputs:
        if "node" not in source:
            found.append({"name": source["name"], "key": source["key"], "contentType": source["contentType"]})
            continue
        for output in made.get(source["node"], []):
            if source["output"] in ("", output["name"]):
                found.append({"name": source["name"], "key": output["key"], "contentType": output["contentType"]})
                break
    return found
