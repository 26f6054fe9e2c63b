"""What became of each nominal fire of a job, with the reason: a run, a note, a pause, a change of the clock. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from uuid import UUID

from artiway import ids
from artiway.jobs import cron, zones
from artiway.jobs.fires import FireNote
from artiway.jobs.model import FireOutcome, Job, Run, RunKind, RunState, Schedule, ScheduleType
from artiway.jobs.offsets import offsets

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
_NOMINAL = frozenset({RunKind.SCHEDULED, RunKind.CATCHUP, RunKind.BACKFILL})


class FireStatus(StrEnum):
    """UNACCOUNTED must not occur: it would be a fire that was lost."""

    RUN = "RUN"
    PUT_OFF = "PUT_OFF"
    UPCOMING = "UPCOMING"
    PAUSED = FireOutcome.PAUSED
    PREDECESSOR_FAILED = FireOutcome.PREDECESSOR_FAILED
    DST_SKIPPED = "DST_SKIPPED"
    BEFORE_CREATION = "BEFORE_CREATION"
    SKIPPED_OVERLAP = FireOutcome.SKIPPED_OVERLAP
    MISFIRED = FireOutcome.MISFIRED
    COALESCED = FireOutcome.COALESCED
    TENANT_SUSPENDED = FireOutcome.TENANT_SUSPENDED
    CANCELLED_BY_EDIT = FireOutcome.CANCELLED_BY_EDIT
    UNACCOUNTED = "UNACCOUNTED"


@dataclass(frozen=True)
class Change:
    """A row of the job's history: the schedule that was in force from then on."""

    action: str
    at: datetime
    actor_id: UUID | None
    note: str | None
    schedule: Schedule


@dataclass(frozen=True)
class Segment:
    """Fires with since < time <= until follow this schedule. `pause` is the change that paused the job."""

    since: datetime
    until: datetime
    schedule: Schedule
    pause: Change | None = None
    is_before_creation: bool = False


@dataclass(frozen=True)
class ReportedFire:
    scheduled_at: datetime
    status: FireStatus
    reason: str
    run: Run | None = None


def segments(job: Job, changes: Sequence[Change]) -> list[Segment]:
    """The schedules of a job one after the other, the first one also for the time before the job existed."""
    known = list(changes)
    if not known or known[0].action != "created":  # older changes have left the history
        first = known[0].schedule if known else job.definition.schedule
        known = [Change("created", job.created_at, job.user_id, None, first), *known]
    found = [Segment(_EPOCH, known[0].at, known[0].schedule, is_before_creation=True)]
    pause: Change | None = None
    for change, following in pairwise([*known, None]):
        assert change is not None
        if change.action in {"deleted", "completed"}:
            continue
        if change.action != "updated":
            pause = change if change.action == "paused" else None
        until = _FOREVER if following is None else following.at
        found.append(Segment(change.at, until, change.schedule, pause))
    return found


def nominal(parts: Sequence[Segment], since: datetime, until: datetime, *, limit: int) -> list[datetime]:
    """The nominal times with since <= time < until, oldest first, at most `limit`."""
    found: list[datetime] = []
    for part in parts:
        after, last = max(part.since, since - _MICROSECOND), min(part.until, until - _MICROSECOND)
        if after < last and len(found) < limit:
            found += times_between(part.schedule, after, last, limit=limit - len(found))
    return found


def times_between(schedule: Schedule, after: datetime, until: datetime, *, limit: int) -> list[datetime]:
    """The nominal times with after < time <= until that lie within the schedule's own limits."""
    if schedule.starts_at is not None:
        after = max(after, schedule.starts_at - _MICROSECOND)
    if schedule.ends_at is not None:
        until = min(until, schedule.ends_at - _MICROSECOND)
    if schedule.type is ScheduleType.CRON:
        return cron.parse(schedule.expr or "").between(after, until, zones.zone(schedule.timezone), limit)
    return [schedule.at] if schedule.at is not None and after < schedule.at <= until else []


def report(
    job: Job,
    parts: Sequence[Segment],
    runs: Sequence[Run],
    notes: Sequence[FireNote],
    *,
    since: datetime,
    until: datetime,
    now: datetime,
    limit: int,
) -> list[ReportedFire]:
    """The fires with since <= time < until, oldest first. `runs` and `notes` are those of the range.

    A run whose time no schedule names, since the time zone data changed, is reported too.
    """
    by_time = {run.scheduled_at: run for run in runs if run.kind in _NOMINAL}
    times = nominal(parts, since, until, limit=limit)
    if len(times) == limit:
        until = times[-1] + _MICROSECOND
    known = {*times, *(at for at in by_time if since <= at < until)}
    if any(part.schedule.type is ScheduleType.AFTER for part in parts):
        # The predecessors fire, so runs and notes are all there is.
        known |= {note.first_at for note in notes if note.fires == 1 and since <= note.first_at < until}
    explain = _Explanation(job, parts, by_time, _Notes(notes), now)
    skipped = [one for one in _skipped_by_clock(parts, since, until) if one.scheduled_at not in known]
    found = [*skipped, *(explain.fire(at) for at in known)]
    return sorted(found, key=lambda one: one.scheduled_at)[:limit]


