"""Scheduled jobs: definitions, runs with their logs, secrets, import and export."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AwareDatetime, Field

from artiway import bootstrap
from artiway.errors import NotFound
from artiway.ids import from_wire, to_wire
from artiway.jobs.backfills.model import Backfill, BackfillStatus, Range, Reprocess
from artiway.jobs.definitions.model import (
    Actor,
    CatchUp,
    Fire,
    ImportReport,
    JobShape,
    JobView,
    RetryShape,
    RunFilter,
    ScheduleShape,
    Secret,
    TaskShape,
    document_of,
)
from artiway.jobs.history.reports import FireStatus, ReportedFire
from artiway.jobs.model import (
    JobPriority,
    JobStatus,
    MisfirePolicy,
    OverlapPolicy,
    Run,
    RunKind,
    RunState,
    TaskType,
    idempotency_key,
)
from artiway.platform import http

api = http.Api("jobs", origin=bootstrap.origin, access_check=bootstrap.access_check, warm_up=bootstrap.warm_up)
handler = api.handler

FILE_TYPES = ("application/json", "application/yaml", "application/x-yaml", "text/yaml")
LogLimit = Annotated[int, Query(ge=1, le=500)]
ExportLimit = Annotated[int, Query(ge=1, le=500)]
TenantId = Annotated[str | None, Query(alias="tenantId", max_length=64, description="of a platform administrator")]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MICROSECOND = 250_000_000_000 * 1_000_000  # in the year 9892
NOTE: Any = Field(default=None, max_length=500)


class NewJobBody(JobShape, http.Wire):
    tenant_id: str | None = Field(default=None, max_length=64, description="the caller's own, if given")


class JobChangeBody(http.Wire):
    """The fields of schedule, task and retryPolicy are merged, others replaced. A null restores the default."""

    tenant_id: str | None = Field(default=None, max_length=64, description="the caller's own, if given")
    name: str | None = Field(default=None, min_length=1, max_length=200)
    schedule: dict[str, Any] | None = Field(default=None, description="fields of a schedule")
    task: dict[str, Any] | None = Field(default=None, description="fields of a task; another type replaces the task")
    retry_policy: dict[str, Any] | None = None
    concurrency_limit: int | None = Field(default=None, ge=1, le=10_000)
    priority: JobPriority | None = None
    overlap_policy: OverlapPolicy | None = None
    misfire_policy: MisfirePolicy | None = None
    catchup_window_seconds: int | None = Field(default=None, ge=0, le=86_400)
    timeout_seconds: int | None = Field(default=None, ge=1, le=86_400)
    starts_at: AwareDatetime | None = None
    ends_at: AwareDatetime | None = None


class FireBody(http.Wire):
    at: datetime
    local: str = Field(description="as the clock of the job's time zone shows it")
    offset: str = Field(description="of that clock from UTC, +08:00")


class ReportedFireBody(http.Wire):
    scheduled_time: datetime = Field(description="the nominal time")
    outcome: FireStatus = Field(description="RUN: see the run; UNACCOUNTED does not occur")
    reason: str
    run_id: str | None


class ReportedFiresBody(http.Wire):
    items: list[ReportedFireBody]
    next_cursor: str | None


class JobBody(http.Wire):
    job_id: str
    tenant_id: str
    user_id: str = Field(description="whose points pay for TASK and FLOW runs")
    name: str
    status: Literal["ACTIVE", "PAUSED", "COMPLETED"] = Field(description="COMPLETED: no fire is left")
    version: int = Field(description="rises with each change")
    schedule: ScheduleShape
    task: TaskShape
    retry_policy: RetryShape
    concurrency_limit: int
    priority: JobPriority
    overlap_policy: OverlapPolicy
    misfire_policy: MisfirePolicy
    catchup_window_seconds: int
    timeout_seconds: int
    starts_at: datetime | None
    ends_at: datetime | None
    next_fire_time: datetime | None = Field(description="null while it is paused, and when no fire is left")
    next_fires: list[FireBody] = Field(description="at most 5")
    description: str = Field(description="of the schedule, in the language of Accept-Language: zh, else en")
    note: str | None
    paused_by: str | None
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime


class CreatedJobBody(JobBody):
    signing_secret: str | None = Field(
        description="signs the calls of all jobs of the tenant; shown once, by its first HTTP job, else null"
    )


class JobsBody(http.Wire):
    items: list[JobBody]
    next_cursor: str | None


class NoteBody(http.Wire):
    note: str | None = NOTE


class ResumeBody(http.Wire):
    note: str | None = NOTE
    catch_up: CatchUp = Field(
        default=CatchUp.NONE, description="fires of the pause: none, a run for the newest, a run for each (100 at most)"
    )


class BackfillRangeBody(http.Wire):
    since: AwareDatetime = Field(alias="from")
    until: AwareDatetime = Field(alias="to", description="exclusive")
    parallelism: int = Field(default=1, ge=1, le=1_000, description="runs at once")
    reprocess: Reprocess = Field(default=Reprocess.NONE, description="runs of the range that start again")
    dry_run: bool = False


class AcceptedBackfillBody(http.Wire):
    backfill_id: str | None = Field(description="null after a dry run")
    accepted_runs: int


class BackfillBody(http.Wire):
    backfill_id: str
    job_id: str
    since: datetime = Field(alias="from")
    until: datetime = Field(alias="to")
    parallelism: int
    reprocess: Reprocess
    status: BackfillStatus
    total: int
    done: int
    failed: int = Field(description="failed or terminated")
    remaining: int
    created_at: datetime
    ended_at: datetime | None


class BackfillsBody(http.Wire):
    items: list[BackfillBody]
    next_cursor: str | None


class PreviewBody(http.Wire):
    schedule: ScheduleShape
    starts_at: AwareDatetime | None = None
    ends_at: AwareDatetime | None = None


class PreviewedBody(http.Wire):
    next_fires: list[FireBody] = Field(description="at most 5")
    description: str = Field(description="in the language of Accept-Language: zh, else en")
    descriptions: dict[str, str] = Field(description="by language: zh, en")


class FieldChangeBody(http.Wire):
    field: str
    before: Any
    after: Any


class ImportedJobBody(http.Wire):
    action: Literal["create", "update", "unchanged"]
    job_id: str | None = Field(description="null for a job that a dry run would create")
    name: str
    changes: list[FieldChangeBody]


class ImportedBody(http.Wire):
    dry_run: bool
    created: int
    updated: int
    unchanged: int
    jobs: list[ImportedJobBody]


class SigningSecretBody(http.Wire):
    signing_secret: str = Field(description="shown this once")
    previous_until: datetime | None = Field(description="until then calls carry the earlier key's signature too")


class RunBody(http.Wire):
    run_id: str
    job_id: str
    scheduled_time: datetime = Field(description="the nominal time")
    assigned_time: datetime = Field(description="the scheduled time and the job's place in the jitter")
    kind: RunKind
    state: RunState
    task_type: TaskType
    lane: str
    generation: int = Field(description="rises with each replay")
    attempt: int
    waiting_for: str | None = Field(description="why a due run waits: tenant_quota, tenant_rate, overlap and others")
    last_error: str | None
    next_retry_at: datetime | None
    started_at: datetime | None = Field(description="of the last attempt")
    ended_at: datetime | None
    http_status: int | None
    answer: str | None = Field(description="the start of the target's answer")
    task_id: str | None
    idempotency_key: str = Field(description="sent with each attempt")
    dead_letter_at: datetime | None = Field(description="in the dead letters since then")
    created_at: datetime


class RunsBody(http.Wire):
    items: list[RunBody]
    next_cursor: str | None


class RunIdBody(http.Wire):
    run_id: str


class ReplayRangeBody(http.Wire):
    since: AwareDatetime = Field(alias="from")
    until: AwareDatetime = Field(alias="to", description="exclusive")
    state: Literal["SUCCESS", "FAILED", "TERMINATED"] | None = Field(
        default="FAILED", description="null: all that ended"
    )


class ReplayedBody(http.Wire):
    replayed_runs: int
    has_more: bool = Field(description="one request replays 1,000 runs at most, the newest first")
    next_to: datetime | None = Field(description="`to` of the request that replays the rest; null: there is none")


class LogLineBody(http.Wire):
    at: datetime
    attempt: int
    level: Literal["INFO", "WARN", "ERROR"]
    message: str


class LogLinesBody(http.Wire):
    items: list[LogLineBody]
    next_cursor: str | None


class SecretValueBody(http.Wire):
    value: str = Field(min_length=1, max_length=4_096)


class SecretBody(http.Wire):
    name: str
    created_at: datetime
    updated_at: datetime


class SecretsBody(http.Wire):
    items: list[SecretBody]
    next_cursor: str | None


@api.get("/jobs", permission="job.read", errors=[404])
def list_jobs(
    status: Literal["ACTIVE", "PAUSED", "COMPLETED"] | None = None,
    name: Annotated[str | None, Query(max_length=200)] = None,
    tenant_id: TenantId = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> JobsBody:
    """The tenant's jobs, newest first."""
    found = bootstrap.jobs().jobs(
        _tenant(tenant_id),
        status=None if status is None else JobStatus(status),
        name=name,
        before=http.place_of(cursor),
        limit=limit + 1,
    )
    next_place = found[limit - 1].job.job_id if len(found) > limit else None
    return JobsBody(items=[JobBody(**_job(view)) for view in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.post("/jobs", permission="job.write", status=201, errors=[404, 409], keyed=True)
def create_job(body: NewJobBody) -> tuple[CreatedJobBody, int]:
    """Create a job. Its first fires are in the answer; nothing is stored if a field is refused."""
    actor = _actor(body.tenant_id)
    made: list[JobView] = []

    def perform() -> tuple[int, str]:
        made.append(bootstrap.jobs().create(actor, body))
        return 201, json.dumps(_kept(made[0]))

    key = api.idempotency_key
    if key is None:
        perform()
    else:
        request = f"{api.identity.user_id} POST /jobs {body.model_dump_json(by_alias=True)}"
        _, kept = bootstrap.idempotency().run(
            tenant_id=actor.tenant_id,
            user_id=api.identity.user_id,
            key=key,
            request_hash=hashlib.sha256(request.encode()).hexdigest(),
            perform=perform,
        )
        if not made:
            return CreatedJobBody(**json.loads(kept), signing_secret=None), 201
    return CreatedJobBody(**_job(made[0]), signing_secret=made[0].signing_secret), 201


@api.get("/jobs/export", permission="job.write", also="application/yaml")
def export_jobs(
    format: Literal["json", "yaml"] = "json",  # noqa: A002 (the name in the query)
    cursor: http.Cursor = None,
    limit: ExportLimit = 500,
) -> dict[str, Any] | str:
    """The tenant's jobs as one file that the import takes."""
    file = bootstrap.jobs().export(
        api.identity.tenant_id, before=http.place_of(cursor), limit=limit, is_yaml=format == "yaml"
    )
    next_cursor = http.cursor_of(file.next_place)
    headers = {} if next_cursor is None else {"x-next-cursor": next_cursor}
    return Response(  # type: ignore[return-value]  # OpenAPI describes the JSON body
        status_code=200, content_type=f"application/{format}", body=file.text, headers=headers
    )


@api.post("/jobs/import", permission="job.write", errors=[404, 409], idempotent=True, accepts=FILE_TYPES)
def import_jobs(dry_run: Annotated[bool | None, Query(alias="dryRun")] = None) -> ImportedBody:
    """Create and change jobs as a file says: all or none. Matched by jobId, else by name; others stay."""
    report = bootstrap.jobs().apply_file(_actor(None), api.raw_body, api.media_type, is_dry_run=dry_run)
    return _imported(report)


@api.post("/jobs/preview", permission="job.write")
def preview_schedule(body: PreviewBody) -> PreviewedBody:
    """The next fires of a schedule, and the schedule in words. Changes nothing."""
    found = bootstrap.jobs().preview(
        api.identity.tenant_id, body.schedule, starts_at=body.starts_at, ends_at=body.ends_at
    )
    return PreviewedBody(
        next_fires=_fires(found.next_fires),
        description=found.description[_language()],
        descriptions=dict(found.description),
    )


@api.post("/jobs/signing-secret", permission="job.write")
def rotate_signing_secret() -> SigningSecretBody:
    """A new secret that signs the calls of the tenant's jobs. The earlier one signs too for a day."""
    made = bootstrap.job_secrets().rotate_signing_secret(api.identity.tenant_id, actor_id=api.identity.user_id)
    return SigningSecretBody(signing_secret=made.secret, previous_until=made.previous_until)


@api.get("/jobs/<job_id>", permission="job.read")
def get_job(job_id: str, tenant_id: TenantId = None) -> JobBody:
    """A job with its next fires."""
    return JobBody(**_job(bootstrap.jobs().job(_tenant(tenant_id), from_wire("job", job_id))))


@api.patch("/jobs/<job_id>", permission="job.write")
def change_job(job_id: str, body: JobChangeBody) -> JobBody:
    """Change the given fields. Runs that were created ahead of their time follow the new definition."""
    change = body.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"tenant_id"})
    return JobBody(**_job(bootstrap.jobs().update(_actor(body.tenant_id), from_wire("job", job_id), change)))


