"""The events that clients receive: over WebSockets, as server-sent events and as webhook calls."""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    """The value is the event's `type` on the wire. A task event with a node is about that node, else about the task."""

    TASK_QUEUED = "task.queued"
    TASK_STARTED = "task.started"
    TASK_PROGRESS = "task.progress"
    TASK_COMPLETED = "task.completed"
    TASK_FAILED = "task.failed"
    TASK_CANCELLED = "task.cancelled"
    TASK_SETTLED = "task.settled"
    WEBHOOK_TEST = "webhook.test"

    @property
    def short(self) -> str:
        """The name within its subject, for a stream that is about one task: `queued` for `task.queued`."""
        return self.value.rpartition(".")[2]
