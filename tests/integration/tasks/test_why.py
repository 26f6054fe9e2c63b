"""Why a task waits, on the real fair queue."""

from __future__ import annotations

from uuid import uuid4

import pytest

from artiway import bootstrap
from artiway.scheduling.model import LaneChange
from artiway.scheduling.queue import FairQueue
from artiway.tasks import why as explanations
from artiway.tasks.model import NoSuchTask
from tests.integration.tasks.test_life import deliver_all, held, submit, submit_flow


@pytest.fixture
def why(world):
    world.use_fair_queue()
    return bootstrap.why()


def reasons(why, task):
    found = why.explain(tenant_id=task.tenant_id, task_id=task.task_id).reasons
    return {reason.node.name: (reason.waiting_for, reason.position) for reason in found}


def test_open_nodes_are_explained(world, why):
    tenant = world.tenant()
    world.worker(slots=1)
    task = submit_flow(world, tenant, "a", "a>b", "c")
    assert reasons(why, task) == {"a": ("none", None), "b": ("dependency", None), "c": ("none", None)}
    deliver_all(world)
    found = reasons(why, task)
    assert sorted(found.values()) == [("dependency", None), ("none", 0), ("turn", 0)]
    running = next(name for name in ("a", "c") if found[name] == ("none", 0))
    world.finish(*held(world, running))
    deliver_all(world)
    assert running not in reasons(why, task)
    world.run_to_end()
    assert reasons(why, task) == {}


def test_node_without_worker_is_explained(world, why):
    task = submit(world, world.tenant(), "style")
    deliver_all(world)
    assert reasons(why, task) == {"style_1": ("no_worker", None)}
    world.worker()
    world.run_to_end()


def test_node_of_tenant_at_cap_is_explained(world, why):
    tenant = world.tenant(concurrency=1)
    world.worker(slots=4)
    first, second = submit(world, tenant, "style"), submit(world, tenant, "style")
    deliver_all(world)
    found = sorted([*reasons(why, first).values(), *reasons(why, second).values()])
    assert [kind for kind, _ in found] == ["none", "tenant_cap"]
    world.run_to_end()


def test_without_redis_the_database_explains(world, why):
    tenant = world.tenant()
    world.worker(slots=1)
    tasks = [submit(world, tenant, "style") for _ in range(3)]
    deliver_all(world)
    world.redis.flushall()
    found = [reason for task in tasks for reason in reasons(why, task).values()]
    assert sorted(found) == [("none", 0), ("turn", 0), ("turn", 1)]
    world.run_to_end()


def test_paused_lane_has_no_expected_start(world, why):
    tenant = world.tenant()
    world.worker(slots=1)
    bootstrap.operations().change_lane("vip_short", LaneChange(is_paused=True), actor_id=None)
    task = submit(world, tenant, "style")
    deliver_all(world)
    (reason,) = why.explain(tenant_id=tenant[0], task_id=task.task_id).reasons
    assert (reason.waiting_for, reason.position, reason.eta_s) == ("lane_paused", None, None)
    assert reason.detail == "its lane is paused by an operator: it has no expected start"
    estimate = world.tasks.estimate(
        tenant_id=tenant[0], tool="style", inputs={"product": uuid4()}, params={}, count=None
    )
    assert estimate.timing.end_s is None
    assert estimate.timing.detail == "the lane is paused by an operator: there is no expected start"
    bootstrap.operations().change_lane("vip_short", LaneChange(is_paused=False), actor_id=None)
    world.run_to_end()


def test_large_task_asks_the_queue_for_few(world, why, monkeypatch):
    monkeypatch.setattr(explanations, "EXPLAINED_NODES", 2)
    tenant = world.tenant()
    world.worker(slots=1)
    task = submit_flow(world, tenant, "a", "b", "c", "d")
    deliver_all(world)
    asked = []
    explain = FairQueue.explain
    monkeypatch.setattr(
        FairQueue, "explain", lambda queue, node, **given: asked.append(node) or explain(queue, node, **given)
    )
    found = sorted(position for kind, position in reasons(why, task).values() if kind != "none")
    assert len(asked) == 2
    assert found == pytest.approx([0, 1, 2], abs=1)
    world.run_to_end()


def test_task_of_another_tenant_is_not_found(world, why):
    task = submit(world, world.tenant(), "style")
    with pytest.raises(NoSuchTask):
        why.explain(tenant_id=world.tenant()[0], task_id=task.task_id)
    world.worker()
    world.run_to_end()
