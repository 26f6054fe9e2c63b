"""Which due runs start: limits are never exceeded, free places are shared by weight, no tenant starves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artiway.jobs.admission import (
    Admission,
    JobLoad,
    LaneRule,
    Load,
    Minute,
    OtherRun,
    Rules,
    Track,
    WaitingRun,
)
from artiway.jobs.model import DeferReason, JobLimits, JobPriority, OverlapPolicy, RunKind, RunState, TaskType
from tests.fakes.clock import NOON

LANES = ["run_critical", "run_high", "run_normal", "run_low"]


def tenant(number: int) -> UUID:
    return UUID(int=number)


def run(number: int, *, of: int = 1, job: int | None = None, **changes) -> WaitingRun:
    return replace(
        WaitingRun(
            tenant_id=tenant(of),
            run_id=UUID(int=number),
            job_id=UUID(int=10_000 + (number if job is None else job)),
            scheduled_at=NOON + timedelta(seconds=number),
            due_at=NOON + timedelta(seconds=number),
            lane="run_normal",
            task_type=TaskType.HTTP,
            state=RunState.PENDING,
            kind=RunKind.SCHEDULED,
            generation=1,
            attempt=0,
            is_deferred=False,
            defer_reason=None,
            overlap_policy=OverlapPolicy.ALLOW_ALL,
            concurrency_limit=10,
            timeout_s=30,
        ),
        **changes,
    )


def rules(
    tenants: int = 3, *, at_once: int = 50, per_minute: int = 1_000, weights=None, capacity: int = 1_000, **lanes
):
    limits = {
        tenant(number): JobLimits(at_once, per_minute, 60, JobPriority.NORMAL, (weights or {}).get(number, 1), True)
        for number in range(1, tenants + 1)
    }
    return Rules(limits, {f"run_{name}": rule for name, rule in lanes.items()}, capacity)


def admit(runs, given, *, loads=None, minutes=None, jobs=None, others=(), deferred=()):
    admission = Admission(NOON, given, loads or {}, minutes or {}, jobs or {}, others)
    admission.offer(runs)
    wanted = admission.wanted()
    pool = [one for track, count in wanted.items() for one in [o for o in deferred if o.track == track][:count]]
    return admission.decide(pool)


def reasons(decisions) -> Counter[str]:
    return Counter(reason.value for _, reason in decisions.deferrals)


def test_tenant_quota_defers_the_newest():
    decisions = admit([run(n) for n in range(1, 8)], rules(at_once=5))
    assert [one.run_id.int for one in decisions.starts] == [1, 2, 3, 4, 5]
    assert reasons(decisions) == {"tenant_quota": 2}
    assert decisions.changes[run(1).track] == Load(running=5, deferred=2)


def test_capacity_counts_calls_and_not_tasks():
    tasks = [run(n, task_type=TaskType.TASK) for n in range(1, 4)]
    decisions = admit([*tasks, *(run(n) for n in range(4, 9))], rules(capacity=2))
    assert Counter(one.task_type for one in decisions.starts) == {TaskType.TASK: 3, TaskType.HTTP: 2}
    assert reasons(decisions) == {"capacity": 3}


@pytest.mark.parametrize(
    ("rule", "started", "reason"),
    [(LaneRule(is_paused=True), 0, "lane_paused"), (LaneRule(parallelism=2), 2, "lane_full")],
)
def test_lane_settings_bound_its_runs(rule, started, reason):
    decisions = admit([run(n) for n in range(1, 6)], rules(normal=rule))
    assert len(decisions.starts) == started
    assert reasons(decisions) == {reason: 5 - started}


def test_suspended_tenant_starts_nothing():
    given = rules()
    limits = {**given.limits, tenant(1): replace(given.limits[tenant(1)], is_active=False)}
    decisions = admit([run(1)], replace(given, limits=limits))
    assert decisions.starts == []
    assert reasons(decisions) == {"tenant_quota": 1}


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_every_lane_starts_where_places_are_few(capacity):
    """Each lane always has a run that waits. A place is free again at every step."""
    started, running = Counter(), []
    for step in range(1_500):
        loads = {Track(tenant(1), lane, True): Load(running=running.count(lane), deferred=9) for lane in LANES}
        admission = Admission(NOON + timedelta(seconds=step), rules(capacity=capacity), loads, {}, {})
        admission.offer([])
        grants = [track.lane for track, count in admission.wanted().items() for _ in range(count)]
        started.update(grants)
        running = [*running, *grants][1:]
    assert sum(started.values()) >= 1_500
    critical, high, normal, low = (started[lane] for lane in LANES)
    assert critical > high > normal > low > 40


class TestRate:
    def test_runs_over_rate_move_to_spread_slots(self):
        decisions = admit([run(n) for n in range(1, 9)], rules(per_minute=4))
        assert len(decisions.starts) == 4
        times = [at for _, at in decisions.put_off]
        assert times == [NOON + timedelta(seconds=60 + 15 * n) for n in range(4)]
        assert decisions.minutes[tenant(1)] == Minute(4, 4, NOON + timedelta(seconds=120))

    def test_new_runs_queue_behind_waiting_ones(self):
        minute = Minute(0, 0, NOON + timedelta(seconds=90))
        waited = run(1, defer_reason=DeferReason.TENANT_RATE.value)
        decisions = admit([waited, run(2)], rules(per_minute=4), minutes={tenant(1): minute})
        assert decisions.starts == [waited]
        assert [(one.run_id.int, at) for one, at in decisions.put_off] == [(2, NOON + timedelta(seconds=90))]

    def test_deferred_run_keeps_its_place_before_slots(self):
        old = run(1, is_deferred=True, defer_reason="capacity")
        minute = Minute(3, 5, NOON + timedelta(seconds=90))
        loads = {old.track: Load(deferred=1)}
        decisions = admit([], rules(per_minute=4), loads=loads, minutes={tenant(1): minute}, deferred=[old])
        assert (decisions.starts, decisions.put_off) == ([old], [])

    def test_deferred_run_does_not_use_rate(self):
        decisions = admit([run(n) for n in range(1, 5)], rules(per_minute=4, at_once=2))
        assert decisions.minutes[tenant(1)].started == 2


BUSY = {run(1).job: JobLoad(running=1)}


class TestOverlap:
    def overlapping(self, policy: OverlapPolicy, number: int = 2, **changes) -> WaitingRun:
        return run(number, job=1, overlap_policy=policy, **changes)

    def test_skip_notes_the_run(self):
        one = self.overlapping(OverlapPolicy.SKIP)
        assert admit([one], rules(), jobs=BUSY).skips == [one]

    def test_requested_run_is_never_skipped(self):
        decisions = admit([self.overlapping(OverlapPolicy.SKIP, kind=RunKind.MANUAL)], rules(), jobs=BUSY)
        assert decisions.skips == []
        assert reasons(decisions) == {"overlap": 1}

    def test_buffer_one_keeps_one(self):
        runs = [self.overlapping(OverlapPolicy.BUFFER_ONE, number) for number in (2, 3, 4)]
        decisions = admit(runs, rules(), jobs=BUSY)
        assert [one.run_id.int for one, _ in decisions.deferrals] == [2]
        assert decisions.skips == runs[1:]

    def test_buffer_all_starts_one_at_a_time(self):
        runs = [self.overlapping(OverlapPolicy.BUFFER_ALL, number) for number in (2, 3, 4)]
        decisions = admit(runs, rules())
        assert decisions.starts == runs[:1]
        assert reasons(decisions) == {"overlap": 2}

    def test_new_run_waits_behind_buffered_ones(self):
        decisions = admit([self.overlapping(OverlapPolicy.BUFFER_ALL)], rules(), jobs={run(1).job: JobLoad(waiting=1)})
        assert decisions.starts == []

    def test_retry_is_no_overlap_of_itself(self):
        retry = self.overlapping(OverlapPolicy.SKIP, state=RunState.RETRYING, attempt=1)
        decisions = admit([retry], rules(), jobs={run(1).job: JobLoad(retrying=1)})
        assert decisions.starts == [retry]

    def test_waiting_retry_keeps_others_out(self):
        one = self.overlapping(OverlapPolicy.SKIP)
        assert admit([one], rules(), jobs={run(1).job: JobLoad(retrying=1)}).skips == [one]

    def test_cancel_other_ends_active_and_starts(self):
        one = self.overlapping(OverlapPolicy.CANCEL_OTHER, 5)
        active, waiting = other(1, RunState.RUNNING), other(2, RunState.PENDING, is_deferred=True)
        decisions = admit(
            [self.overlapping(OverlapPolicy.CANCEL_OTHER, 4), one],
            rules(at_once=1),
            loads={one.track: Load(running=1, blocked=1)},
            jobs={one.job: JobLoad(running=1, waiting=1)},
            others=[active, waiting],
        )
        assert decisions.starts == [one]
        assert decisions.terminations == [active, waiting]
        assert {skipped.run_id.int for skipped in decisions.skips} == {4}
        assert decisions.changes[one.track] == Load(running=0, blocked=-1)

    def test_replaced_run_of_the_pool_stays_ended(self):
        """A run that catches up is older and due later than the one that replaces it."""
        policy = {
            "job": 1,
            "overlap_policy": OverlapPolicy.CANCEL_OTHER,
            "is_deferred": True,
            "defer_reason": "capacity",
        }
        newer = run(8, **policy)
        older = run(3, **policy, due_at=NOON + timedelta(seconds=60))
        waits = [replace(other(n, RunState.PENDING, is_deferred=True), defer_reason="capacity") for n in (3, 8)]
        admission = Admission(NOON, rules(), {newer.track: Load(deferred=2)}, {}, {})
        assert admission.wanted() == {newer.track: 2}
        admission.add_jobs({newer.job: JobLoad(waiting=2)}, waits)
        decisions = admission.decide([newer, older])
        assert decisions.starts == [newer]
        assert [one.run_id for one in decisions.terminations] == [older.run_id]
        assert decisions.changes[newer.track] == Load(running=1, deferred=-2)

    def test_concurrency_limit_blocks_the_rest(self):
        runs = [run(n, job=1, concurrency_limit=3) for n in range(2, 7)]
        decisions = admit(runs, rules(), jobs={runs[0].job: JobLoad(running=1)})
        assert len(decisions.starts) == 2
        assert reasons(decisions) == {"job_concurrency": 3}


def other(number: int, state: RunState, *, is_deferred: bool = False) -> OtherRun:
    waiting = run(number, job=1)
    return OtherRun(
        tenant_id=waiting.tenant_id,
        run_id=waiting.run_id,
        job_id=waiting.job_id,
        scheduled_at=waiting.scheduled_at,
        lane=waiting.lane,
        task_type=TaskType.HTTP,
        state=state,
        generation=1,
        attempt=0 if state is RunState.PENDING else 1,
        is_deferred=is_deferred,
        defer_reason="overlap" if is_deferred else None,
        task_id=None,
    )


class TestFairness:
    def test_free_places_go_by_weight(self):
        runs = [run(1_000 * of + n, of=of) for of in (1, 2, 3) for n in range(100)]
        decisions = admit(runs, rules(weights={1: 1, 2: 2, 3: 5}, capacity=80, at_once=100, per_minute=10_000))
        assert Counter(one.tenant_id.int for one in decisions.starts) == {1: 10, 2: 20, 3: 50}

    def test_urgent_lanes_first_low_never_starves(self):
        runs = [run(1_000 * place + n, lane=lane) for place, lane in enumerate(LANES) for n in range(200)]
        decisions = admit(runs, rules(capacity=150, at_once=1_000, per_minute=10_000))
        started = Counter(one.lane for one in decisions.starts)
        assert started == {"run_critical": 80, "run_high": 40, "run_normal": 20, "run_low": 10}

    def test_deferred_runs_come_before_new_ones(self):
        old = [run(n, is_deferred=True, defer_reason="tenant_quota") for n in range(1, 4)]
        decisions = admit(
            [run(n) for n in range(10, 13)], rules(at_once=4), loads={old[0].track: Load(deferred=3)}, deferred=old
        )
        assert [one.run_id.int for one in decisions.starts] == [1, 2, 3, 10]
        assert decisions.changes[old[0].track] == Load(running=4, deferred=-1)

    def test_place_goes_to_tenant_that_uses_least(self):
        loads = {
            Track(tenant(1), "run_normal", True): Load(running=5, deferred=9),
            Track(tenant(2), "run_normal", True): Load(running=1, deferred=9),
        }
        pool = [run(100 * of + n, of=of, is_deferred=True, defer_reason="capacity") for of in (1, 2) for n in range(9)]
        decisions = admit([], rules(capacity=9), loads=loads, deferred=pool)
        assert Counter(one.tenant_id.int for one in decisions.starts) == {2: 3}

    def test_small_tenant_is_before_second_place(self):
        runs = [run(1_000 * of + n, of=of) for of in (1, 2, 3) for n in range(20)]
        decisions = admit(runs, rules(weights={1: 10, 2: 10, 3: 1}, capacity=3))
        assert Counter(one.tenant_id.int for one in decisions.starts) == {1: 1, 2: 1, 3: 1}

    def test_single_place_goes_round_by_weight(self):
        started = Counter[int]()
        tracks = [run(1, of=of).track for of in (1, 2, 3)]
        for _ in range(24):
            pool = [run(100 * of, of=of, is_deferred=True, defer_reason="capacity") for of in (1, 2, 3)]
            (chosen,) = admit(
                [],
                rules(weights={1: 1, 2: 2, 3: 5}, capacity=1),
                loads={track: Load(deferred=1) for track in tracks},
                minutes={tenant(of): Minute(started[of]) for of in (1, 2, 3)},
                deferred=pool,
            ).starts
            started[chosen.tenant_id.int] += 1
        assert started == {1: 3, 2: 6, 3: 15}

    def test_each_lane_has_a_place_first(self):
        runs = [run(1_000 * place + n, lane=lane) for place, lane in enumerate(LANES) for n in range(20)]
        decisions = admit(runs, rules(capacity=4))
        assert Counter(one.lane for one in decisions.starts) == dict.fromkeys(LANES, 1)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_limit_is_exceeded_by_any_batch(data):
    draw = data.draw
    at_once, capacity, per_minute = draw(st.integers(0, 6)), draw(st.integers(0, 12)), draw(st.integers(0, 12))
    parallelism = draw(st.one_of(st.none(), st.integers(0, 5)))
    given_rules = rules(
        at_once=at_once, capacity=capacity, per_minute=per_minute, low=LaneRule(parallelism=parallelism)
    )
    loads = {}
    deferred = []
    number = 1_000
    for of in (1, 2, 3):
        for lane in LANES[2:]:
            track = Track(tenant(of), lane, True)
            waiting = draw(st.integers(0, 4))
            loads[track] = Load(running=draw(st.integers(0, 2)), deferred=waiting)
            for _ in range(waiting):
                number += 1
                deferred.append(run(number, of=of, lane=lane, is_deferred=True, defer_reason="capacity"))
    new = [
        run(
            n,
            of=draw(st.integers(1, 3)),
            job=draw(st.integers(1, 5)),
            lane=draw(st.sampled_from(LANES[2:])),
            overlap_policy=draw(st.sampled_from(OverlapPolicy)),
            concurrency_limit=2,
        )
        for n in range(draw(st.integers(0, 12)))
    ]
    new = [replace(one, overlap_policy=next(o for o in new if o.job == one.job).overlap_policy) for one in new]
    decisions = admit(new, given_rules, loads=loads, deferred=deferred)
    before, after = Counter(), Counter()
    for track, load in loads.items():
        before[track.tenant_id] += load.running
        before[track.lane] += load.running
        before["calls"] += load.running
    for one in decisions.starts:
        after[one.tenant_id] += 1
        after[one.lane] += 1
        after["calls"] += 1
    for of in (1, 2, 3):
        assert after[tenant(of)] <= max(0, at_once - before[tenant(of)])
        assert after[tenant(of)] <= per_minute
    assert after["calls"] <= max(0, capacity - before["calls"])
    if parallelism is not None:
        assert after["run_low"] <= max(0, parallelism - before["run_low"])
    decided = [
        *decisions.starts,
        *(one for one, _ in decisions.deferrals),
        *(one for one, _ in decisions.put_off),
        *decisions.skips,
    ]
    assert len({one.run_id for one in decided}) == len(decided)
    assert {one.run_id for one in new} <= {one.run_id for one in decided}
    for key in {one.job for one in new}:
        started = [one for one in decisions.starts if one.job == key]
        assert len(started) <= (
            2
            if new[0].overlap_policy is OverlapPolicy.ALLOW_ALL
            or not started
            or started[0].overlap_policy is OverlapPolicy.ALLOW_ALL
            else 1
        )
    for track, change in decisions.changes.items():
        assert change.running == sum(one.track == track for one in decisions.starts)
