"""Creates runs ahead of their time and publishes hints that deliver each at its second.

Several triggers share the work: each locks the jobs that it reads, and the unique key of runs stops what a lock cannot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway.jobs import fires, zones
from artiway.jobs.admission import JobKey
from artiway.jobs.fires import FireNote
from artiway.jobs.limits import limits_of
from artiway.jobs.messages import HINT_AHEAD_S, hints, warm
from artiway.jobs.model import DuplicateRun, Job, JobLimits, JobPriority, RunKind
from artiway.jobs.runs import DueRun, NewRun
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues

logger = Logger("jobs")
BATCH_JOBS = 2_000
MOST_BATCHES = 50
RESEND_RUNS = 5_000
# A run that is overdue by so much, with a message older than the second number, gets another message.
OVERDUE_S = 5
RESEND_S = 30
# A dispatcher and a caller that are not running need seconds to start: both are woken before the first of new runs.
WARM_S = 5


class FireTransaction(Protocol):
    def send(self, messages: Iterable[Message]) -> None: ...
    def use_indexes(self) -> datetime: ...
    def ensure_days(self, moments: Iterable[datetime]) -> None: ...
    def policies(self, tenant_ids: Iterable[UUID]) -> Sequence[Mapping[str, Any]]: ...
    def due_jobs(self, now: datetime, *, until: datetime, limit: int) -> list[Job]: ...
    def stale_zones(self, *, version: str, limit: int) -> list[Job]: ...
    def set_zones(self, nexts: Sequence[tuple[Job, datetime | None]], *, version: str) -> None: ...
    def advance(self, jobs: Sequence[tuple[Job, datetime | None, datetime | None]]) -> None: ...
    def insert_runs(self, runs: Sequence[NewRun], now: datetime) -> set[UUID]: ...
    def insert_notes(self, notes: Sequence[tuple[JobKey, FireNote]], now: datetime) -> None: ...
    def complete_jobs(self, now: datetime, *, limit: int) -> int: ...
    def lag_s(self, now: datetime) -> float: ...
    def hint_again(
        self, now: datetime, *, until: datetime, overdue: datetime, resend: datetime, limit: int
    ) -> list[DueRun]: ...
    def retract(self, key: JobKey, now: datetime) -> list[datetime]: ...
    def job(self, key: JobKey) -> Job | None: ...


class FireStore(Protocol):
    def open(self) -> AbstractContextManager[FireTransaction]: ...
    def joined(self, tx: Any) -> AbstractContextManager[FireTransaction]: ...


class TriggerService:
    def __init__(self, store: FireStore, values: SettingValues, *, wake: Callable[[], object]) -> None:
        """`wake` starts deferred runs for which there is room."""
        self._store, self._values, self._wake = store, values, wake

    def keep_warm(self) -> None:
        """Keep a dispatcher and a caller running: a job may be stored a second before its time."""
        with self._store.open() as tx:
            tx.send(warm())

    def run_pass(self) -> dict[str, int]:
        """Create the runs of the next 90 s, and repeat messages that seem lost. Safe to repeat and to run twice."""
        counts: Counter[str] = Counter()
        with self._store.open() as tx:
            now = tx.use_indexes()
            tx.ensure_days([now, now + timedelta(days=1)])
        for _ in range(MOST_BATCHES):
            with self._store.open() as tx:
                now = tx.use_indexes()
                jobs = tx.due_jobs(now, until=now + timedelta(seconds=fires.HORIZON_S), limit=BATCH_JOBS)
                counts["runs"] += fire(tx, jobs, now, self._values)
            counts["jobs"] += len(jobs)
            if len(jobs) < BATCH_JOBS:
                break
        counts.update(self._follow_up())
        self._wake()
        return dict(counts)

    def _follow_up(self) -> dict[str, int]:
        with self._store.open() as tx:
            now = tx.use_indexes()
            stale = tx.stale_zones(version=zones.TZDATA_VERSION, limit=BATCH_JOBS)
            if stale:
                tx.set_zones([(job, _in_new_zone(job)) for job in stale], version=zones.TZDATA_VERSION)
            completed = tx.complete_jobs(now, limit=BATCH_JOBS)
            again = tx.hint_again(
                now,
                until=now + timedelta(seconds=fires.HORIZON_S),
                overdue=now - timedelta(seconds=OVERDUE_S),
                resend=now - timedelta(seconds=RESEND_S),
                limit=RESEND_RUNS,
            )
            tx.send(hints(again))
            metrics.emit("TriggerLagSeconds", tx.lag_s(now), "Seconds")
        return {"zones": len(stale), "completed": completed, "resent": len(again)}


class FireAhead:
    """Runs of one job, made in the transaction that changes its definition."""

    def __init__(self, store: FireStore, values: SettingValues) -> None:
        self._store, self._values = store, values

    def fire_ahead(self, tx: Any, job: Job) -> Job:
        """Create the runs of an ACTIVE job up to the horizon. The caller has stored or locked the job's row.

        Returns the job with the nominal times that are stored now.
        """
        with self._store.joined(tx) as run_tx:
            now = run_tx.use_indexes()
            plans = _planned(run_tx, [job], now, self._values)
            _store(run_tx, plans, now)
            _, plan, _ = plans[0]
            return replace(job, next_fire_at=plan.next_fire_at, last_fire_at=plan.last_fire_at)

    def fire_now(self, tx: Any, job: Job) -> UUID:
        """Create one run that is due at once, whatever the schedule says. Raises DuplicateRun."""
        with self._store.joined(tx) as run_tx:
            now = run_tx.use_indexes()
            (policy,) = run_tx.policies([job.tenant_id])
            limits = limits_of(policy, self._values)
            run = new_run(job, now, now, RunKind.MANUAL, limits, now)
            if not run_tx.insert_runs([run], now):
                raise DuplicateRun
            run_tx.send(hints([(run.tenant_id, run.run_id, run.lane, run.assigned_at)]))
            return run.run_id

    def make_up(self, tx: Any, job: Job, *, since: datetime, until: datetime, is_all: bool) -> int:
        """Create the runs of a pause that a user regrets: of its newest fire, or of all. Returns how many.

        The caller has locked the job. The others are noted; the runs are spread as after an outage.
        """
        with self._store.joined(tx) as run_tx:
            now = run_tx.use_indexes()
            (policy,) = run_tx.policies([job.tenant_id])
            limits = limits_of(policy, self._values)
            made, notes = fires.made_up(job, since=since, until=until, now=now, is_all=is_all)
            runs = [new_run(job, one.scheduled_at, one.assigned_at, one.kind, limits, now) for one in made]
            created = run_tx.insert_runs(runs, now)
            run_tx.insert_notes([(JobKey(job.tenant_id, job.job_id), note) for note in notes], now)
            due = [(run.tenant_id, run.run_id, run.lane, run.assigned_at) for run in runs if run.run_id in created]
            run_tx.send(hints(due))
            return len(created)

    def retract(self, tx: Any, *, tenant_id: UUID, job_id: UUID) -> list[datetime]:
        """Delete the runs that were created ahead of their time. Returns their nominal times, oldest first, and those
        up to now that no pass has decided yet. The caller notes the ones that are lost for good.

        The caller has locked the job and not changed it yet. A fire that still applies comes again if `next_fire_at` is
        set to it or to an earlier one.
        """
        with self._store.joined(tx) as run_tx:
            now = run_tx.use_indexes()
            job = run_tx.job(JobKey(tenant_id, job_id))
            undecided = [] if job is None else fires.undecided(job, now)
            return sorted({*run_tx.retract(JobKey(tenant_id, job_id), now), *undecided})


def fire(tx: FireTransaction, jobs: Sequence[Job], now: datetime, values: SettingValues) -> int:
    """Create the runs of locked jobs and set their next times. Returns how many runs are new."""
    return len(_store(tx, _planned(tx, jobs, now, values), now)) if jobs else 0


def _planned(
    tx: FireTransaction, jobs: Sequence[Job], now: datetime, values: SettingValues
) -> list[tuple[Job, fires.FirePlan, JobLimits]]:
    limits = {row["tenant_id"]: limits_of(row, values) for row in tx.policies({job.tenant_id for job in jobs})}
    return [
        (job, fires.plan(job, now=now, is_active=limits[job.tenant_id].is_active), limits[job.tenant_id])
        for job in jobs
    ]


def _store(tx: FireTransaction, plans: Sequence[tuple[Job, fires.FirePlan, JobLimits]], now: datetime) -> set[UUID]:
    runs = [
        new_run(job, one.scheduled_at, one.assigned_at, one.kind, limits, now)
        for job, plan, limits in plans
        for one in plan.fires
    ]
    notes = [(JobKey(job.tenant_id, job.job_id), note) for job, plan, _ in plans for note in plan.notes]
    moved = [
        (job, plan.next_fire_at, plan.last_fire_at)
        for job, plan, _ in plans
        if (plan.next_fire_at, plan.last_fire_at) != (job.next_fire_at, job.last_fire_at)
    ]
    created = tx.insert_runs(runs, now)
    if len(created) < len(runs):
        # A run of that time exists: another trigger's, or one that an edit left.
        logger.warning("runs existed", wanted=len(runs), added=len(created))
        metrics.emit("RunsExisted", len(runs) - len(created))
    tx.insert_notes(notes, now)
    tx.advance(moved)
    hinted = [
        DueRun(run.tenant_id, run.run_id, run.lane, run.assigned_at)
        for run in runs
        if run.is_hinted and run.run_id in created
    ]
    tx.send(hints(hinted))
    if hinted:
        first = min(hinted, key=lambda run: run.due_at)
        tx.send(warm(first.lane, due_at=first.due_at - timedelta(seconds=WARM_S)))
    return created


def new_run(
    job: Job, scheduled_at: datetime, assigned_at: datetime, kind: RunKind, limits: JobLimits, now: datetime
) -> NewRun:
    run_id = fires.new_run_id(scheduled_at)
    priority = job.definition.priority.at_most(limits.ceiling)
    return NewRun(
        tenant_id=job.tenant_id,
        run_id=run_id,
        job_id=job.job_id,
        scheduled_at=scheduled_at,
        assigned_at=assigned_at,
        kind=kind,
        task_type=job.definition.task_type,
        lane=(JobPriority.LOW if kind is RunKind.CATCHUP else priority).lane,
        job_version=job.version,
        is_hinted=assigned_at <= now + timedelta(seconds=HINT_AHEAD_S),
        trace_id=fires.trace_id(run_id, scheduled_at),
    )


def _in_new_zone(job: Job) -> datetime | None:
    """The next nominal time by new time zone data: after the last one, and not before the definition."""
    return fires.first_fire(job.definition.schedule, max(job.updated_at, job.last_fire_at or job.updated_at))
