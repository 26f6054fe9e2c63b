"""The messages that a task's transactions publish: to Step Functions, lanes, workers and WebSockets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.outbox.model import Message
from artiway.push.model import Notice
from artiway.push.service import notice_message
from artiway.scheduling.lanes import LANES
from artiway.tasks.model import HTTP, NewNode, Node, Occurrence, Task

START = "machine:start"
ANSWER = "machine:answer"
WORKER_REGISTERED = "worker_came"
PROGRESS = "progress"
CALL_DUE = "call_due"


def lane_destination(lane: str) -> str:
    return f"lane:{lane}"


def work_destination(pool: str, node_type: str) -> str:
    return f"work:{pool}:{node_type}"


def start_execution(task: Task, nodes: Sequence[Node | NewNode]) -> Message:
    """One execution per run of a task. The input has ids only, in topological order. `isEntry` is read by the machine
    of the release before, which may still run when this code starts."""
    machine_input = {
        "taskId": str(task.task_id),
        "tenantId": str(task.tenant_id),
        "run": task.run,
        "lane": task.lane,
        "checks": 0,
        "nodes": [{"nodeId": str(node.node_id), "isEntry": node.in_degree == 0} for node in nodes],
    }
    data = {"name": task.execution_name, "input": machine_input}
    return Message(START, f"task:{task.task_id}", "start", data, tenant_id=task.tenant_id, trace_id=task.trace_id)


def answer_token(*, tenant_id: UUID, token_id: UUID, node_id: UUID, token: str, status: str) -> Message:
    """The stored token stands for the message until it is sent."""
    data = {"token": token, "output": {"nodeId": str(node_id), "status": status}}
    return Message(ANSWER, f"node:{node_id}", "answer", data, tenant_id=tenant_id, token_id=token_id, is_stored=False)


def ready(
    *,
    tenant_id: UUID,
    task_id: UUID,
    node_id: UUID,
    lane: str,
    delay_s: int = 0,
    token: str | None = None,
    trace_id: str = "",
) -> Message:
    """A node may be ready. The consumer asks the database whether it is."""
    data = {"nodeId": str(node_id), "tenantId": str(tenant_id), "taskId": str(task_id)}
    if token is not None:
        data["taskToken"] = token
    return Message(lane_destination(lane), f"node:{node_id}", "ready", data, delay_s, tenant_id, trace_id)


def worker_registered(*, pool: str, worker_id: str) -> Message | None:
    """A new worker can take nodes of the pool, so the scheduler dispatches now. None: no lane uses this pool."""
    lane = next((name for name, spec in LANES.items() if spec.pool == pool), None)
    return Message(lane_destination(lane), f"worker:{worker_id}", WORKER_REGISTERED, {"pool": pool}) if lane else None


def work(
    *,
    tenant_id: UUID | str,
    task_id: UUID | str,
    node_id: UUID | str,
    attempt: int,
    pool: str,
    node_type: str,
    trace_id: str = "",
) -> Message:
    """Offers an attempt to the workers of a node type. The first claim gets it.

    The dispatched node stands for the message: if no worker claims it, a sweep sends the message again.
    """
    data = {"nodeId": str(node_id), "tenantId": str(tenant_id), "taskId": str(task_id), "attempt": attempt}
    # The caller has no database, so it cannot claim: the consumer of reports does it, and sends the call to the caller.
    destination, kind = (PROGRESS, CALL_DUE) if pool == HTTP else (work_destination(pool, node_type), "work")
    return Message(destination, f"node:{node_id}", kind, data, tenant_id=tenant_id, trace_id=trace_id, is_stored=False)


def event_body(task_id: UUID, occurrence: Occurrence, *, sequence: int, at: datetime) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": occurrence.event,
        "taskId": ids.to_wire("task", task_id),
        "sequence": sequence,
        "at": at.isoformat(),
    }
    if occurrence.node is not None:
        body["node"] = occurrence.node
    return {**body, **occurrence.details}


def notice(
    tenant_id: UUID, user_id: UUID, body: Mapping[str, Any], *, event: tuple[UUID, int] | None = None
) -> Message:
    """`event` names the stored event that the notice is about."""
    return replace(notice_message(Notice(tenant_id, user_id, body)), event=event)