class _Notes:
    """Finds the note of a time. Notes of one fire are many, those of several fires are few."""

    def __init__(self, notes: Sequence[FireNote]) -> None:
        self._single: Mapping[datetime, FireNote] = {note.first_at: note for note in notes if note.fires == 1}
        self._ranges = [note for note in notes if note.fires > 1]

    def of(self, at: datetime) -> FireNote | None:
        within = (note for note in self._ranges if note.first_at <= at <= note.last_at)
        return self._single.get(at) or min(within, key=lambda note: note.last_at - note.first_at, default=None)


@dataclass(frozen=True)
class _Explanation:
    job: Job
    parts: Sequence[Segment]
    runs: Mapping[datetime, Run]
    notes: _Notes
    now: datetime

    def fire(self, at: datetime) -> ReportedFire:
        part = self.parts[max(0, bisect_right([one.since for one in self.parts], at - _MICROSECOND) - 1)]
        clock = _clock_reason(part.schedule, at)
        status, reason = self._outcome(at, part)
        return ReportedFire(at, status, f"{reason}; {clock}" if clock else reason, self.runs.get(at))

    def _outcome(self, at: datetime, part: Segment) -> tuple[FireStatus, str]:
        if (run := self.runs.get(at)) is not None:
            return _of_run(run)
        if (note := self.notes.of(at)) is not None:
            return FireStatus(note.outcome), note.reason
        if part.pause is not None:
            return FireStatus.PAUSED, _paused(part.pause)
        if part.is_before_creation:
            return FireStatus.BEFORE_CREATION, "the job did not exist yet"
        if at > self.now:
            return FireStatus.UPCOMING, "its time has not come"
        if self.job.next_fire_at is not None and at >= self.job.next_fire_at:
            return FireStatus.UPCOMING, "the trigger has not reached it yet"
        return FireStatus.UNACCOUNTED, "neither a run nor a reason is stored"


def _of_run(run: Run) -> tuple[FireStatus, str]:
    kind = {RunKind.CATCHUP: "caught up", RunKind.BACKFILL: "backfilled"}.get(run.kind, "run")
    if run.state is RunState.PENDING and run.defer_reason is not None:
        return FireStatus.PUT_OFF, f"{kind}, waits: {run.defer_reason}"
    error = f": {run.last_error}" if run.last_error and run.state is not RunState.SUCCESS else ""
    return FireStatus.RUN, f"{kind}, {run.state.lower()}{error}"


def _paused(change: Change) -> str:
    who = "by the platform" if change.actor_id is None else f"by {ids.to_wire('usr', change.actor_id)}"
    return f"paused {who}: {change.note}" if change.note else f"paused {who}"


# Changes of the clock


def _clock_reason(schedule: Schedule, at: datetime) -> str | None:
    """Why a fixed hour fires at another local time than it names, or not a second time."""
    if schedule.type is not ScheduleType.CRON:
        return None
    expression = cron.parse(schedule.expr or "")
    if expression.goes_by_elapsed_time:
        return None
    table, second = offsets(zones.zone(schedule.timezone)), int((at - _EPOCH).total_seconds())
    segment = table.at(second)
    if segment.offset > segment.before and second == segment.start:
        local = expression.first_local(segment.start + segment.before, segment.start + segment.offset)
        return None if local is None else f"the clock skips {_clock(local)}, so it fires at the end of the gap"
    following = table.at(segment.end)
    if following.offset < segment.offset and second + segment.offset >= segment.end + following.offset:
        return f"the clock shows {_clock(second + segment.offset)} twice, so it fires the first time"
    return None


def _skipped_by_clock(parts: Sequence[Segment], since: datetime, until: datetime) -> list[ReportedFire]:
    """Hours of `*/n` that a day does not have."""
    found = []
    for part in parts:
        if part.schedule.type is not ScheduleType.CRON or part.is_before_creation:
            continue
        expression = cron.parse(part.schedule.expr or "")
        if not expression.goes_by_elapsed_time or expression.is_every_hour:
            continue
        table = offsets(zones.zone(part.schedule.timezone))
        first = int((max(since, part.since) - _EPOCH).total_seconds())
        last = int((min(until, part.until) - _EPOCH).total_seconds())
        segment = table.at(first)
        while segment.start < last:
            gap = (segment.start + segment.before, segment.start + segment.offset)
            local = expression.first_local(*gap) if segment.start > first else None
            if local is not None:
                at = _EPOCH + timedelta(seconds=segment.start)
                found.append(ReportedFire(at, FireStatus.DST_SKIPPED, f"this day has no {_clock(local)}"))
            segment = table.at(segment.end)
    return found


def _clock(local_s: int) -> str:
    return f"{_EPOCH + timedelta(seconds=local_s):%H:%M}"
