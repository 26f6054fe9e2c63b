"""A row of the table `job` as a Job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from artiway.jobs.model import (
    Definition,
    Job,
    JobPriority,
    JobStatus,
    MisfirePolicy,
    OverlapPolicy,
    RetryPolicy,
    Schedule,
    ScheduleType,
    TaskType,
)


def job_of(row: Mapping[str, Any]) -> Job:
    """The trigger reads rows without `task`, which it does not need."""
    return Job(
        tenant_id=row["tenant_id"],
        job_id=row["job_id"],
        user_id=row["user_id"],
        definition=Definition(
            name=row["name"],
            schedule=Schedule(
                type=ScheduleType(row["schedule_type"]),
                expr=row["expr"],
                at=_utc(row["at"]),
                timezone=row["timezone"],
                jitter_s=row["jitter_s"],
                starts_at=_utc(row["starts_at"]),
                ends_at=_utc(row["ends_at"]),
                after=tuple(row.get("after") or ()),
            ),
            task_type=TaskType(row["task_type"]),
            task=row.get("task", {}),
            priority=JobPriority(row["priority"]),
            retry=RetryPolicy(row["max_attempts"], row["base_delay_ms"], row["max_delay_ms"]),
            concurrency_limit=row["concurrency_limit"],
            overlap_policy=OverlapPolicy(row["overlap_policy"]),
            misfire_policy=MisfirePolicy(row["misfire_policy"]),
            catchup_window_s=row["catchup_window_s"],
            timeout_s=row["timeout_s"],
        ),
        status=JobStatus(row["status"]),
        version=row["version"],
        next_fire_at=row["next_fire_at"],
        last_fire_at=row["last_fire_at"],
        note=row["note"],
        paused_by=row["paused_by"],
        paused_at=row["paused_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
