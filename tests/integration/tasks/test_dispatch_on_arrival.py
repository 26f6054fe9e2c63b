"""Dispatch when a worker registers, the limit of a model, and events of users without an open socket."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from artiway import bootstrap
from artiway.tasks.model import WorkerCard
from artiway.tasks.reports import report_from
from tests.integration.tasks.test_life import deliver_all, running, submit
from tests.simulation.world import POOL
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]


def test_new_worker_gets_waiting_nodes_at_once(world):
    world.use_fair_queue()
    submit(world, world.tenant(), "cutout")
    deliver_all(world)
    assert running(world) == set()
    world.worker("late", ["cutout"])
    deliver_all(world)
    assert running(world) == {"cutout"}


def test_worker_without_slots_publishes_no_message(world):
    world.use_fair_queue()
    deliver_all(world)
    world.node_store.register(WorkerCard("leaving", POOL, ("cutout",), 0), engine="fake")
    assert world.rows("SELECT 1 FROM outbox WHERE aggregate = 'worker:leaving'") == []


def test_worker_of_unused_pool_publishes_no_message(world):
    world.node_store.register(WorkerCard("stray", "elsewhere", ("cutout",), 1), engine="fake")
    assert world.rows("SELECT 1 FROM outbox WHERE aggregate = 'worker:stray'") == []


def test_scheduler_handles_nodes_and_workers_in_one_batch(world):
    world.use_fair_queue()
    submit(world, world.tenant(), "cutout")
    world.worker("w1", ["cutout"])
    while (message := world.network.take()) is not None and not message.destination.startswith("lane:"):
        world.receive(message)
    assert message is not None
    node = world.rows("SELECT node_id FROM task_node")[0]["node_id"]
    bodies = [{"type": "worker_came", "data": {"pool": POOL}}, {"type": "ready", "data": {"nodeId": str(node)}}, {}]
    records = [{"messageId": str(number), "body": json.dumps(body)} for number, body in enumerate(bodies)]
    handler = load_handler(ROOT / "functions/scheduler").handler
    assert handler({"Records": records}, None) == {"batchItemFailures": [{"itemIdentifier": "2"}]}
    assert world.rows("SELECT attempt FROM task_node")[0]["attempt"] == 1


def test_ends_of_one_batch_release_their_slots_together(world, monkeypatch):
    world.use_fair_queue()
    worker = world.worker("w1")
    for _ in range(2):
        submit(world, world.tenant(), "model_photo")
    deliver_all(world)
    assert running(world) == {"cutout"}
    for holding in list(worker.held):
        world.finish(worker, holding)
    reports = [message for message in world.network.messages if message.destination.startswith("progress:")]
    assert len(reports) == 2
    scheduler, released = bootstrap.scheduler(), []
    release = scheduler.release
    monkeypatch.setattr(scheduler, "release", lambda slots, ready: released.append(len(slots)) or release(slots, ready))
    assert world.progress.handle([report_from(one.body["type"], one.body["data"]) for one in reports]) == []
    assert released == [2]
    states = world.rows("SELECT name, status, attempt FROM task_node WHERE type = 'model'")
    assert [(row["status"], row["attempt"]) for row in states] == [("QUEUED", 1)] * 2


def test_limit_of_model_delays_only_its_nodes(world):
    world.use_fair_queue()
    world.worker("w1")
    bootstrap.operations().limit_model("diffusion", 1, actor_id=None)
    tenant = world.tenant()
    submit(world, tenant, "scene", count=3)
    submit(world, tenant, "cutout")
    deliver_all(world)
    models = world.rows("SELECT step, model, status FROM task_node")
    assert {row["model"] for row in models if row["step"] == "scene"} == {"diffusion"}
    assert [row["status"] for row in models if row["step"] == "scene"].count("PROCESSING") == 1
    assert [row["status"] for row in models if row["step"] == "cutout"].count("PROCESSING") >= 1


def test_events_are_stored_and_sent_to_open_sockets(world):
    tenant_id, user_id = world.tenant()
    submit(world, (tenant_id, user_id), "cutout")
    world.superuser.execute("UPDATE websocket_connection SET closed_at = now() WHERE user_id = %s", [user_id])
    submit(world, (tenant_id, user_id), "cutout")
    pushed = [message for message in world.network.messages if message.destination == "push"]
    stored = world.rows("SELECT sent_at FROM outbox WHERE aggregate = %s", f"user:{user_id}")
    assert (len(pushed), len(stored)) == (1, 2)
    assert all(row["sent_at"] is not None for row in stored)


NEVER, OPENED, EXPIRED = "never", "opened and closed", "opened long ago"


@pytest.mark.parametrize(
    ("own", "of_tenant", "is_numbered"),
    [
        (NEVER, NEVER, False),
        (EXPIRED, EXPIRED, False),
        (OPENED, NEVER, True),
        (NEVER, OPENED, True),
    ],
)
def test_events_are_numbered_where_cursors_may_be_held(world, own, of_tenant, is_numbered):
    """The events of a running task. Those of a submission are numbered with the message that starts its execution."""
    tenant_id, user_id = world.tenant()
    submit(world, (tenant_id, user_id), "cutout")
    world.superuser.execute("DELETE FROM websocket_connection")
    world.superuser.execute("DELETE FROM cursor_holder")
    for scope, reader_id, state in (("user", user_id, own), ("tenant", uuid4(), of_tenant)):
        if state is not NEVER:
            world.superuser.execute(
                "INSERT INTO websocket_connection (connection_id, tenant_id, user_id, scope, expires_at, closed_at)"
                " VALUES (%s, %s, %s, %s, now(), now())",
                [scope, tenant_id, reader_id, scope],
            )
        if state is EXPIRED:
            world.superuser.execute("UPDATE cursor_holder SET held_until = now() WHERE scope = %s", [scope])
    world.superuser.execute("DELETE FROM outbox WHERE destination = 'push'")
    (before,) = world.rows("SELECT count(*) AS events FROM task_event")
    world.worker()
    world.run_to_end()
    (after,) = world.rows("SELECT count(*) AS events FROM task_event")
    (numbered,) = world.rows("SELECT count(*) AS events FROM outbox WHERE aggregate = %s", f"user:{user_id}")
    added = after["events"] - before["events"]
    assert added >= 4
    assert numbered["events"] == (added if is_numbered else 0)


def test_user_with_open_socket_has_listener(world):
    tenant_id, user_id = world.tenant()
    with world.store.open(tenant_id) as tx:
        assert tx.has_listener(user_id)
    world.superuser.execute("UPDATE websocket_connection SET closed_at = now() WHERE user_id = %s", [user_id])
    with world.store.open(tenant_id) as tx:
        assert not tx.has_listener(user_id)


def test_tenant_wide_socket_counts_as_listener(world):
    tenant_id, user_id = world.tenant()
    world.superuser.execute("UPDATE websocket_connection SET scope = 'tenant', user_id = %s", [uuid4()])
    with world.store.open(tenant_id) as tx:
        assert tx.has_listener(user_id)
