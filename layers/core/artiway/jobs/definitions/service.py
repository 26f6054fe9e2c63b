"""Definitions of jobs: create, change, pause, resume, delete, trigger, preview, import and export.

A change of a definition, the runs that it retracts or makes, its history and its audit entry are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from artiway import ids
from artiway.delivery.webhooks.model import new_secret
from artiway.errors import NotAllowed
from artiway.jobs import fires, zones
from artiway.jobs.chains.model import HasSuccessors, circle
from artiway.jobs.cron import InvalidSchedule
from artiway.jobs.definitions import files
from artiway.jobs.definitions.model import (
    Actor,
    CatchUp,
    ImportedJob,
    ImportReport,
    InvalidFile,
    JobFile,
    JobShape,
    JobView,
    Preview,
    ScheduleShape,
    TooManyJobs,
    differences,
    document_of,
    merged,
    shape_of,
)
from artiway.jobs.definitions.validation import (
    Rules,
    check_schedule,
    definition_of,
    description,
    next_fires,
    schedule_of,
    secrets_of,
    status_of,
)
from artiway.jobs.guard.model import DispatchBacklog
from artiway.jobs.model import (
    Definition,
    FireOutcome,
    InvalidJob,
    Job,
    JobConflict,
    JobLimits,
    JobStatus,
    NoSuchJob,
    ScheduleType,
    TaskType,
    TenantThrottled,
)
from artiway.jobs.secrets import SIGNING_KEY
from artiway.jobs.settings import BODY_BYTES, PER_TENANT
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues
from artiway.tasks.model import Cycle

logger = Logger("jobs")
Action = Literal["created", "updated", "paused", "resumed", "deleted"]


class JobTransaction(Protocol):
    @property
    def tx(self) -> Any:
        """The database's transaction, for the run engine."""

    def now(self) -> datetime: ...

    def is_tenant(self) -> bool: ...

    def limits(self) -> JobLimits: ...

    def lock_jobs(self) -> None:
        """Until the commit no other transaction adds jobs or secrets of the tenant."""

    def owner(self) -> UUID | None: ...

    def count(self) -> int: ...

    def add(self, job: Job, *, tzdata_version: str) -> None: ...

    def save(self, job: Job, *, tzdata_version: str) -> None: ...

    def job(self, job_id: UUID, *, is_locked: bool = False) -> Job | None: ...

    def jobs(self, *, status: JobStatus | None, name: str | None, before: UUID | None, limit: int) -> list[Job]: ...

    def locked_by_name(self, names: Collection[str]) -> list[Job]: ...

    def note_change(self, job: Job, action: Action, *, actor_id: UUID) -> None: ...

    def note_fires(self, job: Job, times: Sequence[datetime], outcome: FireOutcome, reason: str) -> None: ...

    def unknown_secrets(self, names: Collection[str]) -> list[str]: ...

    def has_signing_key(self) -> bool: ...

    def add_signing_key(self, ciphertext: bytes) -> None: ...

    def started_in_minute(self) -> int: ...

    def shed_lanes(self) -> Collection[str]:
        """The lanes of runs that the guard has paused."""

    def audit(self, actor_id: UUID, action: str, target: str, details: Mapping[str, Any]) -> None: ...


