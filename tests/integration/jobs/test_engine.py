"""From the schedule to the end of a run, with a time that the test sets."""

from __future__ import annotations

from datetime import timedelta

from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON


def test_job_fires_at_its_second(world):
    tenant = world.tenant("enterprise")
    job = world.job(tenant, "*/10 * * * * ?")
    world.play(45)
    runs = [run for run in world.runs(job) if run["state"] == "SUCCESS"]
    assert [run["scheduled_at"] for run in runs] == [NOON + timedelta(seconds=10 * n) for n in range(1, 5)]
    for run in runs:
        assert timedelta(0) <= run["started_at"] - run["scheduled_at"] < timedelta(seconds=0.2)
    assert len(world.calls) == 4
    assert world.notes(job) == []


def test_failed_attempts_back_off_to_dead_letters(world):
    world.answer = lambda call: (Outcome.FAILED, 0.1)
    job = world.job(world.tenant("vip"), None, at=NOON + timedelta(seconds=3))
    world.play(12)
    (run,) = world.runs(job)
    assert (run["state"], run["attempt"]) == ("FAILED", 3)
    assert run["dead_at"] is not None
    first, second, third = (attempt.at for attempt in world.calls)
    assert 1 <= second - first < 2
    assert 2 <= third - second < 3
    assert [row["outcome"] for row in world.rows("SELECT outcome FROM run_result")] == ["FAILED"] * 3
    (stored,) = world.rows("SELECT status FROM job WHERE job_id = %s", job)
    assert stored["status"] == "COMPLETED"


def test_edit_notes_each_lost_fire(world):
    """Late fires wait for their slot while newer ones run: an edit loses the former, with the latter in between."""
    tenant = world.tenant("vip", job_period_s=1)
    job = world.job(tenant, "*/10 * * * * ?", misfire_policy="FIRE_ALL", catchup_window_s=600)
    world.play(5)
    world.advance(200)
    world.play(40)
    world.edit(tenant[0], job, expr="0 * * * * ?")
    ran = {run["scheduled_at"] for run in world.runs(job)}
    notes = world.notes(job)
    assert {(note["outcome"], note["fires"]) for note in notes} == {("CANCELLED_BY_EDIT", 1)}
    lost = {note["first_at"] for note in notes}
    assert len(lost) > 1
    assert not lost & ran
    due = {NOON + timedelta(seconds=10 * n) for n in range(1, 25)}
    assert due <= lost | ran


def test_dispatcher_and_caller_start_before_the_first_run(world):
    """Either may not be running: a cold start takes seconds."""
    world.job(world.tenant("vip", job_period_s=1), "30 * * * * ?")
    world.trigger.run_pass()
    messages = world.network.messages
    empty = [one for one in messages if not one.body["data"].get("runIds") and not one.body["data"].get("calls")]
    assert {one.destination for one in empty} == {"run_normal", "run_calls"}
    assert all(24 <= one.due <= 25 for one in empty)


def test_messages_that_keep_warm_change_nothing(world):
    world.trigger.keep_warm()
    assert [message.destination for message in world.network.messages] == ["run_normal", "run_calls"]
    world.play(1)
    assert (world.runs(), world.calls, world.network.messages) == ([], [], [])
