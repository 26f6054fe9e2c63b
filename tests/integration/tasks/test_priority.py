"""The priority of a task on the real fair queue: it orders the work of its own tenant, and no other."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from artiway import bootstrap
from artiway.scheduling.model import Priority
from tests.integration.tasks.test_life import deliver_all
from tests.simulation.world import POOL


@pytest.fixture
def busy(world):
    """The only slot is taken."""
    world.use_fair_queue()
    world.worker(slots=1)
    submit(world, world.tenant(), Priority.NORMAL)
    deliver_all(world)
    return world


def submit(world, tenant, priority):
    tenant_id, user_id = tenant
    accepted = world.tasks.submit(
        tenant_id=tenant_id,
        user_id=user_id,
        tool="style",
        inputs={"product": uuid4()},
        params={},
        count=None,
        webhook_url=None,
        priority=priority,
    )
    return accepted.task


def order(world):
    """The tasks in the order in which their nodes run, from here on."""
    started = []
    while world.workers[0].held:
        world.finish(world.workers[0], world.workers[0].held[0])
        deliver_all(world)
        started += [one.order["taskId"] for one in world.workers[0].held]
    return started


def test_tenants_own_work_goes_by_priority(busy):
    tenant = busy.tenant()
    wanted = (Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.LOW, Priority.HIGH)
    tasks = []
    for priority in wanted:
        tasks.append(str(submit(busy, tenant, priority).task_id))
        deliver_all(busy)
    assert order(busy) == [tasks[place] for place in (2, 4, 1, 0, 3)]


def test_priority_gains_nothing_against_other_tenants(busy):
    ambitious, modest = busy.tenant(), busy.tenant()
    owners = {}
    for _ in range(4):
        for tenant, priority in ((ambitious, Priority.HIGH), (modest, Priority.LOW)):
            owners[str(submit(busy, tenant, priority).task_id)] = tenant
            deliver_all(busy)
    turns = [owners[task_id] for task_id in order(busy)]
    assert [turns[:n].count(ambitious) - turns[:n].count(modest) for n in (2, 4, 6, 8)] == [0, 0, 0, 0]


def test_rebuild_keeps_priorities(busy):
    tenant = busy.tenant()
    tasks = []
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        tasks.append(str(submit(busy, tenant, priority).task_id))
        deliver_all(busy)
    busy.redis.flushall()
    busy.dispatcher.reconcile(POOL)
    assert order(busy) == tasks[::-1]


def test_priority_is_stored_and_explained(busy):
    tenant = busy.tenant()
    task = submit(busy, tenant, Priority.HIGH)
    deliver_all(busy)
    assert task.priority is Priority.HIGH
    assert busy.tasks.view(tenant_id=tenant[0], task_id=task.task_id).graph.task.priority is Priority.HIGH
    found = bootstrap.why().explain(tenant_id=tenant[0], task_id=task.task_id)
    assert found.priority is Priority.HIGH
    assert found.reasons[0].detail == (
        "it waits for its turn; its priority is HIGH: it goes before other work of your organisation"
    )
    busy.run_to_end()


def test_database_refuses_another_priority(busy):
    task = submit(busy, busy.tenant(), Priority.LOW)
    for table in ("task", "task_node"):
        with pytest.raises(psycopg.errors.CheckViolation):
            busy.superuser.execute(f"UPDATE {table} SET priority = 'URGENT' WHERE task_id = %s", [task.task_id])
    busy.run_to_end()