@api.delete("/jobs/<job_id>", permission="job.write", status=204)
def delete_job(job_id: str) -> tuple[None, int]:
    """Delete a job. Its runs stay; one that has begun ends as usual."""
    bootstrap.jobs().delete(_actor(None), from_wire("job", job_id))
    return None, 204


@api.post("/jobs/<job_id>/pause", permission="job.ops", errors=[409])
def pause_job(job_id: str, body: NoteBody | None = None) -> JobBody:
    """No fire makes a run until the job is resumed. Runs that have begun go on."""
    note = None if body is None else body.note
    return JobBody(**_job(bootstrap.jobs().pause(_actor(None), from_wire("job", job_id), note)))


@api.post("/jobs/<job_id>/resume", permission="job.ops")
def resume_job(job_id: str, body: ResumeBody | None = None) -> JobBody:
    """The next fire is the first one from now on. `catchUp` makes up for fires of the pause."""
    wanted = body or ResumeBody()
    return JobBody(
        **_job(bootstrap.jobs().resume(_actor(None), from_wire("job", job_id), wanted.note, catch_up=wanted.catch_up))
    )


@api.post("/jobs/<job_id>/trigger", permission="job.run", status=202, idempotent=True)
def trigger_job(job_id: str) -> tuple[RunIdBody, int]:
    """Start a run now. Over the tenant's rate: 429 SCHED_429_TENANT_THROTTLED."""
    run_id = bootstrap.jobs().trigger(_actor(None), from_wire("job", job_id))
    return RunIdBody(run_id=to_wire("run", run_id)), 202


