"""What makes a job's document a definition: defaults, limits of the tenant, times that can come. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.errors import NotFound
from artiway.jobs import cron, fires, words, zones
from artiway.jobs.chains.model import PLACEHOLDERS, placeholders
from artiway.jobs.cron import InvalidSchedule
from artiway.jobs.definitions.model import (
    CALL_TIMEOUT_S,
    DAY_S,
    DEFAULT_CALL_TIMEOUT_S,
    DEFAULT_TASK_TIMEOUT_S,
    Fire,
    HttpTaskShape,
    JobShape,
    RetryShape,
    ScheduleShape,
    body_text,
)
from artiway.jobs.model import (
    Definition,
    InvalidJob,
    Job,
    JobLimits,
    JobPriority,
    JobStatus,
    MisfirePolicy,
    OverlapPolicy,
    RetryPolicy,
    Schedule,
    ScheduleType,
    TaskType,
)
from artiway.jobs.secrets import names_in

NEXT_FIRES = 5
DEFAULT_CONCURRENCY = 10
DEFAULT_MAX_DELAY_MS = 300_000
TASK_BYTES = 120_000
# Written by the HTTP client, or by the caller for each request.
RESERVED_HEADERS = frozenset(
    (
        *("host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"),
        *("keep-alive", "webhook-id", "webhook-timestamp", "webhook-signature", "idempotency-key"),
        *("artiway-attempt", "artiway-scheduled-time", "x-trace-id"),
    )
)
_WITHOUT_BODY = frozenset(("GET", "HEAD"))


@dataclass(frozen=True)
class Rules:
    """`now` is PostgreSQL's clock."""

    limits: JobLimits
    now: datetime
    body_bytes: int


def definition_of(shape: JobShape, rules: Rules, *, before: Definition | None = None) -> Definition:
    """Raises InvalidJob or InvalidSchedule. `before`: the definition that is changed; its schedule may be over."""
    schedule = schedule_of(shape.schedule, starts_at=shape.starts_at, ends_at=shape.ends_at)
    if before is None or before.schedule != schedule:
        check_schedule(schedule, rules)
    task_type, task = TaskType(shape.task.type), shape.task.model_dump(mode="json", by_alias=True, exclude_none=True)
    del task["type"]
    if isinstance(shape.task, HttpTaskShape):
        if (fault := http_fault(shape.task, body_bytes=rules.body_bytes)) is not None:
            raise InvalidJob(f"task.{fault[0]}", fault[1])
        _check_placeholders(shape.task, schedule)
    if len(str(task).encode()) > TASK_BYTES:
        raise InvalidJob("task", f"larger than {TASK_BYTES} bytes")
    return Definition(
        name=shape.name,
        schedule=schedule,
        task_type=task_type,
        task=task,
        priority=_priority(shape, rules.limits, before),
        retry=_retry(shape.retry_policy or RetryShape()),
        concurrency_limit=shape.concurrency_limit or DEFAULT_CONCURRENCY,
        overlap_policy=OverlapPolicy(shape.overlap_policy or OverlapPolicy.ALLOW_ALL),
        misfire_policy=MisfirePolicy(shape.misfire_policy or MisfirePolicy.FIRE_ONCE),
        catchup_window_s=_catchup_window_s(shape, schedule),
        timeout_s=_timeout_s(shape),
    )


