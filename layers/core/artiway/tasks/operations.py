"""What operators do with tasks of all tenants: search, read with history, cancel and retry in bulk, each audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import ArtiwayError, Unavailable
from artiway.events import Event
from artiway.ids import to_wire
from artiway.tasks.model import HandledTask, NoSuchTask, Requester, TaskOfTenant, TaskSearch, TaskStatus
from artiway.tasks.service import TaskService


@dataclass(frozen=True)
class Step:
    """A change of a node in the history of its task."""

    at: datetime
    node: str
    from_status: str | None
    to_status: str
    attempt: int
    worker_id: str | None
    reason: str | None


@dataclass(frozen=True)
class TaskHistory:
    """A task with its nodes as rows, and every change of them, oldest first."""

    found: TaskOfTenant
    nodes: Sequence[Mapping[str, Any]]
    steps: Sequence[Step]


class Journal(Protocol):
    def record(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None: ...


class Store(Protocol):
    """Across tenants."""

    def search(self, wanted: TaskSearch, *, before: UUID | None, limit: int) -> Sequence[TaskOfTenant]: ...

    def nodes(self, task_id: UUID) -> Sequence[Mapping[str, Any]]: ...

    def steps(self, task_id: UUID, *, limit: int) -> Sequence[Mapping[str, Any]]: ...


STEPS_LIMIT = 2_000


class TaskOperations:
    def __init__(self, store: Store, service: TaskService, journal: Journal) -> None:
        self._store, self._service, self._journal = store, service, journal

    def search(self, wanted: TaskSearch, *, before: UUID | None, limit: int) -> Sequence[TaskOfTenant]:
        """Newest first."""
        return self._store.search(wanted, before=before, limit=limit)

    def history(self, task_id: UUID) -> TaskHistory:
        steps = [Step(**row) for row in self._store.steps(task_id, limit=STEPS_LIMIT)]
        return TaskHistory(self._found(task_id), self._store.nodes(task_id), steps)

    def cancel(self, task_ids: Sequence[UUID], *, actor_id: UUID) -> list[HandledTask]:
        return self._each(task_ids, Event.TASK_CANCELLED, actor_id, self._cancel)

    def retry(self, task_ids: Sequence[UUID], *, actor_id: UUID) -> list[HandledTask]:
        """For the points of the task's own user."""
        return self._each(task_ids, "task.retried", actor_id, self._retry)

    def _cancel(self, tenant_id: UUID, task_id: UUID, requester: Requester) -> TaskStatus:
        return self._service.cancel(tenant_id=tenant_id, task_id=task_id, requester=requester)

    def _retry(self, tenant_id: UUID, task_id: UUID, requester: Requester) -> TaskStatus:
        return self._service.retry(tenant_id=tenant_id, task_id=task_id, requester=requester).status

    def _each(
        self,
        task_ids: Sequence[UUID],
        action: str,
        actor_id: UUID,
        change: Callable[[UUID, UUID, Requester], TaskStatus],
    ) -> list[HandledTask]:
        """An id that cannot be changed does not stop the others."""
        handled = []
        for task_id in dict.fromkeys(task_ids):
            try:
                tenant_id = self._found(task_id).tenant_id
                status = change(tenant_id, task_id, Requester(actor_id, may_manage=True))
                details = {"tenantId": to_wire("tnt", tenant_id), "status": status}
                self._journal.record(actor_id=actor_id, action=action, target=to_wire("task", task_id), details=details)
                handled.append(HandledTask(task_id, status))
            except Unavailable:
                raise  # all others would fail as well; the request can be repeated
            except ArtiwayError as error:
                handled.append(HandledTask(task_id, error=error))
        return handled

    def _found(self, task_id: UUID) -> TaskOfTenant:
        found = self._store.search(TaskSearch(task_id=task_id), before=None, limit=1)
        if not found:
            raise NoSuchTask
        return found[0]
