"""Which runs and notes a job gets up to a horizon, and its next nominal time. Pure: the caller passes the time.

A nominal time is one that the schedule names. Each becomes a run, or a note that says why it did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from artiway import ids
from artiway.jobs import cron, zones
from artiway.jobs.model import FireOutcome, Job, MisfirePolicy, RunKind, Schedule, ScheduleType, slot

HORIZON_S = 90
# A run that should have started longer ago than this is late, and the misfire policy decides.
LATE_S = 60
CATCHUP_SPREAD_S = 300
MOST_CATCHUP = 100
# Nominal times of one job in one pass; after a long outage the next pass continues.
MOST_FIRES = 1_000
# Fires of a pause that a resumed job may make up for, the newest ones; older ones stay paused.
MOST_MADE_UP = 100_000
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Fire:
    scheduled_at: datetime
    assigned_at: datetime
    kind: RunKind


@dataclass(frozen=True)
class FireNote:
    """`fires` nominal times from first_at to last_at made no run."""

    outcome: FireOutcome
    first_at: datetime
    last_at: datetime
    fires: int
    reason: str


@dataclass(frozen=True)
class FirePlan:
    """`last_fire_at` is the newest nominal time that was decided, `next_fire_at` the one after it."""

    fires: Sequence[Fire]
    notes: Sequence[FireNote]
    next_fire_at: datetime | None
    last_fire_at: datetime | None


def first_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """The first nominal time strictly after `after` and within the schedule's limits."""
    if schedule.type is ScheduleType.AFTER:
        return None  # its predecessors fire
    if schedule.starts_at is not None:
        after = max(after, schedule.starts_at - _MICROSECOND)
    if schedule.type is ScheduleType.ONCE:
        assert schedule.at is not None
        found = schedule.at if schedule.at > after else None
    else:
        found = cron.parse(schedule.expr or "").next_after(after, zones.zone(schedule.timezone))
    return None if found is None or (schedule.ends_at is not None and found >= schedule.ends_at) else found


def upcoming(schedule: Schedule, after: datetime, *, limit: int) -> list[datetime]:
    """The next nominal times strictly after `after`."""
    found: list[datetime] = []
    at = first_fire(schedule, after)
    while at is not None and len(found) < limit:
        found.append(at)
        at = first_fire(schedule, at)
    return found


def undecided(job: Job, now: datetime) -> list[datetime]:
    """The nominal times up to now that are neither a run nor a note yet."""
    return [] if job.next_fire_at is None else _nominal(job.definition.schedule, job.next_fire_at, now)[0]


def new_run_id(scheduled_at: datetime) -> UUID:
    """A version 7 UUID with the scheduled time in it, so that a search by id needs the partitions of few days."""
    unix_ms = int(scheduled_at.timestamp() * 1_000) & (1 << 48) - 1
    return UUID(int=unix_ms << 80 | ids.new_id().int & (1 << 80) - 1)


def trace_id(run_id: UUID, scheduled_at: datetime) -> str:
    return f"1-{int(scheduled_at.timestamp()):08x}-{run_id.hex[8:]}"


def plan(job: Job, *, now: datetime, is_active: bool, horizon_s: int = HORIZON_S) -> FirePlan:
    """`is_active`: the tenant is. The job's own status is the caller's concern."""
    if job.next_fire_at is None:
        return FirePlan((), (), None, job.last_fire_at)
    # What a suspended tenant misses is noted when its time comes: until then an edit can still change it.
    until = now + timedelta(seconds=horizon_s if is_active else 0)
    times, following = _nominal(job.definition.schedule, job.next_fire_at, until)
    if not times:
        return FirePlan((), (), job.next_fire_at, job.last_fire_at)
    late = [at for at in times if _assigned(job, at) < now - timedelta(seconds=LATE_S)]
    if len(times) == MOST_FIRES and len(late) > MOST_CATCHUP:
        # More late times may follow, so the newest ones wait for the pass that sees the end.
        times, following = late[:-MOST_CATCHUP], late[-MOST_CATCHUP]
        late, is_cut = times, True
    else:
        is_cut = False
    last_fire_at = max(times[-1], job.last_fire_at or times[-1])
    if not is_active:
        return FirePlan(
            (), _note(FireOutcome.TENANT_SUSPENDED, times, "the tenant was suspended"), following, last_fire_at
        )
    caught_up, notes = _catch_up(job, late, now, is_cut=is_cut)
    on_time = [Fire(at, _assigned(job, at), RunKind.SCHEDULED) for at in times[len(late) :]]
    return FirePlan([*caught_up, *on_time], notes, following, last_fire_at)


