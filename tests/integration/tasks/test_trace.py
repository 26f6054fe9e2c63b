"""Everything that is done for a task is published and logged under the trace id of its submission."""

from __future__ import annotations

import json
import logging

import pytest

from artiway.delivery.webhooks.model import Answer
from artiway.delivery.webhooks.repository import PostgresDueDeliveries
from artiway.outbox.repository import Outbox
from artiway.platform import logs, tracing
from tests.integration.tasks.test_life import deliver_all, submit, submit_flow
from tests.integration.tasks.test_recovery import sent
from tests.simulation.world import NoPost

FIRST, SECOND, OTHER = (f"1-65f0000{number}-0123456789abcdef01234567" for number in range(3))


@pytest.fixture(autouse=True)
def level():
    ours = logging.getLogger(logs.SERVICE)
    before = ours.level
    ours.setLevel("INFO")
    yield
    ours.setLevel(before)


@pytest.fixture
def two_tasks(world):
    """Two tasks of different requests, by trace id."""
    tasks = {}
    for trace_id in (FIRST, SECOND):
        with tracing.traced(trace_id):
            tasks[trace_id] = submit(world, world.tenant(), "style")
    with tracing.traced(OTHER):
        yield tasks


def traces_of(bodies):
    return {body["traceId"]: body["data"].get("taskId") for body in bodies}


def expected(tasks):
    return {trace_id: str(task.task_id) for trace_id, task in tasks.items()}


def lines(capsys, message):
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in found if line.get("message") == message]


def test_work_messages_of_a_batch_differ(world, two_tasks, capsys):
    world.worker()
    nodes = world.node_store
    ready = nodes.mark_ready([row["node_id"] for row in world.rows("SELECT node_id FROM task_node")])
    nodes.dispatch([(node.node_id, 1, 1) for node in ready])
    assert traces_of(sent(world, "work:")) == expected(two_tasks)
    stored = world.rows("SELECT trace_id FROM outbox WHERE destination LIKE 'work:%%'")
    assert {row["trace_id"] for row in stored} <= {FIRST, SECOND}
    written = lines(capsys, "node dispatched")
    assert {line["trace_id"]: line["task_id"] for line in written} == expected(two_tasks)


def test_resent_work_messages_keep_the_id(world, two_tasks):
    world.worker()
    while len(world.rows("SELECT 1 FROM slot_in_use")) < 2:
        world.deliver_one()
    world.network.messages.clear()
    world.advance(41)
    assert world.sweeper.unclaimed() == 2
    assert traces_of(sent(world, "work:")) == expected(two_tasks)


def test_resent_ready_messages_keep_the_id(world, two_tasks):
    world.network.messages.clear()
    world.advance(31)
    world.sweeper.quick()
    assert traces_of(sent(world, "lane:")) == expected(two_tasks)


def test_execution_is_started_again_under_the_id(world, two_tasks):
    world.network.messages.clear()
    world.advance(301)
    assert world.sweeper.executions() == 2
    assert {body["traceId"] for body in sent(world, "machine:")} == {FIRST, SECOND}
    world.worker()
    world.run_to_end()


def test_retry_after_lost_lease_keeps_the_id(world, two_tasks):
    world.worker()
    deliver_all(world)
    for worker in world.workers:
        worker.held.clear()
    world.advance(31)
    assert world.sweeper.leases() == 2
    assert traces_of(sent(world, "lane:")) == expected(two_tasks)
    assert tracing.current() == OTHER, "a transaction restores the trace id"


def test_lines_and_durations_of_a_node(world, capsys):
    world.worker()
    with tracing.traced(FIRST):
        task = submit_flow(world, world.tenant(), "a", "a>b")
    capsys.readouterr()
    with tracing.traced(OTHER):
        world.run_to_end()
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    named = [line for line in found if line.get("task_id") == str(task.task_id)]
    assert {line["message"] for line in named} >= {"node dispatched", "node claimed", "node completed", "task ended"}
    assert {line["trace_id"] for line in named} == {FIRST}
    durations = [line for line in found if "NodeSeconds" in line]
    assert len(durations) == 2
    assert {(line["pool"], line["type"]) for line in durations} == {("gpu", "model")}
    assert all(line["NodeSeconds"][0] >= 0 for line in durations)


class Refusing(NoPost):
    """A receiver that answers 500. Keeps the headers of each request."""

    def __init__(self):
        self.headers = []

    def post(self, url, body, headers):
        self.headers.append(headers)
        return Answer(500, "no")


def test_retried_delivery_keeps_the_id(world, monkeypatch):
    world.worker()
    post = Refusing()
    monkeypatch.setattr(world.webhooks, "_post", post)
    with tracing.traced(FIRST):
        submit(world, world.tenant(), "style", webhook_url="https://shop.example.com/hook")
    with tracing.traced(OTHER):
        world.run_to_end()
        (delivery,) = world.rows("SELECT tenant_id, delivery_id FROM webhook_delivery")
        world.network.messages.clear()
        world.webhooks.deliver(**delivery)
        world.superuser.execute("UPDATE webhook_delivery SET next_try_at = now() - interval '1 minute'")
        outbox = Outbox(world.relay.deliver, world.clock)
        assert PostgresDueDeliveries(world.service_database, outbox).publish(limit=9, tenant_limit=9) == 1
    assert [headers["X-Trace-Id"] for headers in post.headers] == [FIRST]
    assert [body["traceId"] for body in sent(world, "webhook")] == [FIRST, FIRST], "the retry, and the watchdog's"
