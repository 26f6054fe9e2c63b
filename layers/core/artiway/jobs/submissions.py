"""Submits TASK and FLOW runs through the tasks service, with the run as key. Cancels the tasks of terminated runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.errors import ArtiwayError, Conflict, NotAllowed, NotFound, Refused, TooMany, Unavailable
from artiway.jobs import messages
from artiway.jobs.messages import Outcome, Result
from artiway.jobs.model import JobPriority, TaskType
from artiway.jobs.runs import Submission
from artiway.outbox.model import Message
from artiway.platform import tracing
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.scheduling.model import Priority
from artiway.tasks.model import RETRYABLE_ENDS, FlowNode, OnFailure, Requester, Task, TaskStatus
from artiway.tasks.service import TaskService

logger = Logger("jobs")
_PRIORITIES = {
    JobPriority.CRITICAL: Priority.HIGH,
    JobPriority.HIGH: Priority.HIGH,
    JobPriority.NORMAL: Priority.NORMAL,
    JobPriority.LOW: Priority.LOW,
}
# Another attempt would end in the same way.
_FINAL = (Refused, NotFound, NotAllowed)


class SubmissionTransaction(Protocol):
    def send(self, messages: Iterable[Message]) -> None: ...
    def lock_submission(self, *, run_id: UUID, generation: int, attempt: int) -> Submission | None: ...
    def note_task(self, submission: Submission, task_id: UUID) -> None: ...


class SubmissionStore(Protocol):
    def open_tenant(self, tenant_id: UUID) -> AbstractContextManager[SubmissionTransaction]: ...


class SubmissionService:
    def __init__(self, store: SubmissionStore, tasks: TaskService, clock: Clock) -> None:
        """Both on the same database: the task and the run that names it are one transaction."""
        self._store, self._tasks, self._clock = store, tasks, clock

    def submit(self, *, tenant_id: UUID, run_id: UUID, generation: int, attempt: int) -> bool:
        """Submit one attempt of a run. False: it is not the present attempt, or it was submitted before."""
        try:
            with tracing.restored(), self._store.open_tenant(tenant_id) as tx:
                run = tx.lock_submission(run_id=run_id, generation=generation, attempt=attempt)
                if run is None:
                    return False
                tracing.follow(run.trace_id)
                task = self._submitted(tenant_id, run)
                tx.note_task(run, task.task_id)
                if task.ended_at is not None and (message := _ended(task)):
                    tx.send([message])
                return True
        except Unavailable:
            raise  # the queue delivers the message again
        except ArtiwayError as error:
            result = self._failed(tenant_id, run_id, generation, attempt, error)
        with self._store.open_tenant(tenant_id) as tx:
            tx.send([messages.results([result])])
        return True

    def cancel(self, *, tenant_id: UUID, task_id: UUID) -> None:
        """Its run was terminated. A task that has ended stays as it is."""
        try:
            self._tasks.cancel(tenant_id=tenant_id, task_id=task_id, requester=Requester(task_id, may_manage=True))
        except (Conflict, NotFound) as error:
            logger.info("task not cancelled", task_id=str(task_id), code=error.code)

    def _submitted(self, tenant_id: UUID, run: Submission) -> Task:
        """The task of the run. After a failed attempt the same task runs again what did not complete."""
        key = messages.submission_key(run.run_id, run.generation)
        common: dict[str, Any] = {
            "tenant_id": tenant_id,
            "user_id": run.user_id,
            "webhook_url": run.task.get("webhookUrl"),
            "priority": Priority(run.task.get("priority") or _PRIORITIES[run.priority]),
            "submission_key": key,
        }
        if run.task_type is TaskType.TASK:
            accepted = self._tasks.submit(
                tool=str(run.task["tool"]),
                inputs={name: ids.from_wire("inp", one) for name, one in (run.task.get("inputs") or {}).items()},
                params=run.task.get("params") or {},
                count=run.task.get("count"),
                **common,
            )
        else:
            accepted = self._tasks.submit_flow(
                name=str(run.task.get("name") or run.name),
                nodes=[flow_node(node) for node in run.task["nodes"]],
                on_failure=OnFailure(run.task.get("onFailure") or OnFailure.CONTINUE),
                **common,
            )
        task = accepted.task
        if task.status in RETRYABLE_ENDS:
            requester = Requester(run.user_id, may_manage=True)
            return self._tasks.retry(tenant_id=tenant_id, task_id=task.task_id, requester=requester)
        if task.status is TaskStatus.CANCELLED:
            raise Refused("the task of this run was cancelled")
        return task

    def _failed(self, tenant_id: UUID, run_id: UUID, generation: int, attempt: int, error: ArtiwayError) -> Result:
        return Result(
            tenant_id=tenant_id,
            run_id=run_id,
            generation=generation,
            attempt=attempt,
            outcome=Outcome.REFUSED if isinstance(error, _FINAL) else Outcome.FAILED,
            at=self._clock.now(),
            error=f"{error.code}: {error.message}",
            retry_after_s=error.retry_after_s if isinstance(error, TooMany) else None,
        )


def _ended(task: Task) -> Message | None:
    return messages.task_ended(task.tenant_id, task.task_id, task.submission_key or "", at=task.created_at)


def flow_node(node: Mapping[str, Any]) -> FlowNode:
    """As in the body of `POST /flows`: an input names an upload, or another node."""
    given: Mapping[str, str] = node.get("inputs") or {}
    return FlowNode(
        name=str(node["name"]),
        step=node.get("tool"),
        type=node.get("type"),
        params=node.get("params") or {},
        uploads={name: ids.from_wire("inp", one) for name, one in given.items() if one.startswith("inp_")},
        sources={name: one for name, one in given.items() if not one.startswith("inp_")},
        depends_on=tuple(node.get("dependsOn") or ()),
    )
