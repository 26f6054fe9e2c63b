"""Which runs and notes a job gets: every nominal time is one or the other, exactly once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artiway.jobs import cron, fires, zones
from artiway.jobs.model import (
    Definition,
    FireOutcome,
    Job,
    JobPriority,
    JobStatus,
    MisfirePolicy,
    OverlapPolicy,
    RetryPolicy,
    RunKind,
    Schedule,
    ScheduleType,
    TaskType,
)
from tests.fakes.clock import NOON

UTC = zones.zone("UTC")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def job(expr: str | None = "* * * * *", *, next_fire_at: datetime | None = NOON, number: int = 7, **changes) -> Job:
    schedule = Schedule(
        ScheduleType.CRON if expr else ScheduleType.ONCE,
        expr,
        changes.pop("at", None),
        "UTC",
        changes.pop("jitter_s", 0),
        ends_at=changes.pop("ends_at", None),
    )
    definition = Definition(
        name="snapshot",
        schedule=schedule,
        task_type=TaskType.HTTP,
        task={},
        priority=JobPriority.NORMAL,
        retry=RetryPolicy(3, 1_000, 300_000),
        concurrency_limit=10,
        overlap_policy=OverlapPolicy.ALLOW_ALL,
        misfire_policy=changes.pop("misfire_policy", MisfirePolicy.FIRE_ONCE),
        catchup_window_s=changes.pop("catchup_window_s", 3_600),
        timeout_s=30,
    )
    ids = UUID(int=1), UUID(int=number), UUID(int=3)
    last = changes.pop("last_fire_at", None)
    return Job(*ids, definition, JobStatus.ACTIVE, 1, next_fire_at, last, None, None, None, NOON, NOON)


def test_all_fires_up_to_horizon_are_made():
    plan = fires.plan(job("*/20 * * * * ?"), now=NOON, is_active=True)
    assert [fire.scheduled_at for fire in plan.fires] == [NOON + seconds(20 * n) for n in range(5)]
    assert {fire.kind for fire in plan.fires} == {RunKind.SCHEDULED}
    assert plan.next_fire_at == NOON + seconds(100)
    assert plan.last_fire_at == NOON + seconds(80)


def test_job_beyond_horizon_stays_as_it_is():
    plan = fires.plan(job(next_fire_at=NOON + seconds(91)), now=NOON, is_active=True)
    assert plan == fires.FirePlan((), (), NOON + seconds(91), None)


def test_once_fires_and_has_no_next():
    plan = fires.plan(job(None, at=NOON + seconds(2.5), next_fire_at=NOON + seconds(2.5)), now=NOON, is_active=True)
    assert [fire.assigned_at for fire in plan.fires] == [NOON + seconds(2.5)]
    assert plan.next_fire_at is None


def test_end_of_schedule_is_exclusive():
    plan = fires.plan(job("*/30 * * * * ?", ends_at=NOON + seconds(60)), now=NOON, is_active=True)
    assert [fire.scheduled_at for fire in plan.fires] == [NOON, NOON + seconds(30)]
    assert plan.next_fire_at is None


def test_jitter_is_stable_and_outside_scheduled_time():
    plans = [fires.plan(job(jitter_s=600, number=number), now=NOON, is_active=True) for number in range(200)]
    slots = {plan.fires[0].assigned_at - plan.fires[0].scheduled_at for plan in plans}
    assert all(plan.fires[0].scheduled_at == NOON for plan in plans)
    assert all(timedelta(0) <= slot < seconds(600) for slot in slots)
    assert len(slots) > 100
    assert plans == [fires.plan(job(jitter_s=600, number=number), now=NOON, is_active=True) for number in range(200)]


def test_run_with_later_slot_is_not_late():
    late = next(
        one
        for one in (job(jitter_s=3_600, number=n) for n in range(50))
        if fires._assigned(one, NOON) > NOON + seconds(1_800)
    )
    plan = fires.plan(late, now=NOON + seconds(1_200), is_active=True)
    assert plan.fires[0].kind is RunKind.SCHEDULED
    assert plan.notes == []


def test_suspended_tenant_gets_notes_only():
    plan = fires.plan(job(), now=NOON + seconds(65), is_active=False)
    assert plan.fires == ()
    assert [(note.outcome, note.fires) for note in plan.notes] == [(FireOutcome.TENANT_SUSPENDED, 2)]
    assert plan.next_fire_at == NOON + seconds(120)


class TestAfterAnOutage:
    now = NOON + seconds(1_830)  # 30 fires are late: the one of 1,800 s is not

    def plan(self, policy: MisfirePolicy, **changes) -> fires.FirePlan:
        return fires.plan(job(misfire_policy=policy, **changes), now=self.now, is_active=True)

    def test_once_makes_one_run_of_many(self):
        plan = self.plan(MisfirePolicy.FIRE_ONCE)
        caught_up, *on_time = plan.fires
        assert (caught_up.kind, caught_up.scheduled_at) == (RunKind.CATCHUP, NOON + seconds(1_740))
        assert [fire.scheduled_at for fire in on_time] == [
            NOON + seconds(1_800),
            NOON + seconds(1_860),
            NOON + seconds(1_920),
        ]
        assert [(note.outcome, note.fires) for note in plan.notes] == [(FireOutcome.COALESCED, 29)]

    def test_skip_notes_each_missed_fire(self):
        plan = self.plan(MisfirePolicy.SKIP)
        assert {fire.kind for fire in plan.fires} == {RunKind.SCHEDULED}
        assert [(note.outcome, note.fires, note.last_at) for note in plan.notes] == [
            (FireOutcome.MISFIRED, 30, NOON + seconds(1_740))
        ]

    def test_all_spreads_runs_in_order(self):
        plan = self.plan(MisfirePolicy.FIRE_ALL)
        caught_up = [fire for fire in plan.fires if fire.kind is RunKind.CATCHUP]
        assert len(caught_up) == 30
        assert sorted(caught_up, key=lambda fire: fire.assigned_at) == caught_up
        assert all(self.now <= fire.assigned_at <= self.now + seconds(301) for fire in caught_up)
        assert caught_up[-1].assigned_at - caught_up[0].assigned_at > seconds(250)

    def test_window_drops_what_is_too_old(self):
        plan = self.plan(MisfirePolicy.FIRE_ALL, catchup_window_s=300)
        assert sum(fire.kind is RunKind.CATCHUP for fire in plan.fires) == 4
        assert [(note.outcome, note.fires) for note in plan.notes] == [(FireOutcome.MISFIRED, 26)]

    def test_jobs_catch_up_in_different_slots(self):
        made = [self.plan(MisfirePolicy.FIRE_ONCE, number=number).fires[0].assigned_at for number in range(100)]
        assert len(set(made)) > 60


def decided_over(one: Job, now: datetime) -> tuple[list[datetime], int, Job]:
    """Passes until nothing is left to decide: the scheduled times, how many were noted, the job after them."""
    made, noted = [], 0
    for _ in range(500):
        plan = fires.plan(one, now=now, is_active=True)
        made += [fire.scheduled_at for fire in plan.fires]
        noted += sum(note.fires for note in plan.notes)
        if plan.next_fire_at == one.next_fire_at:
            return made, noted, one
        one = replace(one, next_fire_at=plan.next_fire_at, last_fire_at=plan.last_fire_at)
    raise AssertionError("passes do not end")


@pytest.mark.parametrize(("policy", "runs"), [(MisfirePolicy.FIRE_ONCE, 1), (MisfirePolicy.FIRE_ALL, 100)])
def test_long_outage_is_decided_over_passes(policy, runs):
    now = NOON + timedelta(hours=5)
    made, noted, _ = decided_over(job("* * * * * ?", misfire_policy=policy, catchup_window_s=86_400), now)
    late = [at for at in made if at < now - seconds(60)]
    assert len(late) == runs
    assert late[-1] == now - seconds(61)
    assert len(late) + noted == 5 * 3_600 - 60


EXPRESSIONS = [
    "* * * * *",
    "*/7 * * * *",
    "0 */5 * * * ?",
    "*/15 * * * * ?",
    "30 3 * * *",
    "0 0 1 * *",
    "5,6 */2 * * MON-FRI",
]


@settings(max_examples=200, deadline=None)
@given(
    expr=st.sampled_from(EXPRESSIONS),
    gaps=st.lists(st.integers(1, 20_000), min_size=1, max_size=8),
    policy=st.sampled_from(MisfirePolicy),
    window_s=st.sampled_from([0, 60, 900, 86_400]),
    jitter_s=st.sampled_from([0, 45, 3_000]),
)
def test_every_nominal_time_is_decided_once(expr, gaps, policy, window_s, jitter_s):
    first = cron.parse(expr).next_after(NOON, UTC)
    one = job(expr, next_fire_at=first, misfire_policy=policy, catchup_window_s=window_s, jitter_s=jitter_s)
    now, made, noted = NOON, [], []
    for gap in gaps:
        now += seconds(gap)
        for _ in range(100):
            plan = fires.plan(one, now=now, is_active=True)
            made += [fire.scheduled_at for fire in plan.fires]
            for note in plan.notes:
                times = [note.first_at, *cron.parse(expr).between(note.first_at, note.last_at, UTC, 10_000)]
                assert len(times) == note.fires
                noted += times
            assert all(fire.assigned_at >= fire.scheduled_at for fire in plan.fires)
            if plan.next_fire_at == one.next_fire_at:
                break
            one = replace(one, next_fire_at=plan.next_fire_at, last_fire_at=plan.last_fire_at)
    expected = cron.parse(expr).between(NOON, now + seconds(fires.HORIZON_S), UTC, 100_000)
    assert sorted(made + noted) == expected
    assert len(set(made)) == len(made)
