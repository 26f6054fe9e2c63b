"""TASK and FLOW runs: submitted once under the run's key, ended by the task's own row."""

from __future__ import annotations

from datetime import timedelta

import pytest

from artiway.jobs.messages import Outcome, Result
from tests.fakes.clock import NOON
from tests.simulation.jobs_story import FLOW
from tests.simulation.world import flow


@pytest.fixture
def flow_job(world):
    world.worker()
    tenant = world.tenant("vip", points=1_000)
    job = world.job(tenant, None, at=NOON + timedelta(seconds=1), task_type="FLOW", task=FLOW, timeout_s=300)
    world.play(3)
    return tenant, job


def finish(world, *, is_good=True):
    for worker in world.workers:
        for holding in list(worker.held):
            if is_good:
                world.finish(worker, holding)
            else:
                world.fail(worker, holding, is_retryable=False)


def test_run_ends_with_its_task(world, flow_job):
    tenant, job = flow_job
    (run,) = world.runs(job)
    assert (run["state"], run["task_id"] is not None) == ("RUNNING", True)
    finish(world)
    world.play(3)
    (run,) = world.runs(job)
    assert run["state"] == "SUCCESS"
    (task,) = world.rows("SELECT * FROM task")
    assert task["submission_key"] == f"run:{run['run_id'].hex}:1"
    assert world.balance(*tenant)[1] == 0


def test_retry_runs_the_same_task_again(world, flow_job):
    _, job = flow_job
    finish(world, is_good=False)
    world.play(8)
    (run,) = world.runs(job)
    assert (run["state"], run["attempt"]) == ("RUNNING", 2)
    finish(world)
    world.play(3)
    (run,) = world.runs(job)
    assert run["state"] == "SUCCESS"
    assert [task["run"] for task in world.rows("SELECT run FROM task")] == [2]


def test_terminated_run_cancels_its_task(world, flow_job):
    tenant, job = flow_job
    (run,) = world.runs(job)
    world.terminate(tenant[0], run["run_id"])
    world.play(2)
    assert [task["status"] for task in world.rows("SELECT status FROM task")] == ["CANCELLED"]
    assert world.balance(*tenant) == (1_000, 0)


def test_run_without_points_fails_and_says_so(world):
    tenant = world.tenant("vip", points=0)
    job = world.job(tenant, None, at=NOON + timedelta(seconds=1), task_type="FLOW", task=FLOW, max_attempts=1)
    world.play(4)
    (run,) = world.runs(job)
    assert run["state"] == "FAILED"
    assert "402" in run["last_error"]
    assert world.rows("SELECT 1 FROM task") == []


def test_repeated_submission_key_makes_one_task(world):
    world.worker()
    tenant_id, user_id = world.tenant("vip", points=1_000)
    nodes = flow("a")
    accepted = []

    def submit():
        accepted.append(
            world.tasks.submit_flow(
                tenant_id=tenant_id, user_id=user_id, name="", nodes=nodes, webhook_url=None, submission_key="import:7"
            ).task.task_id
        )

    submit()
    submit()
    assert len(set(accepted)) == 1
    (task,) = world.rows("SELECT price_points FROM task")
    assert world.balance(tenant_id, user_id)[1] == task["price_points"]


class TestReconciliation:
    def started(self, world):
        tenant = world.tenant("vip")
        world.answer = lambda _: None  # executed, and the result is lost
        job = world.job(tenant, None, at=NOON + timedelta(seconds=1))
        world.play(3)
        (run,) = world.runs(job)
        assert run["state"] == "RUNNING"
        return tenant, job, run

    def test_stored_result_is_written_back(self, world):
        tenant, job, run = self.started(world)
        world.superuser.execute(
            b"INSERT INTO run_result (tenant_id, run_id, generation, attempt, outcome, http_status, at)"
            b" VALUES (%s, %s, 1, 1, 'SUCCEEDED', 200, %s)",
            [tenant[0], run["run_id"], world.now],
        )
        assert world.results.reconcile(age_s=0, limit=10) == 1
        (run,) = world.runs(job)
        assert (run["state"], run["http_status"]) == ("SUCCESS", 200)
        assert world.results.reconcile(age_s=0, limit=10) == 0

    def test_ended_task_is_written_back(self, world, flow_job):
        _, job = flow_job
        finish(world)
        while message := world.network.take():
            if message.destination != "run_results":  # lost
                world.receive(message)
        world.advance(61)
        assert [run["state"] for run in world.runs(job)] == ["RUNNING"]
        assert world.run_sweeper.slow()["run_results"] == 1
        assert [run["state"] for run in world.runs(job)] == ["SUCCESS"]

    def test_lost_result_ends_with_the_lease(self, world):
        _, job, _ = self.started(world)
        world.advance(30 + 120 + 1)
        assert world.run_sweeper.quick()["run_leases"] == 1
        (run,) = world.runs(job)
        assert (run["state"], run["last_error"]) == ("RETRYING", "no result arrived in time")

    def test_late_result_changes_nothing_and_is_logged(self, world):
        tenant, job, run = self.started(world)
        world.terminate(tenant[0], run["run_id"])
        late = Result(tenant[0], run["run_id"], 1, 1, Outcome.SUCCEEDED, world.now, http_status=200)
        assert [world.results.apply([late, late]), world.results.apply([late])] == [0, 0]
        (run,) = world.runs(job)
        assert run["state"] == "TERMINATED"
        (line,) = world.rows("SELECT * FROM run_log WHERE message LIKE %s", "late result%")
        assert line["level"] == "WARN"
        assert world.rows("SELECT 1 FROM run_result") == []

    def test_wrong_counters_are_corrected(self, world):
        self.started(world)
        world.superuser.execute(b"UPDATE job_load SET running = 5, deferred = 2")
        assert world.run_sweeper.slow()["run_counters"] == 1
        assert world.loads() == world.counted_runs()
