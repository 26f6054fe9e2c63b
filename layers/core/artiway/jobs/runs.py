"""What the run engine passes between its services and PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from artiway.jobs.admission import JobKey, Track
from artiway.jobs.messages import Result
from artiway.jobs.model import JobPriority, RetryPolicy, RunKind, RunState, TaskType


class NewRun(NamedTuple):
    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    assigned_at: datetime
    kind: RunKind
    task_type: TaskType
    lane: str
    job_version: int
    is_hinted: bool
    trace_id: str


class DueRun(NamedTuple):
    """A run that a hint names."""

    tenant_id: UUID
    run_id: UUID
    lane: str
    due_at: datetime


class StartedRun(NamedTuple):
    """`task` only of HTTP runs."""

    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    assigned_at: datetime
    due_at: datetime
    lane: str
    task_type: TaskType
    generation: int
    attempt: int
    trace_id: str
    task: Mapping[str, Any] | None
    timeout_s: int
    predecessors: Any = None


@dataclass(frozen=True)
class RunningRun:
    """A run that a result is about, with the retry policy of its job."""

    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    lane: str
    task_type: TaskType
    state: RunState
    generation: int
    attempt: int
    task_id: UUID | None
    retry: RetryPolicy

    @property
    def track(self) -> Track:
        return Track(self.tenant_id, self.lane, self.task_type is TaskType.HTTP)

    @property
    def job(self) -> JobKey:
        return JobKey(self.tenant_id, self.job_id)


@dataclass(frozen=True)
class EndedRun:
    """The end of an attempt: the run's next state, and when it is due again if it retries."""

    run: RunningRun
    result: Result
    state: RunState
    due_at: datetime | None = None
    is_hinted: bool = False
    error: str | None = None


class TaskEnd(NamedTuple):
    task_id: UUID
    status: str
    error: Mapping[str, Any]
    ended_at: datetime


class LogLine(NamedTuple):
    tenant_id: UUID
    run_id: UUID
    log_id: UUID
    at: datetime
    attempt: int
    level: str
    message: str


@dataclass(frozen=True)
class Submission:
    """A TASK or FLOW run whose attempt waits to be submitted."""

    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    generation: int
    attempt: int
    lane: str
    task_type: TaskType
    trace_id: str
    user_id: UUID
    task: Mapping[str, Any]
    name: str
    priority: JobPriority
