"""A backfill makes the runs of a job for a range of past times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from artiway.errors import NotFound
from artiway.jobs.model import JobStatus, RunState

# The time of a run that waits for its backfill. The index of parked runs begins at the year 9000.
PARKED = datetime(9999, 1, 1, tzinfo=UTC)


class Reprocess(StrEnum):
    """Which runs of the range start again: none, those that failed or were terminated, all that ended."""

    NONE = "none"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def states(self) -> frozenset[RunState]:
        failed = frozenset({RunState.FAILED, RunState.TERMINATED})
        return {
            Reprocess.NONE: frozenset[RunState](),
            Reprocess.FAILED: failed,
            Reprocess.COMPLETED: failed | {RunState.SUCCESS},
        }[self]


class BackfillStatus(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True)
class Backfill:
    """`done` and `failed` are counted while it runs, and stored when it ends."""

    tenant_id: UUID
    backfill_id: UUID
    job_id: UUID
    actor_id: UUID
    since: datetime
    until: datetime
    parallelism: int
    reprocess: Reprocess
    status: BackfillStatus
    total: int
    done: int
    failed: int
    created_at: datetime
    ended_at: datetime | None

    @property
    def remaining(self) -> int:
        return self.total - self.done - self.failed


@dataclass(frozen=True)
class Range:
    """What a tenant asks for: nominal times with since <= time < until."""

    since: datetime
    until: datetime
    parallelism: int
    reprocess: Reprocess


class Progress(NamedTuple):
    """Runs of a backfill by what became of them. `active`: due or running. `parked`: not due yet."""

    done: int = 0
    failed: int = 0
    active: int = 0
    parked: int = 0


class KnownRun(NamedTuple):
    """A run that the job has for a time of the range."""

    run_id: UUID
    scheduled_at: datetime
    state: RunState
    is_of_running_backfill: bool


class RunningBackfill(NamedTuple):
    """For the release. `released` runs became due in the present minute."""

    tenant_id: UUID
    backfill_id: UUID
    job_id: UUID
    since: datetime
    until: datetime
    parallelism: int
    released: int
    job_status: JobStatus


class NoSuchBackfill(NotFound):
    code = "JOB_404_NO_BACKFILL"

    def __init__(self) -> None:
        super().__init__("there is no such backfill")
