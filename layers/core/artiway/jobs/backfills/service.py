"""Backfills: accepts a range of past times, makes its runs due a few at a time, shows and stops it.

Live runs are never starved: runs of backfills use at most half of the tenant's places, half of its rate and half of the
callers' capacity, in the low lane, and count neither for the overlap policy nor for the limit of their job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.jobs import messages
from artiway.jobs.backfills.model import (
    Backfill,
    BackfillStatus,
    KnownRun,
    NoSuchBackfill,
    Progress,
    Range,
    RunningBackfill,
)
from artiway.jobs.guard.model import DispatchBacklog
from artiway.jobs.history.reports import times_between
from artiway.jobs.limits import limits_of
from artiway.jobs.model import InvalidJob, Job, JobConflict, JobLimits, JobStatus, NoSuchJob, Run, ScheduleType
from artiway.jobs.runs import DueRun
from artiway.jobs.settings import BACKFILL_RUNS, CAPACITY
from artiway.outbox.model import Message
from artiway.platform.logs import Logger
from artiway.settings.model import SettingValues

logger = Logger("jobs")
# Partitions exist for so many days.
OLDEST = timedelta(days=399)
BACKFILLS = 100
CANCELLED = "the backfill was cancelled"
_MICROSECOND = timedelta(microseconds=1)


class BackfillTransaction(Protocol):
    @property
    def tx(self) -> Any: ...
    def now(self) -> datetime: ...
    def shed_lanes(self) -> Collection[str]: ...
    def job(self, job_id: UUID) -> Job | None: ...
    def known_runs(self, job_id: UUID, since: datetime, until: datetime) -> list[KnownRun]: ...
    def add(self, backfill: Backfill) -> None: ...
    def park(self, backfill: Backfill, job: Job, times: Sequence[datetime]) -> None: ...
    def park_again(self, backfill: Backfill, times: Sequence[datetime]) -> None: ...
    def backfill(self, backfill_id: UUID, *, is_locked: bool = False) -> Backfill | None: ...
    def backfills(self, *, job_id: UUID | None, before: UUID | None, limit: int) -> list[Backfill]: ...
    def progress(self, backfill: Backfill | RunningBackfill) -> Progress: ...
    def remove_parked(self, backfill: Backfill | RunningBackfill, now: datetime, *, reason: str) -> None: ...
    def waiting_runs(self, backfill: Backfill) -> list[UUID]: ...
    def end(
        self, backfill: Backfill | RunningBackfill, status: BackfillStatus, progress: Progress, now: datetime
    ) -> None: ...
    def audit(self, actor_id: UUID, action: str, target: str, details: Mapping[str, Any]) -> None: ...


class BackfillStore(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[BackfillTransaction]: ...


class Control(Protocol):
    def terminate(self, tx: Any, run_ids: Sequence[UUID], *, reason: str) -> set[UUID]: ...


class ColdRuns(Protocol):
    def runs_of_job(self, tenant_id: UUID, job_id: UUID, since: datetime, until: datetime) -> Sequence[Run]:
        """The runs that have left PostgreSQL."""


class BackfillService:
    """What tenants ask for."""

    def __init__(self, store: BackfillStore, control: Control, cold: ColdRuns, values: SettingValues) -> None:
        self._store, self._control, self._cold, self._values = store, control, cold, values

    def start(
        self, tenant_id: UUID, job_id: UUID, wanted: Range, *, actor_id: UUID, is_dry_run: bool
    ) -> tuple[UUID | None, int]:
        """Returns the backfill and how many runs it has. A fire that has a run is accepted only to start it again."""
        with self._store.open(tenant_id) as tx:
            job, now = tx.job(job_id), tx.now()
            if job is None:
                raise NoSuchJob
            if "run_low" in tx.shed_lanes() and not is_dry_run:
                raise DispatchBacklog("run_low")
            times = self._times(job, wanted, now)
            known = {run.scheduled_at: run for run in tx.known_runs(job_id, wanted.since, wanted.until)}
            archived = {
                run.scheduled_at for run in self._cold.runs_of_job(tenant_id, job_id, wanted.since, wanted.until)
            }
            new = [at for at in times if at not in known and at not in archived]
            again = [
                run.scheduled_at
                for run in known.values()
                if run.state in wanted.reprocess.states and not run.is_of_running_backfill
            ]
            total = len(new) + len(again)
            if is_dry_run:
                return None, total
            backfill = Backfill(
                tenant_id=tenant_id,
                backfill_id=ids.new_id(),
                job_id=job_id,
                actor_id=actor_id,
                since=wanted.since,
                until=wanted.until,
                parallelism=wanted.parallelism,
                reprocess=wanted.reprocess,
                status=BackfillStatus.RUNNING if total else BackfillStatus.COMPLETED,
                total=total,
                done=0,
                failed=0,
                created_at=now,
                ended_at=None if total else now,
            )
            tx.add(backfill)
            tx.park(backfill, job, new)
            tx.park_again(backfill, again)
            details = {"backfillId": _wire(backfill), "from": wanted.since.isoformat(), "to": wanted.until.isoformat()}
            tx.audit(actor_id, "job.backfill", ids.to_wire("job", job_id), {**details, "runs": total})
        logger.info("backfill accepted", backfill_id=str(backfill.backfill_id), runs=total)
        return backfill.backfill_id, total

    def backfill(self, tenant_id: UUID, backfill_id: UUID) -> Backfill:
        with self._store.open(tenant_id) as tx:
            return _counted(tx, tx.backfill(backfill_id))

    def backfills(self, tenant_id: UUID, *, job_id: UUID | None, before: UUID | None, limit: int) -> list[Backfill]:
        """Newest first."""
        with self._store.open(tenant_id) as tx:
            return [_counted(tx, one) for one in tx.backfills(job_id=job_id, before=before, limit=limit)]

    def cancel(self, tenant_id: UUID, backfill_id: UUID, *, actor_id: UUID) -> Backfill:
        """Runs that have not begun leave; a run that is under way ends as usual. An ended backfill is a conflict."""
        with self._store.open(tenant_id) as tx:
            backfill = tx.backfill(backfill_id, is_locked=True)
            if backfill is None:
                raise NoSuchBackfill
            if backfill.status is not BackfillStatus.RUNNING:
                raise JobConflict("the backfill has ended", status=backfill.status)
            now = tx.now()
            tx.remove_parked(backfill, now, reason=CANCELLED)
            self._control.terminate(tx.tx, tx.waiting_runs(backfill), reason=CANCELLED)
            tx.end(backfill, BackfillStatus.CANCELLED, tx.progress(backfill), now)
            tx.audit(actor_id, "backfill.cancel", _wire(backfill), {})
            return _counted(tx, tx.backfill(backfill_id))

    def _times(self, job: Job, wanted: Range, now: datetime) -> list[datetime]:
        """The nominal times by the present schedule, oldest first."""
        if job.definition.schedule.type is ScheduleType.AFTER:
            raise InvalidJob("schedule.type", "the job follows its predecessors; backfill those")
        if wanted.since >= wanted.until:
            raise InvalidJob("to", "is not after from")
        if wanted.until > now:
            raise InvalidJob("to", "is in the future; later fires come by the schedule")
        if wanted.since < now - OLDEST:
            raise InvalidJob("from", f"is more than {OLDEST.days} days ago")
        limit = self._values.get(BACKFILL_RUNS)
        times = times_between(
            job.definition.schedule, wanted.since - _MICROSECOND, wanted.until - _MICROSECOND, limit=limit + 1
        )
        if len(times) > limit:
            raise InvalidJob("to", f"the range has more than {limit} fires; take a shorter one")
        return times


class ReleaseTransaction(Protocol):
    def use_indexes(self) -> datetime: ...
    def send(self, messages: Iterable[Message]) -> None: ...
    def policies(self, tenant_ids: Iterable[UUID]) -> Sequence[Mapping[str, Any]]: ...
    def running_backfills(self, now: datetime, *, limit: int) -> list[RunningBackfill]: ...
    def progress(self, backfill: Backfill | RunningBackfill) -> Progress: ...
    def release(self, backfill: RunningBackfill, now: datetime, *, limit: int) -> list[DueRun]: ...
    def remove_parked(self, backfill: Backfill | RunningBackfill, now: datetime, *, reason: str) -> None: ...
    def end(
        self, backfill: Backfill | RunningBackfill, status: BackfillStatus, progress: Progress, now: datetime
    ) -> None: ...


class ReleaseStore(Protocol):
    def open(self) -> AbstractContextManager[ReleaseTransaction]: ...


class BackfillRelease:
    """Makes parked runs due, of all tenants. Safe to repeat and to run twice: a row lock guards each backfill."""

    def __init__(self, store: ReleaseStore, values: SettingValues, *, wake: Callable[[], object]) -> None:
        """`wake` starts deferred runs for which there is room."""
        self._store, self._values, self._wake = store, values, wake

    def release_and_wake(self) -> None:
        self.release()
        self._wake()

    def release(self) -> int:
        """Returns how many runs became due. Ends the backfills whose runs have all ended."""
        with self._store.open() as tx:
            now = tx.use_indexes()
            running = tx.running_backfills(now, limit=BACKFILLS)
            if not running:
                return 0
            progress = {one.backfill_id: tx.progress(one) for one in running}
            room = _Room(
                {
                    row["tenant_id"]: limits_of(row, self._values)
                    for row in tx.policies({one.tenant_id for one in running})
                },
                capacity=self._values.get(CAPACITY) // 2,
                minute=min(1.0, (now.second + 1) / 60),
            )
            for one in running:
                room.use(one.tenant_id, progress[one.backfill_id].active, one.released)
            due: list[DueRun] = []
            for one in running:
                due += self._advance(tx, one, progress[one.backfill_id], room, now)
            tx.send(messages.hints(due))
        return len(due)

    @staticmethod
    def _advance(
        tx: ReleaseTransaction, one: RunningBackfill, progress: Progress, room: _Room, now: datetime
    ) -> list[DueRun]:
        if one.job_status is JobStatus.DELETED:
            tx.remove_parked(one, now, reason="the job was deleted")
            tx.end(one, BackfillStatus.CANCELLED, tx.progress(one), now)
            return []
        if progress.parked == progress.active == 0:
            tx.end(one, BackfillStatus.COMPLETED, progress, now)
            return []
        count = min(progress.parked, one.parallelism - progress.active, room.of(one.tenant_id, burst=one.parallelism))
        if count <= 0:
            return []
        found = tx.release(one, now, limit=count)
        room.use(one.tenant_id, len(found), len(found))
        return found


class _Room:
    """Half of what a tenant and the platform have. A tenant that may run anything gets one place at least.

    The runs of a minute are spread over it, after a first burst: otherwise live runs would meet all of them at once.
    """

    def __init__(self, limits: Mapping[UUID, JobLimits], *, capacity: int, minute: float) -> None:
        """`minute` is the part of the present minute that is over."""
        self._limits, self._capacity, self._minute = limits, capacity, minute
        self._active: dict[UUID, int] = defaultdict(int)
        self._released: dict[UUID, int] = defaultdict(int)

    def use(self, tenant_id: UUID, active: int, released: int) -> None:
        self._active[tenant_id] += active
        self._released[tenant_id] += released
        self._capacity -= active

    def of(self, tenant_id: UUID, *, burst: int) -> int:
        limits = self._limits[tenant_id]
        if not limits.is_active:
            return 0
        places = _half(limits.runs_at_once) - self._active[tenant_id]
        most = _half(limits.runs_per_minute)
        rate = min(most, burst + int(most * self._minute)) - self._released[tenant_id]
        return min(places, rate, self._capacity)


def _half(limit: int) -> int:
    return max(min(limit, 1), limit // 2)


def _counted(tx: BackfillTransaction, backfill: Backfill | None) -> Backfill:
    if backfill is None:
        raise NoSuchBackfill
    if backfill.status is not BackfillStatus.RUNNING:
        return backfill
    progress = tx.progress(backfill)
    return replace(backfill, done=progress.done, failed=progress.failed)


def _wire(backfill: Backfill) -> str:
    return ids.to_wire("bkf", backfill.backfill_id)
