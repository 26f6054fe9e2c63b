"""Jobs as tenants write them: the same document in requests, answers and files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from artiway import ids
from artiway.errors import Conflict, NotFound, Refused
from artiway.jobs.model import (
    Definition,
    InvalidJob,
    Job,
    Run,
    RunKind,
    RunState,
    Schedule,
)

HEADERS_LIMIT = 32
# The function that makes the calls ends soon after it.
CALL_TIMEOUT_S = 60
DEFAULT_CALL_TIMEOUT_S = 30
# A task has time limits of its own.
DEFAULT_TASK_TIMEOUT_S = 86_400
DAY_S = 86_400

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]
InputId = Annotated[str, Field(max_length=64)]
Params = dict[Annotated[str, Field(max_length=64)], Any]
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")]
HeaderValue = Annotated[str, Field(max_length=2_000, pattern=r"^[\t\x20-\x7e]*$")]
WorkPriority = Literal["HIGH", "NORMAL", "LOW"]


class Shape(BaseModel):
    """camelCase names, unknown fields refused, validators built on first use: as `http.Wire`."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )


T = TypeVar("T", bound=Shape)


class ScheduleShape(Shape):
    type: Literal["CRON", "ONCE", "AFTER"]
    expr: str | None = Field(
        default=None,
        max_length=120,
        description="of CRON: 5 fields, or 6 and 7 with seconds first; `0 */5 * * * ?`",
    )
    at: AwareDatetime | None = Field(default=None, description="of ONCE")
    timezone: str = Field(default="UTC", min_length=1, max_length=64, description="an IANA name")
    jitter_seconds: int = Field(default=0, ge=0, le=DAY_S, description="each run starts at the job's own place in it")
    after: list[Annotated[str, Field(max_length=64)]] | None = Field(
        default=None,
        min_length=1,
        max_length=20,
        description="of AFTER: jobs that must have succeeded for the same scheduled time",
    )


class HttpTaskShape(Shape):
    type: Literal["HTTP"]
    url: str = Field(
        min_length=10,
        max_length=2_000,
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[\x21-\x7E]+$",
        description="http or https, a public host in ASCII (`xn--` for other scripts), no user information",
    )
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[HeaderName, HeaderValue] | None = Field(
        default=None, max_length=HEADERS_LIMIT, description="`secret:NAME` in a value stands for a secret"
    )
    body: str | dict[str, Any] | list[Any] | None = Field(
        default=None, description="a text, or JSON that is sent as application/json; may name secrets as headers do"
    )
    timeout_seconds: int | None = Field(default=None, ge=1, le=CALL_TIMEOUT_S, description="30 if left out")
    success_statuses: list[Annotated[int, Field(ge=100, le=599)]] | None = Field(
        default=None, min_length=1, max_length=50, description="200 to 299 if left out"
    )


class ToolTaskShape(Shape):
    """As the body of `POST /tasks`."""

    type: Literal["TASK"]
    tool: str = Field(min_length=1, max_length=64)
    inputs: dict[Name, InputId] = Field(default_factory=dict, max_length=64)
    params: Params = Field(default_factory=dict, max_length=64)
    count: int | None = Field(default=None, ge=1, le=50, strict=True)
    webhook_url: str | None = Field(default=None, max_length=2_000)
    priority: WorkPriority | None = Field(default=None, description="among the tenant's tasks; the job's if left out")


class FlowNodeShape(Shape):
    name: Name
    type: str | None = Field(default=None, max_length=64)
    tool: str | None = Field(default=None, max_length=64)
    params: Params = Field(default_factory=dict, max_length=64)
    inputs: dict[Name, Annotated[str, Field(max_length=140)]] = Field(default_factory=dict, max_length=16)
    depends_on: list[Name] = Field(default_factory=list, max_length=500)


class FlowTaskShape(Shape):
    """As the body of `POST /flows`."""

    type: Literal["FLOW"]
    name: str = Field(default="", max_length=200)
    nodes: list[FlowNodeShape] = Field(min_length=1, max_length=501)
    on_failure: Literal["continue", "stop"] | None = Field(
        default=None, description="stop: after a failure nothing more starts; continue if left out"
    )
    webhook_url: str | None = Field(default=None, max_length=2_000)
    priority: WorkPriority | None = Field(default=None, description="among the tenant's tasks; the job's if left out")


