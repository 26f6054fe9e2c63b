"""The invariants of runs: each corruption is found by the full check and by that of each minute."""

from __future__ import annotations

import contextlib

import pytest

from artiway.jobs.messages import Outcome
from artiway.recovery.invariants import CHECKS

# Check -> what breaks it, and what repairs it.
BREAKS = {
    "runs_are_single": (
        "UPDATE job_run SET run_id = '00000000-0000-7000-8000-000000000000' WHERE state = 'SUCCESS'",
        "UPDATE job_run SET run_id = gen_random_uuid() WHERE state = 'SUCCESS'",
    ),
    "runs_have_jobs": (
        "UPDATE job_run SET tenant_id = job_id WHERE state = 'SUCCESS'",
        "UPDATE job_run AS run SET tenant_id = job.tenant_id FROM job WHERE job.job_id = run.job_id",
    ),
    "running_runs_are_leased": (
        "UPDATE job_run SET lease_until = clock_timestamp() - interval '1 hour' WHERE state = 'RUNNING'",
        "UPDATE job_run SET lease_until = clock_timestamp() + interval '1 hour' WHERE state = 'RUNNING'",
    ),
    "run_counters_agree": (
        "UPDATE job_load SET running = running + 1, blocked = blocked + 1",
        "UPDATE job_load SET running = running - 1, blocked = blocked - 1",
    ),
}


def check_of(world, name, *, is_full):
    health = world.invariants.check() if is_full else world.invariants.check_changes()
    return next(check for check in health.checks if check.name == name)


@pytest.fixture
def busy_world(world):
    """Runs that succeeded, one that runs and one that waits for it."""
    tenant = world.tenant("vip")
    for _ in range(3):
        world.job(tenant, "* * * * *")
    world.play(70)
    world.answer = lambda _: (Outcome.SUCCEEDED, 3_600)
    world.job(tenant, "* * * * *", concurrency_limit=1, timeout_s=7_200)
    world.play(130)
    return world


@contextlib.contextmanager
def corrupted(world, name):
    breaks, repairs = BREAKS[name]
    world.superuser.execute(breaks.encode())
    try:
        yield
    finally:
        world.superuser.execute(repairs.encode())


def test_every_invariant_of_runs_has_a_corruption():
    assert set(BREAKS) <= {name for name, _, _ in CHECKS}
    assert {name for name, _, _ in CHECKS if "run" in name} - {"sweepers_run"} == set(BREAKS)


@pytest.mark.parametrize("is_full", [True, False], ids=["all rows", "changed rows"])
@pytest.mark.parametrize("name", sorted(BREAKS))
def test_broken_invariant_of_runs_is_found(busy_world, name, is_full):
    assert check_of(busy_world, name, is_full=True).is_ok
    with corrupted(busy_world, name):
        check = check_of(busy_world, name, is_full=is_full)
        assert check.violations
    assert check_of(busy_world, name, is_full=is_full).is_ok


def test_result_that_is_not_written_back_is_found(busy_world):
    busy_world.superuser.execute(
        "INSERT INTO run_result (tenant_id, run_id, generation, attempt, outcome, at) SELECT tenant_id, run_id,"
        " generation, attempt, 'SUCCEEDED', clock_timestamp() - interval '10 minutes' FROM job_run"
        " WHERE state = 'RUNNING'"
    )
    assert check_of(busy_world, "running_runs_are_leased", is_full=False).violations
    busy_world.superuser.execute("DELETE FROM run_result WHERE at < clock_timestamp() - interval '5 minutes'")