def made_up(
    job: Job, *, since: datetime, until: datetime, now: datetime, is_all: bool
) -> tuple[list[Fire], list[FireNote]]:
    """Runs for the fires with since < time <= until, newest first in doubt, and a note for the others."""
    schedule = job.definition.schedule
    if schedule.expr is not None:
        period_s = min(86_400, cron.parse(schedule.expr).shortest_period_s())
        since = max(since, until - timedelta(seconds=MOST_MADE_UP * period_s))
    first = first_fire(schedule, since)
    times: list[datetime] = []
    while first is not None and first <= until:
        found, first = _nominal(schedule, first, until)
        times += found
    made = times[-(MOST_CATCHUP if is_all else 1) :]
    reason = "more than 100 fires were paused" if is_all else "paused; one later run stands for all"
    return _spread(job, made, now), _note(FireOutcome.COALESCED, times[: len(times) - len(made)], reason)


def _nominal(schedule: Schedule, first: datetime, until: datetime) -> tuple[list[datetime], datetime | None]:
    """The nominal times from `first` to `until`, and the one after them."""
    if first > until:
        return [], first
    if schedule.type is ScheduleType.ONCE:
        return [first], None
    if schedule.ends_at is not None:
        until = min(until, schedule.ends_at - _MICROSECOND)
    later = cron.parse(schedule.expr or "").between(first, until, zones.zone(schedule.timezone), MOST_FIRES - 1)
    times = [first, *later]
    return times, first_fire(schedule, times[-1])


def _assigned(job: Job, at: datetime) -> datetime:
    """With the job's slot of jitter, in whole seconds: runs of one second travel together."""
    return at + timedelta(seconds=slot(job.job_id, job.definition.schedule.jitter_s) // _SECOND)


def _catch_up(
    job: Job, late: Sequence[datetime], now: datetime, *, is_cut: bool
) -> tuple[list[Fire], Sequence[FireNote]]:
    """`is_cut`: newer late times are left to the next pass, so none of these is the newest."""
    window_s, policy = job.definition.catchup_window_s, job.definition.misfire_policy
    oldest = now - timedelta(seconds=window_s)
    too_old = [at for at in late if at < oldest]
    within = late[len(too_old) :]
    notes = list(_note(FireOutcome.MISFIRED, too_old, f"older than the catch-up window of {window_s} s"))
    if policy is MisfirePolicy.SKIP:
        return [], [*notes, *_note(FireOutcome.MISFIRED, within, "missed, and the misfire policy is SKIP")]
    most = 0 if is_cut else 1 if policy is MisfirePolicy.FIRE_ONCE else MOST_CATCHUP
    made = within[len(within) - min(most, len(within)) :]
    dropped = within[: len(within) - len(made)]
    reason = (
        "missed; one later run stands for all" if policy is MisfirePolicy.FIRE_ONCE else "more than 100 were missed"
    )
    return _spread(job, made, now), [*notes, *_note(FireOutcome.COALESCED, dropped, reason)]


def _spread(job: Job, times: Sequence[datetime], now: datetime) -> list[Fire]:
    """In order, over at most five minutes, each job in a slot of its own: an outage must not end in a storm."""
    if not times:
        return []
    window_s = min(job.definition.catchup_window_s, CATCHUP_SPREAD_S)
    step = timedelta(seconds=window_s) / len(times)
    offset = slot(job.job_id, window_s) / len(times)
    return [Fire(at, _whole(now + offset + step * place), RunKind.CATCHUP) for place, at in enumerate(times)]


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0) + (_SECOND if at.microsecond else timedelta(0))


def _note(outcome: FireOutcome, times: Sequence[datetime], reason: str) -> list[FireNote]:
    return [FireNote(outcome, times[0], times[-1], len(times), reason)] if times else []