TaskShape = Annotated[HttpTaskShape | ToolTaskShape | FlowTaskShape, Field(discriminator="type")]


class RetryShape(Shape):
    max_attempts: int = Field(default=3, ge=1, le=100)
    base_delay_ms: int = Field(default=1_000, ge=0, le=DAY_S * 1_000)
    max_delay_ms: int | None = Field(default=None, ge=0, le=DAY_S * 1_000, description="5 minutes if left out")


class JobShape(Shape):
    name: str = Field(min_length=1, max_length=200)
    schedule: ScheduleShape
    task: TaskShape
    retry_policy: RetryShape | None = None
    concurrency_limit: int | None = Field(default=None, ge=1, le=10_000, description="runs at once; 10 if left out")
    priority: Literal["CRITICAL", "HIGH", "NORMAL", "LOW"] | None = Field(
        default=None, description="the tier's if left out, and never above it"
    )
    overlap_policy: Literal["ALLOW_ALL", "SKIP", "BUFFER_ONE", "BUFFER_ALL", "CANCEL_OTHER"] | None = Field(
        default=None, description="ALLOW_ALL if left out"
    )
    misfire_policy: Literal["FIRE_ONCE", "FIRE_ALL", "SKIP"] | None = Field(
        default=None, description="FIRE_ONCE if left out"
    )
    catchup_window_seconds: int | None = Field(
        default=None, ge=0, le=DAY_S, description="the shortest period if left out, a day at most"
    )
    timeout_seconds: int | None = Field(default=None, ge=1, le=DAY_S, description="of a run")
    starts_at: AwareDatetime | None = Field(default=None, description="no fire before it")
    ends_at: AwareDatetime | None = Field(default=None, description="no fire at or after it")


@dataclass(frozen=True)
class Actor:
    """Who asks, and in which tenant. A platform administrator's own tenant is another one."""

    tenant_id: UUID
    user_id: UUID
    may_submit: bool
    is_member: bool = True


class CatchUp(StrEnum):
    """What a resumed job does about the fires of its pause: nothing, a run for the newest, a run for each."""

    NONE = "none"
    ONCE = "once"
    ALL = "all"


@dataclass(frozen=True)
class Fire:
    """A nominal time, in UTC and as the clock of the job's zone shows it."""

    at: datetime
    local: str
    offset: str


@dataclass(frozen=True)
class JobView:
    """`signing_secret` is the tenant's, shown once: by the answer that made it."""

    job: Job
    next_fires: Sequence[Fire]
    description: Mapping[str, str]
    signing_secret: str | None = None


@dataclass(frozen=True)
class Preview:
    next_fires: Sequence[Fire]
    description: Mapping[str, str]


@dataclass(frozen=True)
class RunFilter:
    """All given fields must match. `since` is inclusive, `until` exclusive; both are scheduled times."""

    job_id: UUID | None = None
    state: RunState | None = None
    kind: RunKind | None = None
    is_dead: bool = False
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class LogLine:
    log_id: UUID
    at: datetime
    attempt: int
    level: str
    message: str


@dataclass(frozen=True)
class Secret:
    name: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class SigningSecret:
    secret: str
    previous_until: datetime | None


@dataclass(frozen=True)
class JobFile:
    text: str
    next_place: UUID | None


@dataclass(frozen=True)
class FieldChange:
    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ImportedJob:
    action: Literal["create", "update", "unchanged"]
    job_id: UUID | None
    name: str
    changes: Sequence[FieldChange] = ()


@dataclass(frozen=True)
class ImportReport:
    is_dry_run: bool
    jobs: Sequence[ImportedJob] = field(default_factory=tuple)


@dataclass(frozen=True)
class RunOfTenant:
    """For operators, who see the runs of all tenants."""

    run: Run
    job_name: str


class TooManyJobs(Conflict):
    code = "JOB_409_TOO_MANY"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a tenant can have {limit} jobs; delete one first", limit=limit)


class TooManySecrets(Conflict):
    code = "JOB_409_TOO_MANY_SECRETS"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a tenant can have {limit} secrets; delete one first", limit=limit)


