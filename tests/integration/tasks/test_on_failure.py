"""Random DAGs of pictures and calls with random failures, against the rule of `onFailure`."""

from __future__ import annotations

import contextlib
from random import Random

import pytest

from artiway.tasks.model import OnFailure
from tests.conftest import soaked
from tests.integration.tasks.test_calls import submit
from tests.simulation.story import random_flow
from tests.simulation.world import World

STEPS = 2_000


@pytest.fixture(params=range(soaked(5)))
def random(request):
    return Random(request.param)


@pytest.fixture
def played(addresses, valkey, random):
    """Plays a flow in which the chosen nodes fail for good, in an order that the seed decides."""
    world = World(addresses, valkey, seed=random.randrange(1_000))

    def play(on_failure):
        nodes = random_flow(random, 20)
        failing = {node.name for node in nodes if random.random() < 0.25}
        world.targets.answer = lambda call: 404 if call.idempotency_key.partition(":")[2] in failing else 200
        world.worker(slots=3)
        task = submit(world, world.tenant(), nodes, on_failure)
        for _ in range(STEPS):
            held = [(worker, one) for worker in world.workers for one in worker.held]
            if held and random.random() < 0.4:
                worker, one = random.choice(held)
                if one.order["name"] in failing:
                    world.fail(worker, one, is_retryable=False)
                else:
                    world.finish(worker, one)
            elif not world.deliver_one() and not held:
                break
        before = {node.name: set(node.depends_on) | set(node.sources.values()) for node in nodes}
        return world, task, before, failing

    with contextlib.closing(world):
        yield play
        world.assert_invariants()


def cut_off(name, before, failing):
    """A node that this one depends on fails, directly or not."""
    return any(other in failing or cut_off(other, before, failing) for other in before[name])


def test_continue_runs_exactly_the_independent_nodes(played):
    world, task, before, failing = played(OnFailure.CONTINUE)
    expected = {
        name: "CANCELLED" if cut_off(name, before, failing) else "FAILED" if name in failing else "COMPLETED"
        for name in before
    }
    assert world.statuses(task.task_id) == expected
    assert world.task_row(task.task_id)["ended_at"] is not None


def test_stop_starts_nothing_after_a_failure(played):
    world, task, before, failing = played(OnFailure.STOP)
    rows = world.rows(
        "SELECT node.name, history.to_status, history.changed_at FROM node_history AS history"
        " JOIN task_node AS node USING (tenant_id, node_id) WHERE node.task_id = %s ORDER BY history.changed_at",
        task.task_id,
    )
    failures = [row["changed_at"] for row in rows if row["to_status"] == "FAILED"]
    started = {row["name"]: row["changed_at"] for row in rows if row["to_status"] == "PROCESSING"}
    first = min(failures, default=None)
    assert all(first is None or at < first for at in started.values())
    statuses = world.statuses(task.task_id)
    assert {name for name, status in statuses.items() if status == "CANCELLED"} == before.keys() - started.keys()
    assert {name for name, status in statuses.items() if status == "FAILED"} == failing & started.keys()
    assert world.task_row(task.task_id)["ended_at"] is not None
