"""Workers report the steps that they serve with a network; the price and the mark of a task follow."""

from __future__ import annotations

from artiway import bootstrap
from artiway.tasks.model import WorkerCard
from tests.integration.tasks.test_life import submit
from tests.simulation.world import POOL

TYPES = ("cutout", "model", "compose", "extend", "hd_fix")


def register(world, *neural, name="w1", slots=1):
    world.node_store.register(WorkerCard(name, POOL, TYPES, slots, neural), engine="fake")


def steps(world):
    return world.node_store.neural_steps(POOL, silence_s=30)


def test_no_live_worker_is_not_an_empty_list(world):
    assert steps(world) is None
    register(world)
    assert steps(world) == frozenset()


def test_steps_of_all_live_workers_are_joined(world):
    register(world, "cutout", "crop")
    register(world, "cutout", "scene", name="w2")
    register(world, "extend", name="gone", slots=0)
    assert steps(world) == {"cutout", "crop", "scene"}


def test_heartbeat_changes_the_reported_steps(world):
    register(world)
    world.node_store.renew(WorkerCard("w1", POOL, TYPES, 1, ("cutout",)), [], lease_s=30)
    assert steps(world) == {"cutout"}


def test_task_keeps_the_mark_of_its_submission(world):
    register(world, "cutout")
    tenant = world.tenant()
    draft, whole = submit(world, tenant, "derive"), submit(world, tenant, "cutout")
    register(world, "cutout", "derive")
    found = {row["task_id"]: row["is_draft"] for row in world.rows("SELECT task_id, is_draft FROM task")}
    assert found == {draft.task_id: True, whole.task_id: False}
    assert bootstrap.catalogue().steps["derive"].needs_network