class JobStore(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[JobTransaction]: ...


class Fires(Protocol):
    """The run engine, inside the transaction of a change."""

    def fire_ahead(self, tx: Any, job: Job) -> Job: ...

    def fire_now(self, tx: Any, job: Job) -> UUID: ...

    def make_up(self, tx: Any, job: Job, *, since: datetime, until: datetime, is_all: bool) -> int: ...

    def retract(self, tx: Any, *, tenant_id: UUID, job_id: UUID) -> list[datetime]: ...


class Predecessors(Protocol):
    """Which jobs run after which."""

    def known_jobs(self, tx: Any, job_ids: Sequence[UUID]) -> set[UUID]: ...

    def edges(self, tx: Any) -> list[tuple[UUID, UUID]]: ...

    def replace(self, tx: Any, job_id: UUID, predecessors: Sequence[UUID]) -> None: ...

    def successors(self, tx: Any, job_id: UUID) -> list[UUID]: ...


class SecretBox(Protocol):
    def encrypt(self, *, tenant_id: UUID, name: str, value: str) -> bytes: ...


class Submissions(Protocol):
    def check(self, *, tenant_id: UUID, task_type: TaskType, task: Mapping[str, Any]) -> None:
        """Raises what a submission would, except for the tenant's limits and points."""


class JobService:
    def __init__(
        self,
        store: JobStore,
        fires: Fires,
        submissions: Submissions,
        box: SecretBox,
        values: SettingValues,
        predecessors: Predecessors,
        *,
        refusal_of: Callable[[str], str | None],
    ) -> None:
        """`refusal_of` returns the reason why a URL can never be called, or None."""
        self._store, self._fires, self._submissions, self._box = store, fires, submissions, box
        self._values, self._predecessors, self._refusal_of = values, predecessors, refusal_of

    # Reads

    def jobs(
        self, tenant_id: UUID, *, status: JobStatus | None, name: str | None, before: UUID | None, limit: int
    ) -> list[JobView]:
        with self._store.open(tenant_id) as tx:
            now = tx.now()
            return [_view(job, now) for job in tx.jobs(status=status, name=name, before=before, limit=limit)]

    def job(self, tenant_id: UUID, job_id: UUID) -> JobView:
        with self._store.open(tenant_id) as tx:
            return _view(_found(tx.job(job_id)), tx.now())

    def is_tenant(self, tenant_id: UUID) -> bool:
        with self._store.open(tenant_id) as tx:
            return tx.is_tenant()

    def preview(
        self, tenant_id: UUID, shape: ScheduleShape, *, starts_at: datetime | None, ends_at: datetime | None
    ) -> Preview:
        """Refuses what a job of the tenant would be refused for."""
        schedule = schedule_of(shape, starts_at=starts_at, ends_at=ends_at)
        with self._store.open(tenant_id) as tx:
            rules = self._rules(tx)
        check_schedule(schedule, rules)
        return Preview(next_fires(schedule, rules.now), description(schedule))

    # Changes

    def create(self, actor: Actor, shape: JobShape) -> JobView:
        with self._store.open(actor.tenant_id) as tx:
            rules = self._rules(tx)
            definition = self._checked(tx, actor, definition_of(shape, rules), before=None)
            return self._add(tx, actor, definition, rules.now)

    def update(self, actor: Actor, job_id: UUID, change: Mapping[str, Any]) -> JobView:
        """Merges the given fields. Runs that were created ahead follow the new definition."""
        with self._store.open(actor.tenant_id) as tx:
            if "schedule" in change:
                tx.lock_jobs()  # before the job, as an import does: predecessors may change
            job = _found(tx.job(job_id, is_locked=True))
            rules = self._rules(tx)
            definition = _changed(job.definition, change, rules)
            return _view(self._change(tx, actor, job, definition, rules.now), rules.now)

    def pause(self, actor: Actor, job_id: UUID, note: str | None) -> JobView:
        with self._store.open(actor.tenant_id) as tx:
            job = _found(tx.job(job_id, is_locked=True))
            now = _in_order(job, tx.now())
            if status_of(job, now) is JobStatus.COMPLETED:
                raise JobConflict("no fire of the job is left", status=job.status)
            if job.status is JobStatus.PAUSED and note is None:
                return _view(job, now)
            self._retract(tx, job, now, f"paused by {ids.to_wire('usr', actor.user_id)}")
            paused = replace(
                job,
                status=JobStatus.PAUSED,
                next_fire_at=None,
                last_fire_at=_past(job.last_fire_at, now),
                note=note,
                paused_by=actor.user_id,
                paused_at=job.paused_at if job.status is JobStatus.PAUSED else now,
            )
            return _view(self._save(tx, actor, paused, "paused", now, {"note": note}), now)

    def resume(self, actor: Actor, job_id: UUID, note: str | None, *, catch_up: CatchUp = CatchUp.NONE) -> JobView:
        """The next fire is the first one after now. `catch_up` makes up for fires of the pause."""
        with self._store.open(actor.tenant_id) as tx:
            job = _found(tx.job(job_id, is_locked=True))
            now = _in_order(job, tx.now())
            if job.status is not JobStatus.PAUSED:
                return _view(job, now)
            resumed = replace(job, note=note, paused_by=None, paused_at=None)
            details = {"note": note, "catchUp": catch_up}
            active = self._activate(tx, actor, resumed, "resumed", now, details)
            if catch_up is not CatchUp.NONE and job.paused_at is not None:
                self._fires.make_up(tx.tx, active, since=job.paused_at, until=now, is_all=catch_up is CatchUp.ALL)
            return _view(active, now)

    def delete(self, actor: Actor, job_id: UUID) -> None:
        """The runs that it made stay. A run that has begun ends as usual."""
        with self._store.open(actor.tenant_id) as tx:
            tx.lock_jobs()
            job = _found(tx.job(job_id, is_locked=True))
            now = _in_order(job, tx.now())
            if successors := self._predecessors.successors(tx.tx, job_id):
                raise HasSuccessors([ids.to_wire("job", one) for one in successors])
            self._predecessors.replace(tx.tx, job_id, ())
            self._retract(tx, job, now, f"deleted by {ids.to_wire('usr', actor.user_id)}")
            deleted = replace(
                job, status=JobStatus.DELETED, next_fire_at=None, last_fire_at=_past(job.last_fire_at, now)
            )
            self._save(tx, actor, deleted, "deleted", now, {"name": job.definition.name})

    def trigger(self, actor: Actor, job_id: UUID) -> UUID:
        """A run that is due now, also of a paused job. Refused once the tenant has started its runs of this minute."""
        with self._store.open(actor.tenant_id) as tx:
            job, now, limits = _found(tx.job(job_id, is_locked=True)), tx.now(), tx.limits()
            lane = job.definition.priority.at_most(limits.ceiling).lane
            if lane in tx.shed_lanes():
                raise DispatchBacklog(lane)
            if tx.started_in_minute() >= limits.runs_per_minute:
                raise TenantThrottled(
                    "the tenant has started its runs of this minute",
                    retry_after_s=60 - now.second,
                    limit=limits.runs_per_minute,
                )
            run_id = self._fires.fire_now(tx.tx, job)
            tx.audit(actor.user_id, "job.trigger", _target(job), {"runId": ids.to_wire("run", run_id)})
            return run_id

    # Files

    def export(self, tenant_id: UUID, *, before: UUID | None, limit: int, is_yaml: bool) -> JobFile:
        """One page of the tenant's jobs as a file that `apply_file` takes."""
        with self._store.open(tenant_id) as tx:
            found = tx.jobs(status=None, name=None, before=before, limit=limit + 1)
        documents = [{"jobId": _target(job), **document_of(job.definition)} for job in found[:limit]]
        return JobFile(
            files.written(documents, is_yaml=is_yaml), found[limit - 1].job_id if len(found) > limit else None
        )

    def apply_file(self, actor: Actor, content: bytes, media_type: str, *, is_dry_run: bool | None) -> ImportReport:
        """`is_dry_run` of the request, or None: then the file says so."""
        documents, is_asked = files.read(content, media_type)
        return self.apply(actor, documents, is_dry_run=is_asked if is_dry_run is None else is_dry_run)

    def apply(self, actor: Actor, documents: Sequence[Mapping[str, Any]], *, is_dry_run: bool) -> ImportReport:
        """Create and change jobs so that they are as the documents say: all of them or none. Other jobs stay."""
        with self._store.open(actor.tenant_id) as tx:
            tx.lock_jobs()
            rules = self._rules(tx)
            matched = self._matched(tx, documents)
            report = [
                self._apply_one(tx, actor, rules, dict(document), job, place, is_dry_run=is_dry_run)
                for place, (document, job) in enumerate(zip(documents, matched, strict=True))
            ]
            created = sum(one.action == "create" for one in report)
            if is_dry_run and created and tx.count() + created > self._values.get(PER_TENANT):
                raise TooManyJobs(self._values.get(PER_TENANT))
            if not is_dry_run:
                actions = {
                    kind: sum(one.action == kind for one in report) for kind in ("create", "update", "unchanged")
                }
                tx.audit(actor.user_id, "job.import", ids.to_wire("tnt", actor.tenant_id), actions)
        return ImportReport(is_dry_run, report)

    @staticmethod
    def _matched(tx: JobTransaction, documents: Sequence[Mapping[str, Any]]) -> list[Job | None]:
        """The job of each document: by its id, else by its name."""
        names = {str(one["name"]) for one in documents if "jobId" not in one and "name" in one}
        by_name: dict[str, list[Job]] = {}
        for job in tx.locked_by_name(names):
            by_name.setdefault(job.definition.name, []).append(job)
        matched: list[Job | None] = []
        for place, document in enumerate(documents):
            if "jobId" in document:
                matched.append(_found(tx.job(ids.from_wire("job", str(document["jobId"])), is_locked=True)))
                continue
            found = by_name.get(str(document.get("name")), [])
            if len(found) > 1:
                raise InvalidFile("several jobs have this name; give the jobId", place=f"jobs.{place}")
            matched.append(found[0] if found else None)
        known = [job.job_id for job in matched if job is not None]
        new = [str(one.get("name")) for one, job in zip(documents, matched, strict=True) if job is None]
        if len(set(known)) < len(known) or len(set(new)) < len(new):
            raise InvalidFile("the file names a job twice")
        return matched

    def _apply_one(
        self,
        tx: JobTransaction,
        actor: Actor,
        rules: Rules,
        document: dict[str, Any],
        job: Job | None,
        place: int,
        *,
        is_dry_run: bool,
    ) -> ImportedJob:
        document.pop("jobId", None)
        shape = shape_of(document, place=f"jobs.{place}.")
        before = None if job is None else job.definition
        definition = self._checked(tx, actor, definition_of(shape, rules, before=before), before=before)
        if job is None:
            job_id = None if is_dry_run else self._add(tx, actor, definition, rules.now).job.job_id
            return ImportedJob("create", job_id, definition.name)
        changes = differences(document_of(job.definition), document_of(definition))
        if not changes:
            return ImportedJob("unchanged", job.job_id, definition.name)
        if not is_dry_run:
            self._store_change(tx, actor, job, definition, rules.now, changes=[one.field for one in changes])
        return ImportedJob("update", job.job_id, definition.name, changes)

    # Parts of changes

    def _rules(self, tx: JobTransaction) -> Rules:
        return Rules(tx.limits(), tx.now(), body_bytes=self._values.get(BODY_BYTES))

    def _checked(
        self, tx: JobTransaction, actor: Actor, definition: Definition, *, before: Definition | None
    ) -> Definition:
        """What needs more than the document: the target, the secrets, the catalogue and the inputs."""
        is_same = before is not None and (before.task_type, before.task) == (definition.task_type, definition.task)
        if is_same:
            return definition
        if definition.task_type is TaskType.HTTP:
            if (reason := self._refusal_of(str(definition.task["url"]))) is not None:
                raise InvalidJob("task.url", reason)
            if unknown := tx.unknown_secrets(secrets_of(definition)):
                raise InvalidJob("task", f"there is no secret {unknown[0]}")
            return definition
        if not actor.may_submit:
            raise NotAllowed("this needs a permission that you do not have", permission="task.submit")
        self._submissions.check(tenant_id=actor.tenant_id, task_type=definition.task_type, task=definition.task)
        return definition

    def _add(self, tx: JobTransaction, actor: Actor, definition: Definition, now: datetime) -> JobView:
        tx.lock_jobs()
        limit = self._values.get(PER_TENANT)
        if tx.count() >= limit:
            raise TooManyJobs(limit)
        user_id = actor.user_id if actor.is_member else tx.owner()
        if user_id is None:
            raise InvalidJob("tenantId", "the tenant has no owner who could pay for its tasks")
        secret = self._first_signing_key(tx, actor, definition)
        job = Job(
            tenant_id=actor.tenant_id,
            job_id=ids.new_id(),
            user_id=user_id,
            definition=definition,
            status=JobStatus.ACTIVE,
            version=1,
            next_fire_at=fires.first_fire(definition.schedule, now),
            last_fire_at=None,
            note=None,
            paused_by=None,
            paused_at=None,
            created_at=now,
            updated_at=now,
        )
        tx.add(job, tzdata_version=zones.TZDATA_VERSION)
        self._connect(tx, job.job_id, definition)
        tx.note_change(job, "created", actor_id=actor.user_id)
        tx.audit(actor.user_id, "job.create", _target(job), {"name": definition.name, "type": definition.task_type})
        job = self._fires.fire_ahead(tx.tx, job)
        logger.info("job created", job_id=str(job.job_id), type=definition.task_type)
        return replace(_view(job, now), signing_secret=secret)

    def _connect(self, tx: JobTransaction, job_id: UUID, definition: Definition) -> None:
        """Store the predecessors. The tenant's jobs are locked, so two changes cannot close a circle together."""
        after = definition.schedule.after
        if unknown := set(after) - self._predecessors.known_jobs(tx.tx, after):
            raise InvalidSchedule("schedule.after", f"there is no job {ids.to_wire('job', min(unknown))}")
        if found := circle(self._predecessors.edges(tx.tx), job_id, after):
            raise Cycle([ids.to_wire("job", one) for one in found])
        self._predecessors.replace(tx.tx, job_id, after)

    def _first_signing_key(self, tx: JobTransaction, actor: Actor, definition: Definition) -> str | None:
        if definition.task_type is not TaskType.HTTP or tx.has_signing_key():
            return None
        secret = new_secret()
        tx.add_signing_key(self._box.encrypt(tenant_id=actor.tenant_id, name=SIGNING_KEY, value=secret))
        return secret

    def _change(self, tx: JobTransaction, actor: Actor, job: Job, definition: Definition, now: datetime) -> Job:
        self._checked(tx, actor, definition, before=job.definition)
        changes = differences(document_of(job.definition), document_of(definition))
        if not changes:
            return job
        return self._store_change(tx, actor, job, definition, now, changes=[one.field for one in changes])

    def _store_change(
        self,
        tx: JobTransaction,
        actor: Actor,
        job: Job,
        definition: Definition,
        now: datetime,
        *,
        changes: Sequence[str],
    ) -> Job:
        now = _in_order(job, now)
        self._first_signing_key(tx, actor, definition)  # its secret is shown after a rotation
        self._retract(tx, job, now, f"edited by {ids.to_wire('usr', actor.user_id)}")
        details = {"fields": list(changes)}
        if job.definition.schedule.after != definition.schedule.after:
            tx.lock_jobs()
            self._connect(tx, job.job_id, definition)
        changed = replace(job, definition=definition, last_fire_at=_past(job.last_fire_at, now))
        if job.status is JobStatus.PAUSED:
            return self._save(tx, actor, changed, "updated", now, details)
        return self._activate(tx, actor, changed, "updated", now, details)

    def _activate(
        self, tx: JobTransaction, actor: Actor, job: Job, action: Action, now: datetime, details: Mapping[str, Any]
    ) -> Job:
        """Active with the first fire after now and after the last one; completed if there is none."""
        next_at = fires.first_fire(job.definition.schedule, max(now, job.last_fire_at or now))
        is_after = job.definition.schedule.type is ScheduleType.AFTER
        if is_after:  # its predecessors fire, so it has no time of its own
            job = replace(job, last_fire_at=None)
        status = JobStatus.ACTIVE if next_at is not None or is_after else JobStatus.COMPLETED
        saved = self._save(tx, actor, replace(job, status=status, next_fire_at=next_at), action, now, details)
        return saved if next_at is None else self._fires.fire_ahead(tx.tx, saved)

    @staticmethod
    def _save(
        tx: JobTransaction, actor: Actor, job: Job, action: Action, now: datetime, details: Mapping[str, Any]
    ) -> Job:
        saved = replace(job, version=job.version + 1, updated_at=now)
        tx.save(saved, tzdata_version=zones.TZDATA_VERSION)
        tx.note_change(saved, action, actor_id=actor.user_id)
        verb = {"updated": "update", "paused": "pause", "resumed": "resume", "deleted": "delete"}[action]
        tx.audit(actor.user_id, f"job.{verb}", _target(job), details)
        return saved

    def _retract(self, tx: JobTransaction, job: Job, now: datetime, reason: str) -> None:
        """Delete runs that were created ahead. A nominal time that is over already does not come again."""
        retracted = self._fires.retract(tx.tx, tenant_id=job.tenant_id, job_id=job.job_id)
        lost = [at for at in retracted if at <= now]
        if lost:
            tx.note_fires(job, lost, FireOutcome.CANCELLED_BY_EDIT, reason)


def _changed(definition: Definition, change: Mapping[str, Any], rules: Rules) -> Definition:
    """What followed from the earlier schedule or task, and not from the tenant's wish, follows from the new one."""
    document = document_of(definition)
    if "schedule" in change and "catchupWindowSeconds" not in change:
        default = definition_of(shape_of(merged(document, {"catchupWindowSeconds": None})), rules, before=definition)
        if default.catchup_window_s == definition.catchup_window_s:
            document.pop("catchupWindowSeconds")
    task = change.get("task")
    if isinstance(task, Mapping) and (
        "timeoutSeconds" in task or task.get("type", definition.task_type) != definition.task_type
    ):
        document.pop("timeoutSeconds")
    elif "timeoutSeconds" in change and "timeoutSeconds" in document["task"]:
        document["task"] = {name: value for name, value in document["task"].items() if name != "timeoutSeconds"}
    return definition_of(shape_of(merged(document, change)), rules, before=definition)


def _in_order(job: Job, now: datetime) -> datetime:
    """The time of a change is not before the last change, also where the clock has stepped back: a fire between the two
    belongs to the earlier definition, and is noted if its run is retracted."""
    return max(now, job.updated_at)


def _past(last_fire_at: datetime | None, now: datetime) -> datetime | None:
    """Runs ahead of now are retracted, so the last fire is not later than now."""
    return None if last_fire_at is None else min(last_fire_at, now)


def _view(job: Job, now: datetime) -> JobView:
    status = status_of(job, now)
    schedule = job.definition.schedule
    coming = next_fires(schedule, now) if status is JobStatus.ACTIVE else []
    return JobView(replace(job, status=status), coming, description(schedule))


def _found(job: Job | None) -> Job:
    if job is None:
        raise NoSuchJob
    return job


def _target(job: Job) -> str:
    return ids.to_wire("job", job.job_id)