class NoSuchSecret(NotFound):
    code = "JOB_404_NO_SECRET"

    def __init__(self, message: str = "there is no such secret") -> None:
        super().__init__(message)


class SecretInUse(Conflict):
    code = "JOB_409_SECRET_IN_USE"

    def __init__(self, jobs: Sequence[str]) -> None:
        super().__init__("jobs use this secret; change or delete them first", jobs=list(jobs))


class InvalidFile(Refused):
    code = "JOB_422_FILE"

    def __init__(self, reason: str, **details: Any) -> None:
        super().__init__(reason, **details)


def shape_of(document: Mapping[str, Any], *, place: str = "") -> JobShape:
    """Reads a document strictly. Raises InvalidJob with the fields that are not valid."""
    return _read(JobShape, document, place)


def _read(shape: type[T], document: Mapping[str, Any], place: str) -> T:
    try:
        return shape.model_validate_json(json.dumps(document), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        names = [".".join(str(part) for part in problem["loc"]) for problem in problems]
        raise InvalidJob(f"{place}{names[0] or 'document'}", problems[0]["msg"]) from None


def http_task_of(params: Mapping[str, Any], *, place: str) -> HttpTaskShape:
    """The parameters of an HTTP node of a flow. Raises InvalidJob with the field that is not valid."""
    return _read(HttpTaskShape, {"type": "HTTP", **params}, place)


def document_of(definition: Definition) -> dict[str, Any]:
    """All fields with the values in force; what is not set is left out."""
    schedule = definition.schedule
    return without_nulls(
        {
            "name": definition.name,
            "schedule": {
                "type": schedule.type.value,
                "expr": schedule.expr,
                "at": _text(schedule.at),
                "timezone": schedule.timezone,
                "jitterSeconds": schedule.jitter_s,
                "after": [ids.to_wire("job", one) for one in schedule.after] or None,
            },
            "task": {"type": definition.task_type.value, **definition.task},
            "retryPolicy": {
                "maxAttempts": definition.retry.max_attempts,
                "baseDelayMs": definition.retry.base_delay_ms,
                "maxDelayMs": definition.retry.max_delay_ms,
            },
            "concurrencyLimit": definition.concurrency_limit,
            "priority": definition.priority.value,
            "overlapPolicy": definition.overlap_policy.value,
            "misfirePolicy": definition.misfire_policy.value,
            "catchupWindowSeconds": definition.catchup_window_s,
            "timeoutSeconds": definition.timeout_s,
            "startsAt": _text(schedule.starts_at),
            "endsAt": _text(schedule.ends_at),
        }
    )


def without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """Of the document and the objects directly in it. What a tenant wrote inside a task's body stays."""
    return {
        name: {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not None
    }


def merged(document: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of schedule, task and retryPolicy are merged, all others replaced; a null restores the default.

    A schedule or task of another type replaces the earlier one as a whole.
    """
    result = dict(document)
    for name, value in change.items():
        before = result.get(name)
        if value is None:
            result.pop(name, None)
        elif (
            isinstance(value, dict)
            and isinstance(before, dict)
            and value.get("type", before.get("type")) == before.get("type")
        ):
            result[name] = {key: item for key, item in {**before, **value}.items() if item is not None}
        else:
            result[name] = value
    return result


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """The fields that differ, one level deep: `schedule.expr`."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += [
                FieldChange(f"{name}.{key}", old.get(key), new.get(key))
                for key in sorted(old.keys() | new.keys())
                if old.get(key) != new.get(key)
            ]
        else:
            found.append(FieldChange(name, old, new))
    return found


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """For the history of a job."""
    return {
        "type": schedule.type.value,
        "expr": schedule.expr,
        "at": _text(schedule.at),
        "timezone": schedule.timezone,
        "jitterSeconds": schedule.jitter_s,
        "startsAt": _text(schedule.starts_at),
        "endsAt": _text(schedule.ends_at),
        "after": [ids.to_wire("job", one) for one in schedule.after],
    }


def body_text(task: Mapping[str, Any]) -> str | None:
    """The body of an HTTP task as it is sent."""
    body = task.get("body")
    return body if body is None or isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")