def schedule_of(
    shape: ScheduleShape, *, starts_at: datetime | None = None, ends_at: datetime | None = None
) -> Schedule:
    """Checks what does not depend on the time or the tenant."""
    wanted = {"CRON": "expr", "ONCE": "at", "AFTER": "after"}[shape.type]
    if getattr(shape, wanted) is None:
        raise InvalidSchedule(f"schedule.{wanted}", f"{shape.type} needs it")
    for other in {"expr", "at", "after"} - {wanted}:
        if getattr(shape, other) is not None:
            raise InvalidSchedule(f"schedule.{other}", f"does not belong to {shape.type}")
    try:
        zones.zone(shape.timezone)
        if shape.expr is not None:
            cron.parse(shape.expr)
    except InvalidSchedule as error:
        place = "timezone" if error.field == "timezone" else "expr"
        reason = error.reason if error.field in {"timezone", "expr"} else f"{error.field}: {error.reason}"
        raise InvalidSchedule(f"schedule.{place}", reason) from None
    if starts_at is not None and ends_at is not None and starts_at >= ends_at:
        raise InvalidSchedule("endsAt", "is not after startsAt")
    return Schedule(
        type=ScheduleType(shape.type),
        expr=shape.expr,
        at=shape.at,
        timezone=shape.timezone,
        jitter_s=shape.jitter_seconds,
        starts_at=starts_at,
        ends_at=ends_at,
        after=_predecessors(shape.after or ()),
    )


def _predecessors(wire_ids: Sequence[str]) -> tuple[UUID, ...]:
    try:
        found = tuple(ids.from_wire("job", one) for one in wire_ids)
    except NotFound:
        raise InvalidSchedule("schedule.after", "names a job that does not exist") from None
    if len(set(found)) < len(found):
        raise InvalidSchedule("schedule.after", "names a job twice")
    return found


def check_schedule(schedule: Schedule, rules: Rules) -> None:
    """A new schedule must have a fire left, and none more often than the tenant may."""
    if schedule.expr is not None:
        period_s, shortest_s = cron.parse(schedule.expr).shortest_period_s(), rules.limits.shortest_period_s
        if period_s < shortest_s:
            raise InvalidSchedule(
                "schedule.expr", f"fires every {period_s} s; the shortest period of this tenant is {shortest_s} s"
            )
    if schedule.at is not None and schedule.at <= rules.now:
        raise InvalidSchedule("schedule.at", "is in the past")
    if schedule.type is not ScheduleType.AFTER and fires.first_fire(schedule, rules.now) is None:
        field = "endsAt" if schedule.ends_at is not None else "schedule.expr"
        raise InvalidSchedule(field, "no fire is left between startsAt and endsAt")


def next_fires(schedule: Schedule, after: datetime, *, limit: int = NEXT_FIRES) -> list[Fire]:
    """With the local time, which shows what a change of the zone's offset does."""
    zone = zones.zone(schedule.timezone)
    found = []
    for at in fires.upcoming(schedule, after, limit=limit):
        local = at.astimezone(zone)
        found.append(Fire(at, local.replace(tzinfo=None).isoformat(), _offset(local)))
    return found


def description(schedule: Schedule) -> dict[str, str]:
    if schedule.after:
        names = ", ".join(ids.to_wire("job", one) for one in schedule.after)
        return {"zh": f"在 {names} 成功之后执行", "en": f"After {names} succeeded"}
    if schedule.expr is not None:
        expression = cron.parse(schedule.expr)
        return {language: words.describe(expression, schedule.timezone, language) for language in ("zh", "en")}
    assert schedule.at is not None
    local = schedule.at.astimezone(zones.zone(schedule.timezone))
    at = f"{local:%Y-%m-%d %H:%M:%S}"
    return {"zh": f"{at} 执行一次（{schedule.timezone}）", "en": f"Once at {at} ({schedule.timezone})"}


def status_of(job: Job, now: datetime) -> JobStatus:
    """By the clock: a job whose last run was created ahead is active until that time has come, and then completed."""
    if job.status not in {JobStatus.ACTIVE, JobStatus.COMPLETED} or job.next_fire_at is not None:
        return job.status
    if job.definition.schedule.type is ScheduleType.AFTER:
        ends_at = job.definition.schedule.ends_at
        return JobStatus.COMPLETED if ends_at is not None and ends_at <= now else JobStatus.ACTIVE
    is_left = fires.first_fire(job.definition.schedule, now) is not None
    return JobStatus.ACTIVE if is_left else JobStatus.COMPLETED


