"""Jobs and runs: what a definition says, the states of a run, and the errors of both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused, TooMany


class ScheduleType(StrEnum):
    """AFTER: when all predecessors succeeded for the same scheduled time."""

    CRON = "CRON"
    ONCE = "ONCE"
    AFTER = "AFTER"


class TaskType(StrEnum):
    HTTP = "HTTP"
    TASK = "TASK"
    FLOW = "FLOW"


class JobStatus(StrEnum):
    """COMPLETED: no fire is left. DELETED: kept for the runs that it made, shown to nobody."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    DELETED = "DELETED"


class JobPriority(StrEnum):
    """From the most to the least urgent. A tenant's tier gives the default and the ceiling."""

    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    NORMAL = "NORMAL"
    LOW = "LOW"

    @property
    def rank(self) -> int:
        return list(JobPriority).index(self)

    @property
    def lane(self) -> str:
        return f"run_{self.lower()}"

    def at_most(self, ceiling: JobPriority) -> JobPriority:
        return self if self.rank >= ceiling.rank else ceiling


RUN_LANES = tuple(priority.lane for priority in JobPriority)


class OverlapPolicy(StrEnum):
    """What happens to a run that becomes due while another run of its job is active."""

    ALLOW_ALL = "ALLOW_ALL"
    SKIP = "SKIP"
    BUFFER_ONE = "BUFFER_ONE"
    BUFFER_ALL = "BUFFER_ALL"
    CANCEL_OTHER = "CANCEL_OTHER"


class MisfirePolicy(StrEnum):
    FIRE_ONCE = "FIRE_ONCE"
    FIRE_ALL = "FIRE_ALL"
    SKIP = "SKIP"


class RunKind(StrEnum):
    SCHEDULED = "SCHEDULED"
    CATCHUP = "CATCHUP"
    MANUAL = "MANUAL"
    BACKFILL = "BACKFILL"


class RunState(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    TERMINATED = "TERMINATED"


ENDED = frozenset({RunState.SUCCESS, RunState.FAILED, RunState.TERMINATED})
# A replay starts an ended run again, with the next generation.
TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    RunState.PENDING: frozenset({RunState.RUNNING, RunState.TERMINATED}),
    RunState.RUNNING: frozenset({RunState.SUCCESS, RunState.RETRYING, RunState.FAILED, RunState.TERMINATED}),
    RunState.RETRYING: frozenset({RunState.RUNNING, RunState.FAILED, RunState.TERMINATED}),
    RunState.SUCCESS: frozenset({RunState.PENDING}),
    RunState.FAILED: frozenset({RunState.PENDING}),
    RunState.TERMINATED: frozenset({RunState.PENDING}),
}


class FireOutcome(StrEnum):
    """Why a nominal fire made no run."""

    SKIPPED_OVERLAP = "SKIPPED_OVERLAP"
    MISFIRED = "MISFIRED"
    COALESCED = "COALESCED"
    TENANT_SUSPENDED = "TENANT_SUSPENDED"
    CANCELLED_BY_EDIT = "CANCELLED_BY_EDIT"
    PREDECESSOR_FAILED = "PREDECESSOR_FAILED"
    PAUSED = "PAUSED"


class DeferReason(StrEnum):
    """Why a due run waits."""

    TENANT_QUOTA = "tenant_quota"
    TENANT_RATE = "tenant_rate"
    JOB_CONCURRENCY = "job_concurrency"
    OVERLAP = "overlap"
    LANE_PAUSED = "lane_paused"
    LANE_FULL = "lane_full"
    CAPACITY = "capacity"
    CIRCUIT_OPEN = "circuit_open"


@dataclass(frozen=True)
class Schedule:
    """`expr` of CRON, `at` of ONCE, `after` of AFTER: the predecessors. Fires lie in [starts_at, ends_at)."""

    type: ScheduleType
    expr: str | None
    at: datetime | None
    timezone: str
    jitter_s: int
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    after: tuple[UUID, ...] = ()


