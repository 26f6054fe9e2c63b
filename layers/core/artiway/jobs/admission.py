"""Decides which due runs start now, wait, move to a later minute, are skipped or replace others. Pure.

A run passes its job (overlap policy, concurrency limit), its tenant's rate, then it needs a place: of the tenant's runs
at once, of its lane, and for HTTP runs of the callers' capacity. Free places are shared by weighted max-min: the next
one goes to the lane, and inside it to the tenant, that uses the least for its weight. Where tenants outnumber places
they take turns, by weight.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from artiway.jobs.model import DeferReason, JobLimits, OverlapPolicy, RunKind, RunState, TaskType

LANE_WEIGHTS = {"run_critical": 8, "run_high": 4, "run_normal": 2, "run_low": 1}
BY_JOB = frozenset({DeferReason.OVERLAP, DeferReason.JOB_CONCURRENCY})
_MINUTE = timedelta(minutes=1)
_Turn = tuple[float, float, int]
_SKIPPABLE = frozenset({RunKind.SCHEDULED, RunKind.CATCHUP})


class Track(NamedTuple):
    """Runs that are counted together: of a tenant, in a lane, calls or tasks."""

    tenant_id: UUID
    lane: str
    is_call: bool


class JobKey(NamedTuple):
    tenant_id: UUID
    job_id: UUID


@dataclass(frozen=True)
class WaitingRun:
    """A run that may start: due, PENDING or RETRYING."""

    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    due_at: datetime
    lane: str
    task_type: TaskType
    state: RunState
    kind: RunKind
    generation: int
    attempt: int
    is_deferred: bool
    defer_reason: str | None
    overlap_policy: OverlapPolicy
    concurrency_limit: int
    timeout_s: int

    @property
    def track(self) -> Track:
        return Track(self.tenant_id, self.lane, self.task_type is TaskType.HTTP)

    @property
    def job(self) -> JobKey:
        return JobKey(self.tenant_id, self.job_id)

    @property
    def order(self) -> tuple[datetime, datetime, UUID]:
        return (self.due_at, self.scheduled_at, self.run_id)

    @property
    def is_blocked(self) -> bool:
        return self.is_deferred and self.defer_reason in BY_JOB

    @property
    def may_be_skipped(self) -> bool:
        """A run that a user asked for, or that has begun, waits instead."""
        return self.is_new and not self.is_deferred and self.kind in _SKIPPABLE

    @property
    def is_backfill(self) -> bool:
        return self.kind is RunKind.BACKFILL

    @property
    def is_new(self) -> bool:
        return self.state is RunState.PENDING and self.attempt == 0 and self.generation == 1


@dataclass(frozen=True)
class OtherRun:
    """A run of a job that CANCEL_OTHER replaces: active or deferred."""

    tenant_id: UUID
    run_id: UUID
    job_id: UUID
    scheduled_at: datetime
    lane: str
    task_type: TaskType
    state: RunState
    generation: int
    attempt: int
    is_deferred: bool
    defer_reason: str | None
    task_id: UUID | None

    @property
    def track(self) -> Track:
        return Track(self.tenant_id, self.lane, self.task_type is TaskType.HTTP)

    @property
    def job(self) -> JobKey:
        return JobKey(self.tenant_id, self.job_id)


@dataclass
class Load:
    running: int = 0
    deferred: int = 0
    blocked: int = 0


@dataclass
class JobLoad:
    running: int = 0
    retrying: int = 0
    waiting: int = 0  # deferred for any reason


@dataclass(frozen=True)
class LaneRule:
    is_paused: bool = False
    parallelism: int | None = None


@dataclass
class Minute:
    """What a tenant started in the present minute. `slot_at` is the time of the next run over the rate."""

    started: int = 0
    put_off: int = 0
    slot_at: datetime | None = None


@dataclass
class Decisions:
    starts: list[WaitingRun] = field(default_factory=list)
    deferrals: list[tuple[WaitingRun, DeferReason]] = field(default_factory=list)
    put_off: list[tuple[WaitingRun, datetime]] = field(default_factory=list)
    skips: list[WaitingRun] = field(default_factory=list)
    terminations: list[OtherRun] = field(default_factory=list)
    changes: dict[Track, Load] = field(default_factory=lambda: defaultdict(Load))
    minutes: dict[UUID, Minute] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    limits: Mapping[UUID, JobLimits]
    lanes: Mapping[str, LaneRule]
    capacity: int


class Admission:
    """One admission. `offer` takes runs, `wanted` says how many deferred ones to read, `decide` ends it."""

    def __init__(
        self,
        now: datetime,
        rules: Rules,
        loads: Mapping[Track, Load],
        minutes: Mapping[UUID, Minute],
        jobs: Mapping[JobKey, JobLoad],
        others: Sequence[OtherRun] = (),
    ) -> None:
        self._now, self._rules, self._minutes = now, rules, dict(minutes)
        self._loads = {track: replace(load) for track, load in loads.items()}
        self._jobs = {key: JobLoad(job.running, job.retrying, job.waiting) for key, job in jobs.items()}
        self._others: dict[JobKey, list[OtherRun]] = defaultdict(list)
        for other in others:
            self._others[other.job].append(other)
        self._passed: dict[Track, list[WaitingRun]] = defaultdict(list)
        self._gone: set[UUID] = set()
        self._running: dict[UUID, int] = defaultdict(int)
        self._running_in_lane: dict[str, int] = defaultdict(int)
        self._calls = 0
        for track, load in self._loads.items():
            self._count(track, load.running)
        self.decisions = Decisions()

    def add_jobs(self, jobs: Mapping[JobKey, JobLoad], others: Sequence[OtherRun]) -> None:
        """The loads of further jobs, those of deferred runs."""
        for key, job in jobs.items():
            if key not in self._jobs:
                self._jobs[key] = JobLoad(job.running, job.retrying, job.waiting)
                self._others[key] = [other for other in others if other.job == key]

    def offer(self, runs: Iterable[WaitingRun]) -> None:
        """Named runs that are due, and runs whose job has a free place."""
        for run in self._without_superseded(sorted(runs, key=lambda run: run.order)):
            if not self._passes_job(run):
                continue
            if self._is_over_rate(run):
                self._leave_job(run)
                self._put_off(run)
                continue
            self._minute(run.tenant_id).started += 1
            self._passed[run.track].append(run)

    def wanted(self) -> dict[Track, int]:
        """How many deferred runs of each track could start now, by fairness."""
        self._grants = self._share()
        found = {track: min(count, self._load(track).deferred) for track, count in self._grants.items()}
        return {track: count for track, count in found.items() if count}

    def decide(self, deferred: Sequence[WaitingRun]) -> Decisions:
        """`deferred` are the oldest runs of each wanted track."""
        pool: dict[Track, list[WaitingRun]] = defaultdict(list)
        for run in deferred:
            if run.run_id not in self._gone:
                pool[run.track].append(run)
        for track in sorted({*self._passed, *pool}):
            places = self._grants.get(track, 0)
            passed = {run.run_id for run in self._passed[track]}
            for run in sorted([*pool[track], *self._passed[track]], key=lambda run: run.order):
                if run.run_id in self._gone:
                    continue  # a newer run of its job replaced it
                if run.run_id in passed:
                    if places > 0:
                        places -= 1
                        self._start(run)
                    else:
                        self._minute(run.tenant_id).started -= 1
                        self._leave_job(run)
                        self._defer(run, self._lack(track))
                elif places > 0 and self._passes_job(run):
                    if self._is_over_rate(run):
                        self._leave_job(run)
                        self._put_off(run)
                        continue
                    places -= 1
                    self._minute(run.tenant_id).started += 1
                    self._start(run)
        return self.decisions

    # The job

    def _without_superseded(self, runs: Sequence[WaitingRun]) -> list[WaitingRun]:
        """Of CANCEL_OTHER only the newest run of a job is offered."""
        newest: dict[JobKey, WaitingRun] = {}
        for run in runs:
            if run.overlap_policy is OverlapPolicy.CANCEL_OTHER and run.may_be_skipped:
                best = newest.get(run.job)
                newest[run.job] = run if best is None or run.scheduled_at > best.scheduled_at else best
        kept = []
        for run in runs:
            if run.may_be_skipped and newest.get(run.job, run).run_id != run.run_id:
                self._skip(run)
            else:
                kept.append(run)
        return kept

    def _passes_job(self, run: WaitingRun) -> bool:
        """Count the run as running if its job lets it run now; else block or skip it."""
        job = self._job(run)
        if run.overlap_policy is OverlapPolicy.ALLOW_ALL:
            if job.running >= run.concurrency_limit:
                self._block(run, DeferReason.JOB_CONCURRENCY)
                return False
            self._enter_job(run)
            return True
        is_retry = run.state is RunState.RETRYING
        is_replacing = run.overlap_policy is OverlapPolicy.CANCEL_OTHER and not is_retry and not run.is_backfill
        if is_replacing and self._lack(run.track, is_alone=True) is None:
            self._replace_others(run)
        active = job.running + job.retrying - is_retry
        waiting = job.waiting - run.is_deferred
        if job.running == 0 if is_retry else active == 0 and (waiting == 0 or run.is_deferred):
            self._enter_job(run)
            return True
        is_skipped = run.overlap_policy is OverlapPolicy.SKIP or (
            run.overlap_policy is OverlapPolicy.BUFFER_ONE and waiting > 0
        )
        if is_skipped and run.may_be_skipped:
            self._skip(run)
        else:
            self._block(run, DeferReason.OVERLAP)
        return False

    def _job(self, run: WaitingRun) -> JobLoad:
        """A backfill has a parallelism of its own: its runs and those of the schedule do not wait for each other."""
        return JobLoad() if run.is_backfill else self._jobs.setdefault(run.job, JobLoad())

    def _enter_job(self, run: WaitingRun) -> None:
        job = self._job(run)
        job.running += 1
        job.retrying -= run.state is RunState.RETRYING
        job.waiting -= run.is_deferred

    def _leave_job(self, run: WaitingRun) -> None:
        job = self._job(run)
        job.running -= 1
        job.retrying += run.state is RunState.RETRYING
        job.waiting += run.is_deferred

    def _replace_others(self, run: WaitingRun) -> None:
        """The newest run of CANCEL_OTHER ends those that are active and those that wait."""
        job = self._jobs[run.job]
        kept = []
        for other in self._others.pop(run.job, []):
            if other.run_id == run.run_id or other.run_id in self._gone:
                continue
            if other.scheduled_at > run.scheduled_at and other.is_deferred:
                kept.append(other)
                continue
            self._gone.add(other.run_id)
            if other.is_deferred:
                job.waiting -= 1
                self._change(other.track, **{_counter(other): -1})
            if other.state is RunState.RUNNING:
                job.running -= 1
                self._change(other.track, running=-1)
            elif other.state is RunState.RETRYING:
                job.retrying -= 1
            self.decisions.terminations.append(other)
        if kept:
            self._others[run.job] = kept

    # The rate

    def _minute(self, tenant_id: UUID) -> Minute:
        """The tenant's minute, which the admission writes back."""
        if tenant_id not in self.decisions.minutes:
            known = self._minutes.get(tenant_id, Minute())
            self.decisions.minutes[tenant_id] = Minute(known.started, known.put_off, known.slot_at)
        return self.decisions.minutes[tenant_id]

    def _is_over_rate(self, run: WaitingRun) -> bool:
        """New runs queue up behind the last slot; those that waited, for a slot or for a place, do not."""
        minute = self._minute(run.tenant_id)
        if minute.started >= self._limits(run.tenant_id).runs_per_minute:
            return True
        has_backlog = minute.slot_at is not None and minute.slot_at > self._now
        return has_backlog and run.defer_reason is None

    def _put_off(self, run: WaitingRun) -> None:
        minute = self._minute(run.tenant_id)
        next_minute = self._now.replace(second=0, microsecond=0) + _MINUTE
        at = max(minute.slot_at or next_minute, next_minute)
        minute.slot_at = at + _MINUTE / max(1, self._limits(run.tenant_id).runs_per_minute)
        minute.put_off += 1
        if run.is_deferred:
            self._change(run.track, **{_counter(run): -1})
            self._job(run).waiting -= 1
        self.decisions.put_off.append((run, at))

    # Places

    def _limits(self, tenant_id: UUID) -> JobLimits:
        return self._rules.limits[tenant_id]

    def _load(self, track: Track) -> Load:
        return self._loads.setdefault(track, Load())

    def _tenant_places(self, tenant_id: UUID) -> int:
        limits = self._limits(tenant_id)
        return (limits.runs_at_once if limits.is_active else 0) - self._running[tenant_id]

    def _lane_places(self, lane: str) -> int | None:
        rule = self._rules.lanes.get(lane, LaneRule())
        return None if rule.parallelism is None else rule.parallelism - self._running_in_lane[lane]

    def _lack(self, track: Track, *, is_alone: bool = False) -> DeferReason | None:
        """What the next run of a track lacks. `is_alone`: only what no end of another run of its job would give."""
        if self._rules.lanes.get(track.lane, LaneRule()).is_paused:
            return DeferReason.LANE_PAUSED
        if is_alone:
            limits = self._limits(track.tenant_id)
            return None if limits.is_active and limits.runs_at_once > 0 else DeferReason.TENANT_QUOTA
        if self._tenant_places(track.tenant_id) <= 0:
            return DeferReason.TENANT_QUOTA
        lane_places = self._lane_places(track.lane)
        if lane_places is not None and lane_places <= 0:
            return DeferReason.LANE_FULL
        return DeferReason.CAPACITY

    def _share(self) -> dict[Track, int]:
        """Give free places, one at a time, to the track that uses the least for its weight."""
        demand = {track: load.deferred for track, load in self._loads.items() if load.deferred > 0}
        for track, runs in self._passed.items():
            demand[track] = demand.get(track, 0) + len(runs)
        by_lane: dict[str, list[tuple[_Turn, Track]]] = defaultdict(list)
        in_lane: dict[tuple[UUID, str], int] = defaultdict(int)
        for track, load in self._loads.items():
            in_lane[track.tenant_id, track.lane] += load.running
        tenants = {track.tenant_id: self._tenant_places(track.tenant_id) for track in demand}
        lanes = {track.lane: self._lane_places(track.lane) for track in demand}
        capacity = self._rules.capacity - self._calls
        used = {lane: self._running_in_lane[lane] for lane in lanes}
        started = {tenant_id: self._minutes.get(tenant_id, Minute()).started for tenant_id in tenants}
        minute = int(self._now.timestamp()) // 60
        draw = {tenant_id: hash((tenant_id.int, minute)) for tenant_id in tenants}

        def turn(track: Track) -> _Turn:
            """A tenant without a place comes before those that have one. Among equals the one is next that started the
            least for its weight in this minute; then a draw, which changes with the minute."""
            tenant_id, weight = track.tenant_id, max(1, self._limits(track.tenant_id).weight)
            return (in_lane[tenant_id, track.lane] / weight, started[tenant_id] / weight, draw[tenant_id])

        is_lottery = self._rules.capacity < len(LANE_WEIGHTS)

        def lane_turn(lane: str) -> tuple[float, float, str]:
            """Of lanes without a run the most urgent one is next. Where not every lane can have a place, that would
            leave the last lane without any for ever, so the lanes draw lots by weight."""
            weight = LANE_WEIGHTS.get(lane, 1)
            return (used[lane] / weight, _lot(lane, self._now) / weight if is_lottery else -weight, lane)

        for track in demand:
            if not self._rules.lanes.get(track.lane, LaneRule()).is_paused:
                by_lane[track.lane].append((turn(track), track))
        for heap in by_lane.values():
            heapq.heapify(heap)
        grants: dict[Track, int] = defaultdict(int)
        while by_lane:
            lane = min(by_lane, key=lane_turn)
            heap, places = by_lane[lane], lanes[lane]
            if not heap or (places is not None and places <= 0):
                del by_lane[lane]
                continue
            known, track = heapq.heappop(heap)
            if (track.is_call and capacity <= 0) or tenants[track.tenant_id] <= 0 or demand[track] <= 0:
                continue
            if known != turn(track):
                heapq.heappush(heap, (turn(track), track))
                continue
            grants[track] += 1
            demand[track] -= 1
            tenants[track.tenant_id] -= 1
            in_lane[track.tenant_id, lane] += 1
            started[track.tenant_id] += 1
            used[lane] += 1
            capacity -= track.is_call
            if places is not None:
                lanes[lane] = places - 1
            heapq.heappush(heap, (turn(track), track))
        return grants

    # Effects

    def _count(self, track: Track, running: int) -> None:
        self._running[track.tenant_id] += running
        self._running_in_lane[track.lane] += running
        self._calls += running if track.is_call else 0

    def _change(self, track: Track, *, running: int = 0, deferred: int = 0, blocked: int = 0) -> None:
        load, change = self._load(track), self.decisions.changes[track]
        for name, count in (("running", running), ("deferred", deferred), ("blocked", blocked)):
            setattr(load, name, getattr(load, name) + count)
            setattr(change, name, getattr(change, name) + count)
        self._count(track, running)

    def _start(self, run: WaitingRun) -> None:
        if run.is_deferred:
            self._change(run.track, **{_counter(run): -1})
        self._change(run.track, running=1)
        self.decisions.starts.append(run)

    def _defer(self, run: WaitingRun, reason: DeferReason | None) -> None:
        """The run passed its job and waits for a place."""
        assert reason is not None
        if not run.is_deferred or run.is_blocked:
            if run.is_blocked:
                self._change(run.track, blocked=-1)
            else:
                self._job(run).waiting += 1
            self._change(run.track, deferred=1)
        self.decisions.deferrals.append((run, reason))

    def _block(self, run: WaitingRun, reason: DeferReason) -> None:
        """The run waits for another run of its job."""
        if run.is_blocked:
            return
        if run.is_deferred:
            self._change(run.track, deferred=-1)
        else:
            self._job(run).waiting += 1
        self._change(run.track, blocked=1)
        self.decisions.deferrals.append((run, reason))

    def _skip(self, run: WaitingRun) -> None:
        self._gone.add(run.run_id)
        self.decisions.skips.append(run)


def _lot(lane: str, now: datetime) -> float:
    """An exponential variate: of several lanes, each divided by its weight, one is the least as often as its weight."""
    digest = hashlib.sha256(f"{lane} {now.isoformat()}".encode()).digest()
    return -math.log((int.from_bytes(digest[:8], "big") + 1) / 2**64)


def _counter(run: WaitingRun | OtherRun) -> str:
    return "blocked" if run.defer_reason in BY_JOB else "deferred"