@api.get("/jobs/<job_id>/fires", permission="job.read")
def list_fires(
    job_id: str,
    since: Annotated[AwareDatetime | None, Query(alias="from", description="a day before `to` if left out")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to", description="exclusive; now if left out")] = None,
    tenant_id: TenantId = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 100,
) -> ReportedFiresBody:
    """Each nominal fire of a range and what became of it, oldest first."""
    place = http.place_of(cursor)
    found = bootstrap.job_fires().fires(
        _tenant(tenant_id),
        from_wire("job", job_id),
        since=since,
        until=until,
        after=None if place is None else _moment(place),
        limit=limit + 1,
    )
    last = found[limit - 1].scheduled_at if len(found) > limit else None
    next_cursor = http.cursor_of(None if last is None else UUID(int=(last - _EPOCH) // timedelta(microseconds=1)))
    return ReportedFiresBody(items=[_reported(fire) for fire in found[:limit]], next_cursor=next_cursor)


@api.post("/jobs/<job_id>/replay", permission="job.ops", status=202)
def replay_range(job_id: str, body: ReplayRangeBody) -> tuple[ReplayedBody, int]:
    """Replay the runs of a job whose scheduled time is in a range: the failed ones, if no state is given."""
    wanted = RunFilter(
        job_id=from_wire("job", job_id),
        state=None if body.state is None else RunState(body.state),
        since=body.since,
        until=body.until,
    )
    count, next_to = bootstrap.runs().replay_range(api.identity.tenant_id, wanted, actor_id=api.identity.user_id)
    return ReplayedBody(replayed_runs=count, has_more=next_to is not None, next_to=next_to), 202


@api.post("/jobs/<job_id>/backfill", permission="job.run", status=202, idempotent=True)
def start_backfill(job_id: str, body: BackfillRangeBody) -> tuple[AcceptedBackfillBody, int]:
    """Run a job for the past times of a range that have no run, and for those that `reprocess` names."""
    wanted = Range(body.since, body.until, body.parallelism, body.reprocess)
    backfill_id, runs = bootstrap.backfills().start(
        api.identity.tenant_id,
        from_wire("job", job_id),
        wanted,
        actor_id=api.identity.user_id,
        is_dry_run=body.dry_run,
    )
    wire_id = None if backfill_id is None else to_wire("bkf", backfill_id)
    return AcceptedBackfillBody(backfill_id=wire_id, accepted_runs=runs), 202


@api.get("/backfills", permission="job.run")
def list_backfills(
    job_id: Annotated[str | None, Query(alias="jobId", max_length=64)] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> BackfillsBody:
    """The tenant's backfills, newest first."""
    try:
        job = None if job_id is None else from_wire("job", job_id)
    except NotFound:
        return BackfillsBody(items=[], next_cursor=None)
    found = bootstrap.backfills().backfills(
        api.identity.tenant_id, job_id=job, before=http.place_of(cursor), limit=limit + 1
    )
    next_place = found[limit - 1].backfill_id if len(found) > limit else None
    return BackfillsBody(items=[_backfill(one) for one in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.get("/backfills/<backfill_id>", permission="job.run")
def get_backfill(backfill_id: str) -> BackfillBody:
    """How far a backfill is."""
    return _backfill(bootstrap.backfills().backfill(api.identity.tenant_id, from_wire("bkf", backfill_id)))


@api.delete("/backfills/<backfill_id>", permission="job.run", errors=[409])
def cancel_backfill(backfill_id: str) -> BackfillBody:
    """Stop a backfill: runs that have not begun leave, a run that is under way ends as usual."""
    return _backfill(
        bootstrap.backfills().cancel(
            api.identity.tenant_id, from_wire("bkf", backfill_id), actor_id=api.identity.user_id
        )
    )


@api.get("/runs", permission="job.read", errors=[404])
def list_runs(
    job_id: Annotated[str | None, Query(alias="jobId", max_length=64)] = None,
    state: RunState | None = None,
    kind: RunKind | None = None,
    dead_letter: Annotated[bool, Query(alias="deadLetter", description="only those in the dead letters")] = False,
    since: Annotated[AwareDatetime | None, Query(alias="from", description="of the scheduled time")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    tenant_id: TenantId = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> RunsBody:
    """The tenant's runs, the newest scheduled time first."""
    tenant = _tenant(tenant_id)
    try:
        job = None if job_id is None else from_wire("job", job_id)
    except NotFound:
        return RunsBody(items=[], next_cursor=None)
    wanted = RunFilter(job, state, kind, dead_letter, since, until)
    found = bootstrap.runs().runs(tenant, wanted, before=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].run_id if len(found) > limit else None
    return RunsBody(items=[_run(run) for run in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.get("/runs/<run_id>", permission="job.read")
def get_run(run_id: str, tenant_id: TenantId = None) -> RunBody:
    """One firing of a job."""
    return _run(bootstrap.runs().run(_tenant(tenant_id), from_wire("run", run_id)))


@api.get("/runs/<run_id>/logs", permission="job.read")
def list_log_lines(
    run_id: str, tenant_id: TenantId = None, cursor: http.Cursor = None, limit: LogLimit = 100
) -> LogLinesBody:
    """The log of a run, oldest line first."""
    found = bootstrap.runs().logs(
        _tenant(tenant_id), from_wire("run", run_id), after=http.place_of(cursor), limit=limit + 1
    )
    next_place = found[limit - 1].log_id if len(found) > limit else None
    items = [
        LogLineBody(at=line.at, attempt=line.attempt, level=line.level, message=line.message) for line in found[:limit]
    ]
    return LogLinesBody(items=items, next_cursor=http.cursor_of(next_place))


@api.post("/runs/<run_id>/replay", permission="job.ops", status=202, errors=[409])
def replay_run(run_id: str) -> tuple[RunIdBody, int]:
    """Start an ended run again, with a new idempotency key."""
    bootstrap.runs().replay(api.identity.tenant_id, from_wire("run", run_id), actor_id=api.identity.user_id)
    return RunIdBody(run_id=run_id), 202


@api.post("/runs/<run_id>/terminate", permission="job.ops", status=202, errors=[409])
def terminate_run(run_id: str) -> tuple[RunIdBody, int]:
    """End a run now. A task of it is cancelled; the result of a call that is under way changes nothing."""
    bootstrap.runs().terminate(api.identity.tenant_id, from_wire("run", run_id), actor_id=api.identity.user_id)
    return RunIdBody(run_id=run_id), 202


@api.get("/secrets", permission="job.write")
def list_secrets(cursor: http.Cursor = None, limit: http.Limit = 100) -> SecretsBody:
    """Names and dates. No route shows a value."""
    found, next_cursor = http.page_of(bootstrap.job_secrets().secrets(api.identity.tenant_id), cursor, limit)
    return SecretsBody(items=[_secret(secret) for secret in found], next_cursor=next_cursor)


@api.put("/secrets/<secret_name>", permission="job.write", errors=[409])
def put_secret(secret_name: str, body: SecretValueBody) -> SecretBody:
    """Store a value that jobs name as `secret:NAME`. Runs that start from now on use it."""
    return _secret(
        bootstrap.job_secrets().put(api.identity.tenant_id, secret_name, body.value, actor_id=api.identity.user_id)
    )


@api.delete("/secrets/<secret_name>", permission="job.write", status=204, errors=[409])
def delete_secret(secret_name: str) -> tuple[None, int]:
    """Delete a secret that no job names."""
    bootstrap.job_secrets().delete(api.identity.tenant_id, secret_name, actor_id=api.identity.user_id)
    return None, 204


def _tenant(given: str | None) -> UUID:
    """The caller's tenant, or the one that a platform administrator names. Another tenant's id is not found."""
    if given is None:
        return api.identity.tenant_id
    wanted = from_wire("tnt", given)
    if wanted != api.identity.tenant_id and not api.identity.may("tenant.manage"):
        raise NotFound("there is no such tenant")
    if wanted != api.identity.tenant_id and not bootstrap.jobs().is_tenant(wanted):
        raise NotFound("there is no such tenant")
    return wanted


def _actor(tenant_id: str | None) -> Actor:
    tenant = _tenant(tenant_id)
    return Actor(
        tenant,
        api.identity.user_id,
        may_submit=api.identity.may("task.submit"),
        is_member=tenant == api.identity.tenant_id,
    )


def _language() -> str:
    return "zh" if str(api.event.get("headers", {}).get("accept-language", "")).lower().startswith("zh") else "en"


def _job(view: JobView) -> dict[str, Any]:
    job, definition = view.job, view.job.definition
    document = document_of(definition)
    return {
        "job_id": to_wire("job", job.job_id),
        "tenant_id": to_wire("tnt", job.tenant_id),
        "user_id": to_wire("usr", job.user_id),
        "name": definition.name,
        "status": job.status,
        "version": job.version,
        "schedule": _shaped(ScheduleShape, document["schedule"]),
        "task": document["task"],
        "retry_policy": _shaped(RetryShape, document["retryPolicy"]),
        "concurrency_limit": definition.concurrency_limit,
        "priority": definition.priority,
        "overlap_policy": definition.overlap_policy,
        "misfire_policy": definition.misfire_policy,
        "catchup_window_seconds": definition.catchup_window_s,
        "timeout_seconds": definition.timeout_s,
        "starts_at": definition.schedule.starts_at,
        "ends_at": definition.schedule.ends_at,
        "next_fire_time": view.next_fires[0].at if view.next_fires else None,
        "next_fires": _fires(view.next_fires),
        "description": view.description[_language()],
        "note": job.note,
        "paused_by": None if job.paused_by is None else to_wire("usr", job.paused_by),
        "paused_at": job.paused_at,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
    }


def _shaped(shape: Any, document: dict[str, Any]) -> Any:
    return shape.model_validate(document)


def _kept(view: JobView) -> dict[str, Any]:
    """The answer as it is stored for a repeated request: without the signing secret."""
    return JobBody(**_job(view)).model_dump(mode="json")


def _fires(fires: Sequence[Fire]) -> list[FireBody]:
    return [FireBody(at=fire.at, local=fire.local, offset=fire.offset) for fire in fires]


def _reported(fire: ReportedFire) -> ReportedFireBody:
    return ReportedFireBody(
        scheduled_time=fire.scheduled_at,
        outcome=fire.status,
        reason=fire.reason,
        run_id=None if fire.run is None else to_wire("run", fire.run.run_id),
    )


def _moment(place: UUID) -> datetime:
    """A cursor of fires is a time. One that was made up is bounded."""
    return _EPOCH + timedelta(microseconds=min(place.int, _LAST_MICROSECOND))


def _run(run: Run) -> RunBody:
    return RunBody(
        run_id=to_wire("run", run.run_id),
        job_id=to_wire("job", run.job_id),
        scheduled_time=run.scheduled_at,
        assigned_time=run.assigned_at,
        kind=run.kind,
        state=run.state,
        task_type=run.task_type,
        lane=run.lane,
        generation=run.generation,
        attempt=run.attempt,
        waiting_for=run.defer_reason if run.is_deferred else None,
        last_error=run.last_error,
        next_retry_at=run.next_retry_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        http_status=run.http_status,
        answer=run.answer,
        task_id=None if run.task_id is None else to_wire("task", run.task_id),
        idempotency_key=idempotency_key(run.job_id, run.scheduled_at, run.generation),
        dead_letter_at=run.dead_at,
        created_at=run.created_at,
    )


def _backfill(one: Backfill) -> BackfillBody:
    return BackfillBody(
        backfill_id=to_wire("bkf", one.backfill_id),
        job_id=to_wire("job", one.job_id),
        since=one.since,
        until=one.until,
        parallelism=one.parallelism,
        reprocess=one.reprocess,
        status=one.status,
        total=one.total,
        done=one.done,
        failed=one.failed,
        remaining=one.remaining,
        created_at=one.created_at,
        ended_at=one.ended_at,
    )


def _imported(report: ImportReport) -> ImportedBody:
    return ImportedBody(
        dry_run=report.is_dry_run,
        created=sum(one.action == "create" for one in report.jobs),
        updated=sum(one.action == "update" for one in report.jobs),
        unchanged=sum(one.action == "unchanged" for one in report.jobs),
        jobs=[
            ImportedJobBody(
                action=one.action,
                job_id=None if one.job_id is None else to_wire("job", one.job_id),
                name=one.name,
                changes=[FieldChangeBody(field=it.field, before=it.before, after=it.after) for it in one.changes],
            )
            for one in report.jobs
        ],
    )


def _secret(secret: Secret) -> SecretBody:
    return SecretBody(name=secret.name, created_at=secret.created_at, updated_at=secret.updated_at)
