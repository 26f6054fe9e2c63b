"""What the report says about nominal fires that have no run: changes of the clock, of the schedule, pauses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from artiway.jobs.fires import FireNote
from artiway.jobs.history.reports import Change, FireStatus, report, segments
from artiway.jobs.model import (
    Definition,
    FireOutcome,
    Job,
    JobPriority,
    JobStatus,
    MisfirePolicy,
    OverlapPolicy,
    RetryPolicy,
    Schedule,
    ScheduleType,
    TaskType,
)

USER = UUID(int=7)
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def cron(expr: str, zone: str = "UTC", **limits: datetime) -> Schedule:
    return Schedule(ScheduleType.CRON, expr, None, zone, 0, **limits)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


def job(schedule: Schedule, *, created: datetime, next_fire_at: datetime | None = None) -> Job:
    definition = Definition(
        "a job",
        schedule,
        TaskType.HTTP,
        {},
        JobPriority.LOW,
        RetryPolicy(1, 0, 0),
        1,
        OverlapPolicy.ALLOW_ALL,
        MisfirePolicy.SKIP,
        60,
        30,
    )
    return Job(
        UUID(int=1), UUID(int=2), USER, definition, JobStatus.ACTIVE, 1, next_fire_at, None, None, None, None, created,
        created,
    )  # fmt: skip


def explained(schedule, since, until, *, changes=(), notes=(), created="2020-01-01T00:00", now=NOW, limit=100):
    one = job(schedule, created=at(created))
    parts = segments(one, changes)
    found = report(one, parts, [], notes, since=at(since), until=at(until), now=now, limit=limit)
    return [(f"{fire.scheduled_at:%dT%H:%M}", fire.status, fire.reason) for fire in found]


class TestChangesOfClock:
    def test_gap_explains_moved_fire(self):
        (fire,) = explained(cron("30 2 * * *", "America/New_York"), "2026-03-08T05:00", "2026-03-08T20:00")
        assert fire[0] == "08T07:00"
        assert fire[2].endswith("the clock skips 02:30, so it fires at the end of the gap")

    def test_repeated_hour_explains_single_fire(self):
        (fire,) = explained(cron("30 1 * * *", "America/New_York"), "2026-11-01T04:00", "2026-11-01T20:00")
        assert fire[0] == "01T05:30"
        assert fire[2].endswith("the clock shows 01:30 twice, so it fires the first time")

    def test_hour_that_does_not_exist_is_reported(self):
        found = explained(cron("0 */2 * * *", "America/New_York"), "2026-03-08T05:00", "2026-03-08T09:00")
        assert [fire[:2] for fire in found] == [
            ("08T05:00", FireStatus.UNACCOUNTED),
            ("08T07:00", FireStatus.DST_SKIPPED),
            ("08T08:00", FireStatus.UNACCOUNTED),
        ]
        assert found[1][2] == "this day has no 02:00"

    @pytest.mark.parametrize("expr", ["0 * * * *", "*/20 * * * *"])
    def test_elapsed_time_needs_no_explanation(self, expr):
        found = explained(cron(expr, "America/New_York"), "2026-03-08T05:00", "2026-03-08T09:00")
        assert {fire[2] for fire in found} == {"neither a run nor a reason is stored"}

    def test_usual_night_needs_no_explanation(self):
        found = explained(cron("30 2 * * *", "America/New_York"), "2026-06-01T00:00", "2026-06-03T00:00")
        assert len(found) == 2
        assert {fire[2] for fire in found} == {"neither a run nor a reason is stored"}


class TestHistory:
    def test_each_schedule_explains_its_own_time(self):
        changes = [
            Change("created", at("2026-05-01T00:00"), USER, None, cron("0 * * * *")),
            Change("updated", at("2026-05-01T02:30"), USER, None, cron("30 * * * *")),
        ]
        found = explained(changes[1].schedule, "2026-04-30T23:00", "2026-05-01T04:00", changes=changes)
        assert [(fire[0], fire[1]) for fire in found] == [
            ("30T23:00", FireStatus.BEFORE_CREATION),
            ("01T00:00", FireStatus.BEFORE_CREATION),
            ("01T01:00", FireStatus.UNACCOUNTED),
            ("01T02:00", FireStatus.UNACCOUNTED),
            ("01T03:30", FireStatus.UNACCOUNTED),
        ]

    def test_pause_names_user_and_note(self):
        schedule = cron("0 * * * *")
        changes = [
            Change("created", at("2026-05-01T00:00"), USER, None, schedule),
            Change("paused", at("2026-05-01T01:30"), USER, "month end", schedule),
            Change("updated", at("2026-05-01T02:30"), USER, None, schedule),
            Change("resumed", at("2026-05-01T03:00"), USER, None, schedule),
        ]
        found = explained(schedule, "2026-05-01T01:00", "2026-05-01T05:00", changes=changes)
        assert [fire[1] for fire in found] == [FireStatus.UNACCOUNTED, *[FireStatus.PAUSED] * 2, FireStatus.UNACCOUNTED]
        assert found[1][2] == f"paused by usr_{USER.hex}: month end"

    def test_note_covers_all_of_its_fires(self):
        note = FireNote(FireOutcome.COALESCED, at("2026-05-01T01:00"), at("2026-05-01T03:00"), 3, "missed")
        found = explained(cron("0 * * * *"), "2026-05-01T01:00", "2026-05-01T05:00", notes=[note])
        assert [fire[1] for fire in found] == [*[FireStatus.COALESCED] * 3, FireStatus.UNACCOUNTED]

    def test_future_is_upcoming(self):
        found = explained(cron("0 * * * *"), "2026-05-01T01:00", "2026-05-01T03:00", now=at("2026-05-01T01:30"))
        assert [fire[1] for fire in found] == [FireStatus.UNACCOUNTED, FireStatus.UPCOMING]

    def test_page_ends_at_its_limit(self):
        found = explained(cron("0 * * * *"), "2026-05-01T00:00", "2026-05-03T00:00", limit=5)
        assert [fire[0] for fire in found] == [f"01T0{hour}:00" for hour in range(5)]

    def test_limits_of_schedule_bound_its_fires(self):
        schedule = cron("0 * * * *", starts_at=at("2026-05-01T02:00"), ends_at=at("2026-05-01T04:00"))
        found = explained(schedule, "2026-05-01T00:00", "2026-05-02T00:00")
        assert [fire[0] for fire in found] == ["01T02:00", "01T03:00"]

    def test_time_before_next_fire_is_never_upcoming(self):
        one = job(cron("0 * * * *"), created=at("2026-05-01T00:00"), next_fire_at=at("2026-05-01T02:00"))
        parts, now = segments(one, []), at("2026-05-01T03:30")
        since = at("2026-05-01T00:30")
        found = report(one, parts, [], [], since=since, until=now + timedelta(hours=1), now=now, limit=9)
        assert [fire.status for fire in found] == [FireStatus.UNACCOUNTED, *[FireStatus.UPCOMING] * 3]