class CallKeys(NamedTuple):
    """What calls need beside their runs: secrets by tenant and name, and signing keys."""

    secrets: Mapping[UUID, Mapping[str, str]]
    signing_keys: Mapping[UUID, Sequence[str]]


@dataclass(frozen=True)
class RetryPolicy:
    max_attempts: int
    base_delay_ms: int
    max_delay_ms: int

    def delay_s(self, attempt: int, *, jitter: float, retry_after_s: int | None = None) -> float:
        """Seconds from the failure of `attempt` to the next. `jitter` is a random number in [0, 1)."""
        backoff_ms = min(self.max_delay_ms, self.base_delay_ms << min(attempt - 1, 40))
        asked_ms = min(self.max_delay_ms, (retry_after_s or 0) * 1_000)
        return max(backoff_ms, asked_ms) / 1_000 + jitter * 0.5


@dataclass(frozen=True)
class Definition:
    """What a tenant sets. `task` is as on the wire, without `type`."""

    name: str
    schedule: Schedule
    task_type: TaskType
    task: Mapping[str, Any]
    priority: JobPriority
    retry: RetryPolicy
    concurrency_limit: int
    overlap_policy: OverlapPolicy
    misfire_policy: MisfirePolicy
    catchup_window_s: int
    timeout_s: int


@dataclass(frozen=True)
class Job:
    tenant_id: UUID
    job_id: UUID
    user_id: UUID
    definition: Definition
    status: JobStatus
    version: int
    next_fire_at: datetime | None
    last_fire_at: datetime | None
    note: str | None
    paused_by: UUID | None
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Run:
    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    assigned_at: datetime
    due_at: datetime
    kind: RunKind
    state: RunState
    task_type: TaskType
    lane: str
    generation: int
    attempt: int
    is_deferred: bool
    defer_reason: str | None
    started_at: datetime | None
    ended_at: datetime | None
    http_status: int | None
    answer: str | None
    last_error: str | None
    task_id: UUID | None
    dead_at: datetime | None
    created_at: datetime

    @property
    def next_retry_at(self) -> datetime | None:
        return self.due_at if self.state is RunState.RETRYING else None


@dataclass(frozen=True)
class JobLimits:
    """Of one tenant (R-JOB-7). `ceiling` is the highest priority of its jobs and their default."""

    runs_at_once: int
    runs_per_minute: int
    shortest_period_s: int
    ceiling: JobPriority
    weight: int
    is_active: bool


def idempotency_key(job_id: UUID, scheduled_at: datetime, generation: int) -> str:
    """The same for every attempt. A replay is a new request of the user and has a key of its own."""
    key = f"job_{job_id.hex}:{scheduled_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    return key if generation == 1 else f"{key}:{generation}"


def slot(job_id: UUID, window_s: int) -> timedelta:
    """The place of a job inside a window: always the same, spread evenly over jobs, in milliseconds."""
    if window_s <= 0:
        return timedelta(0)
    digest = hashlib.sha256(job_id.bytes).digest()
    return timedelta(milliseconds=int.from_bytes(digest[:8], "big") % (window_s * 1_000))


class NoSuchJob(NotFound):
    code = "JOB_404_NO_JOB"

    def __init__(self) -> None:
        super().__init__("there is no such job")


class NoSuchRun(NotFound):
    code = "JOB_404_NO_RUN"

    def __init__(self) -> None:
        super().__init__("there is no such run")


class InvalidJob(Refused):
    code = "JOB_422_INVALID"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}", fields=[{"field": field, "reason": reason}])


class JobConflict(Conflict):
    code = "JOB_409_STATE"


class DuplicateRun(Conflict):
    code = "SCHED_409_DUPLICATE_RUN"

    def __init__(self) -> None:
        super().__init__("this job has a run for this time")


class TenantThrottled(TooMany):
    code = "SCHED_429_TENANT_THROTTLED"
