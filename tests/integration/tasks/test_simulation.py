"""Random DAGs in a world where all goes wrong: duplicates, any order, crashes, lost Redis, late workers, cancels.

Odd seeds run on the real fair queue, even ones on a plain picker. ARTIWAY_SEEDS=300 plays more of them, and one that
fails is played again alone: ARTIWAY_SEED=17 pytest tests/integration/tasks/test_simulation.py
"""

from __future__ import annotations

import contextlib
import os
from uuid import uuid4

import pytest

from artiway.delivery.feed.model import Place
from artiway.errors import ArtiwayError
from artiway.tasks.model import FlowNode, TaskStatus
from tests.fakes.tasks import Crash, World

COUNT = int(os.environ.get("ARTIWAY_SEEDS", "20"))
SEEDS = [int(os.environ["ARTIWAY_SEED"])] if "ARTIWAY_SEED" in os.environ else list(range(COUNT))
STEPS = 250
LIMIT = 60


def random_flow(random):
    """Mostly small, now and then as large as 60 nodes."""
    count = random.choice([1, 2, 3, 5, 8, 8, 13]) if random.random() < 0.95 else random.randint(20, LIMIT)
    picture, nodes = uuid4(), []
    for number in range(count):
        before = [f"n{other}" for other in range(number) if random.random() < min(0.5, 2 / max(1, number))]
        uploads = {} if before else {"product": picture}
        sources = {"product": before[0]} if before else {}
        nodes.append(FlowNode(f"n{number}", "derive", None, {}, uploads, sources, tuple(before)))
    random.shuffle(nodes)
    return nodes


class Story:
    """What users, workers, operators and bad luck do, as the seed says."""

    def __init__(self, world):
        self.world, self.random = world, world.random
        self.tenants = [world.tenant("vip"), world.tenant("free", queue_depth=50)]
        for name in ("w1", "w2", "w3"):
            world.worker(name)
        self.tasks = []

    def act(self):
        (move,) = self.random.choices(
            [
                self.submit,
                self.deliver,
                self.work,
                self.cancel,
                self.retry,
                self.wait,
                self.flush,
                self.restart_machine,
            ],
            weights=[4, 60, 30, 1, 2, 6, 0.5, 0.3],
        )
        self.world.chaos.act("somebody")
        with contextlib.suppress(Crash, ArtiwayError):
            move()

    def submit(self):
        if len(self.tasks) < 5:
            tenant_id, user_id = self.random.choice(self.tenants)
            nodes = random_flow(self.random)
            accepted = self.world.tasks.submit_flow(
                tenant_id=tenant_id, user_id=user_id, name="", nodes=nodes, webhook_url=None
            )
            self.tasks.append((tenant_id, accepted.task.task_id))

    def deliver(self):
        for _ in range(self.random.randint(1, 6)):
            self.world.deliver_one()

    def work(self):
        worker = self.random.choice(self.world.workers)
        if not worker.held:
            return
        holding = self.random.choice(worker.held)
        chance = self.random.random()
        if chance < 0.70:
            self.world.finish(worker, holding)
        elif chance < 0.78:
            self.world.report(worker, holding, "progress", progress=self.random.randint(1, 99))
        elif chance < 0.84:
            self.world.fail(worker, holding, is_retryable=True)
        elif chance < 0.87:
            self.world.fail(worker, holding, is_retryable=False)
        elif chance < 0.94:
            worker.held.remove(holding)  # died; nobody will ever hear of it
        else:
            holding.is_asleep = True  # beats no more, and reports when it wakes up

    def cancel(self):
        if self.tasks:
            tenant_id, task_id = self.random.choice(self.tasks)
            self.world.tasks.cancel(tenant_id=tenant_id, task_id=task_id)

    def retry(self):
        if self.tasks:
            tenant_id, task_id = self.random.choice(self.tasks)
            self.world.tasks.retry(tenant_id=tenant_id, task_id=task_id)

    def wait(self):
        self.world.advance(self.random.choice([1, 12, 31, 45]))
        self.world.beat()
        self.world.sweep(is_slow=self.random.random() < 0.2)

    def flush(self):
        self.world.redis.flushall()

    def restart_machine(self):
        self.world.machine.forget()


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_every_task_ends_and_the_books_are_right(addresses, valkey, seed):
    world = World(addresses, valkey, seed=seed)
    with contextlib.closing(world):
        if seed % 2:
            world.use_fair_queue()
        story = Story(world)
        world.chaos.crash, world.chaos.duplicate, world.chaos.refuse = 0.01, 0.1, 0.02
        for _ in range(STEPS):
            story.act()
        world.settle_down()
        world.assert_sound()
        assert story.tasks
        for tenant_id, task_id in story.tasks:
            check_task(world, tenant_id, task_id)
        assert world.rows("SELECT 1 FROM points_account WHERE frozen <> 0") == []
        assert world.rows("SELECT 1 FROM slot_in_use") == []
        assert all(execution.is_over for execution in world.machine.executions.values())


def check_task(world, tenant_id, task_id):
    statuses = world.statuses(task_id)
    row = world.task_row(task_id)
    if set(statuses.values()) == {"COMPLETED"}:
        assert row["status"] == TaskStatus.COMPLETED
    assert set(statuses.values()) <= {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"}
    # No attempt is made twice, and none is skipped.
    attempts = world.rows(
        "SELECT node_id, count(*) FILTER (WHERE from_status = 'QUEUED' AND to_status = 'QUEUED') AS dispatched,"
        " max(attempt) AS attempt FROM node_history WHERE node_id IN (SELECT node_id FROM task_node WHERE task_id = %s)"
        " GROUP BY node_id",
        task_id,
    )
    assert all(node["dispatched"] == node["attempt"] for node in attempts)
    # What was delivered is the work of the attempt that was in force.
    done = world.rows("SELECT attempt, output FROM task_node WHERE task_id = %s AND status = 'COMPLETED'", task_id)
    for node in done:
        assert f"/{node['attempt']}/" in node["output"][0]["key"]
    # Whoever listens from the beginning hears every change of state once and in order.
    heard = listen(world, tenant_id, task_id)
    assert heard == list(range(1, row["event_sequence"] + 1))


def listen(world, tenant_id, task_id):
    place, heard = Place(), []
    while events := world.events.read(tenant_id=tenant_id, task_id=task_id, last=place, wait_ms=0):
        heard += [event.place.sequence for event in events if event.place.part == 0]
        assert [event.place for event in events] == sorted({event.place for event in events})
        assert events[0].place > place
        place = events[-1].place
    return heard