def secrets_of(definition: Definition) -> set[str]:
    """The names that the headers and the body of each call refer to."""
    calls = {
        TaskType.HTTP: [definition.task],
        TaskType.FLOW: [
            one.get("params") or {} for one in definition.task.get("nodes", ()) if one.get("type") == "http"
        ],
    }.get(definition.task_type, [])
    return {name for call in calls for name in secrets_in(call)}


def secrets_in(call: Mapping[str, Any]) -> set[str]:
    """The names that the headers and the body of an HTTP task refer to."""
    texts = [*(call.get("headers") or {}).values(), body_text(call) or ""]
    return {name for text in texts for name in names_in(str(text))}


def http_fault(task: HttpTaskShape, *, body_bytes: int) -> tuple[str, str] | None:
    """The first field of an HTTP task that is not valid, and why."""
    for name in task.headers or {}:
        if name.lower() in RESERVED_HEADERS or name.lower().startswith("proxy-"):
            return f"headers.{name}", "is set by the platform"
    if len({name.lower() for name in task.headers or {}}) < len(task.headers or {}):
        return "headers", "a header is named twice"
    if task.body is None:
        return None
    if task.method in _WITHOUT_BODY:
        return "body", f"{task.method} has no body"
    size = len((body_text({"body": task.body}) or "").encode())
    return ("body", f"{size} bytes; at most {body_bytes}") if size > body_bytes else None


def _check_placeholders(task: HttpTaskShape, schedule: Schedule) -> None:
    named = placeholders(task.body) if task.body is not None and schedule.after else []
    if len(named) > PLACEHOLDERS:
        raise InvalidJob("task.body", f"has {len(named)} placeholders of predecessors; at most {PLACEHOLDERS}")
    known = {"", *(ids.to_wire("job", one) for one in schedule.after)}
    if unknown := [name for name in named if name not in known]:
        raise InvalidJob("task.body", f"{unknown[0]} is not in schedule.after")


def _priority(shape: JobShape, limits: JobLimits, before: Definition | None) -> JobPriority:
    """A job keeps its priority after its tenant's tier was lowered; its runs go by the tier."""
    if shape.priority is None:
        return limits.ceiling
    wanted = JobPriority(shape.priority)
    if wanted.rank < limits.ceiling.rank and (before is None or before.priority is not wanted):
        raise InvalidJob("priority", f"the tenant's tier allows {limits.ceiling} at most")
    return wanted


def _retry(shape: RetryShape) -> RetryPolicy:
    most_ms = shape.max_delay_ms
    if most_ms is None:
        most_ms = max(DEFAULT_MAX_DELAY_MS, shape.base_delay_ms)
    if shape.base_delay_ms > most_ms:
        raise InvalidJob("retryPolicy.baseDelayMs", "is more than maxDelayMs")
    return RetryPolicy(shape.max_attempts, shape.base_delay_ms, most_ms)


def _timeout_s(shape: JobShape) -> int:
    """`timeoutSeconds` stands in the task of an HTTP job, or beside it."""
    if not isinstance(shape.task, HttpTaskShape):
        return shape.timeout_seconds or DEFAULT_TASK_TIMEOUT_S
    inner, outer = shape.task.timeout_seconds, shape.timeout_seconds
    if inner is not None and outer is not None and inner != outer:
        raise InvalidJob("timeoutSeconds", "differs from task.timeoutSeconds; give one of them")
    wanted = inner or outer or DEFAULT_CALL_TIMEOUT_S
    if wanted > CALL_TIMEOUT_S:
        raise InvalidJob("timeoutSeconds", f"an HTTP job has {CALL_TIMEOUT_S} s at most")
    return wanted


def _catchup_window_s(shape: JobShape, schedule: Schedule) -> int:
    if shape.catchup_window_seconds is not None:
        return shape.catchup_window_seconds
    return DAY_S if schedule.expr is None else min(DAY_S, cron.parse(schedule.expr).shortest_period_s())


def _offset(local: datetime) -> str:
    offset = local.utcoffset()
    assert offset is not None
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
