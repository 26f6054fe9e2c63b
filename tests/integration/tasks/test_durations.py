"""Durations are learned from the nodes that completed, for each step, and change the next promise."""

from __future__ import annotations

from uuid import uuid4

import pytest

from artiway.bootstrap.tasks import durations
from tests.integration.tasks.test_life import deliver_all, submit
from tests.simulation.world import POOL


@pytest.fixture
def world(world):
    world.use_fair_queue()
    world.worker()
    return world


def run(world, tool, seconds, tenant):
    """One task whose nodes each take so long, as the database has seen it."""
    task = submit(world, tenant, tool)
    deliver_all(world)
    world.run_to_end()
    world.superuser.execute(
        "UPDATE task_node SET ready_at = created_at + interval '0.5 s', dispatched_at = created_at + interval '0.5 s',"
        " started_at = created_at + interval '0.75 s', ended_at = created_at + make_interval(secs => 0.75 + %s)"
        " WHERE task_id = %s",
        [seconds, task.task_id],
    )


def promise(world, tool, tenant):
    return world.tasks.estimate(
        tenant_id=tenant[0], tool=tool, inputs={"product": uuid4()}, params={}, count=None
    ).timing.end_s


def test_each_step_has_durations_of_its_own(world):
    """`crop` and `cutout` are steps of one node type."""
    tenant = world.tenant()
    assert promise(world, "crop", tenant) == promise(world, "cutout", tenant) == 6
    run(world, "crop", 1, tenant)
    run(world, "cutout", 11, tenant)
    found = durations().of(POOL)
    assert found.run_us == pytest.approx({"crop": 1e6, "cutout": 11e6}, rel=0.01)
    assert found.ready_us == pytest.approx(5e5, rel=0.01)
    assert promise(world, "crop", tenant) == 2
    assert promise(world, "cutout", tenant) == 12


def test_unmeasured_step_follows_its_type(world):
    tenant = world.tenant()
    run(world, "crop", 3, tenant)
    found = durations().of(POOL)
    assert found.of("cutout", "cutout", 6_000_000) == pytest.approx(3e6, rel=0.01)
    assert found.of("extend", "extend", 10_000_000) == pytest.approx(5e6, rel=0.01)


def test_promise_is_stored_with_the_task(world):
    tenant = world.tenant()
    task = submit(world, tenant, "crop")
    assert world.task_row(task.task_id)["eta_s"] == 6
    deliver_all(world)
    world.run_to_end()
