"""The engine of runs may crash between any two effects. One run collects the points; then one run crashes at each."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest

from artiway import ids
from artiway.jobs.messages import Outcome
from tests.fakes.clock import NOON
from tests.simulation.chaos import Crash
from tests.simulation.jobs_story import FLOW
from tests.simulation.jobs_world import JobsWorld

SHARDS = 4
# A new actor of runs must be listed, or its crashes would not be tested.
ACTORS = {
    "create",
    "edit",
    "progress",
    "trigger",
    "run_normal",
    "run_results",
    "run_submissions",
    "terminate",
    "run sweep",
    "relay",
}


def play(world, crash_at=None):
    """Three jobs: one fires often and is edited, one flow, one attempt fails. A run is terminated. A crashed process
    is replaced."""
    world.worker(slots=8)
    tenant = world.tenant("vip", points=1_000)
    failed = set()

    def answer(call):
        if call.attempt == 1 and call.run_id not in failed and len(failed) < 1:
            failed.add(call.run_id)
            return Outcome.FAILED, 0.1
        return Outcome.SUCCEEDED, 0.1

    world.answer = answer
    world.chaos.crash_at = crash_at
    world.chaos.crash = 1e-15  # commits without a write are points too, and none of them happens by chance
    world.chaos.refuse = 0.15  # so that the relay has messages to send
    at = NOON + timedelta(seconds=3)
    for expr, changes in (
        ("*/15 * * * * ?", {}),
        (None, {"at": at}),
        (None, {"at": at, "task_type": "FLOW", "task": FLOW}),
    ):
        world.chaos.act("create")
        with contextlib.suppress(Crash):
            world.job(tenant, expr, **changes)
    for number in range(6):
        world.tick(4)
        for worker in world.workers:
            for holding in list(worker.held):
                world.finish(worker, holding)
        world.sweep_runs()
        if number == 2 and (jobs := world.rows("SELECT job_id FROM job WHERE expr IS NOT NULL")):
            world.chaos.act("edit")
            with contextlib.suppress(Crash):
                world.edit(tenant[0], jobs[0]["job_id"], expr="*/10 * * * * ?")
        if number == 4 and (
            runs := world.rows("SELECT run_id FROM job_run WHERE state = 'PENDING' ORDER BY run_id DESC")
        ):
            world.chaos.act("terminate")
            with contextlib.suppress(Crash):
                world.terminate(tenant[0], runs[0]["run_id"])
    return tenant


def end(world):
    """Without further faults every run ends."""
    world.chaos.stop()
    for row in world.rows("SELECT tenant_id, job_id FROM job WHERE status = 'ACTIVE' AND expr IS NOT NULL"):
        world.definitions.pause(world.actor(row["tenant_id"]), row["job_id"], None)
    for number in range(60):
        world.tick(10)
        for worker in world.workers:
            for holding in list(worker.held):
                world.finish(worker, holding)
        world.sweep_runs(is_slow=number % 5 == 4)
        world.beat()
        world.sweep(is_slow=number % 2 == 1)
        if not world.rows("SELECT 1 FROM job_run WHERE ended_at IS NULL") and not world.unsent():
            return
    raise AssertionError(world.rows("SELECT * FROM job_run WHERE ended_at IS NULL"))


@contextlib.contextmanager
def played(simulation, crash_at=None):
    simulation._clear()
    world = JobsWorld(simulation, simulation.redis, seed=9)
    with ids.drawn_from(world.draw_id), contextlib.closing(world):
        tenant = play(world, crash_at)
        yield world, tenant


@pytest.fixture(scope="module")
def points(simulation):
    with played(simulation) as (world, _):
        return [point for point in world.chaos.points if point.partition(": ")[0].rpartition(" ")[0] in ACTORS]


def test_run_passes_points_of_all_actors(points):
    assert {point.partition(": ")[0].rpartition(" ")[0] for point in points} == ACTORS
    effects = {point.partition(": ")[2] for point in points}
    assert {"before commit", "after commit"} <= effects
    assert {
        f"before message to {kind}" for kind in ("run_normal", "run_calls", "run_submissions", "run_results")
    } <= effects


@pytest.mark.parametrize("shard", range(SHARDS))
def test_crash_at_any_point_loses_no_run(simulation, points, subtests, shard):
    for point in points[shard::SHARDS]:
        with subtests.test(point), played(simulation, crash_at=point) as (world, tenant):
            end(world)
            runs = world.runs()
            assert {run["state"] for run in runs} <= {"SUCCESS", "TERMINATED"}
            assert len({(run["job_id"], run["scheduled_at"]) for run in runs}) == len(runs)
            results = world.rows("SELECT run_id, generation, attempt, count(*) AS n FROM run_result GROUP BY 1, 2, 3")
            assert all(row["n"] == 1 for row in results)
            assert len(world.rows("SELECT 1 FROM task")) <= 1
            assert world.balance(*tenant)[1] == 0
            assert world.loads() == world.counted_runs()
