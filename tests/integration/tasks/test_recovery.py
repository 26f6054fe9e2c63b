"""The sweeps: each state that is not final has one."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from artiway.recovery.service import SweepThresholds
from tests.integration.tasks.test_life import deliver_all, held, submit, submit_flow
from tests.simulation.world import World


def node_of(world, task):
    (node,) = world.rows("SELECT * FROM task_node WHERE task_id = %s", task.task_id)
    return node


def sent(world, kind):
    return [message.body for message in world.network.messages if message.destination.startswith(kind)]


def test_expired_lease_costs_a_retry(world):
    world.worker()
    task = submit(world, world.tenant(), "style")
    deliver_all(world)
    world.workers[0].held.clear()
    world.advance(29)
    assert world.sweeper.leases() == 0
    world.advance(2)
    assert world.sweeper.leases() == 1
    assert world.sweeper.leases() == 0
    node = node_of(world, task)
    assert (node["status"], node["failures"], node["error"]["code"]) == ("PENDING", 1, "WORKER_LOST")
    world.run_to_end()
    assert world.task_row(task.task_id)["status"] == "COMPLETED"


def test_heartbeat_in_time_keeps_the_lease(world):
    world.worker()
    submit(world, world.tenant(), "style")
    deliver_all(world)
    for _ in range(5):
        world.advance(20)
        world.beat()
        assert world.sweeper.leases() == 0
    world.run_to_end()


def test_leases_that_expire_together_get_grace(world):
    worker = world.worker(slots=10)
    tenant = world.tenant()
    for _ in range(6):
        submit(world, tenant, "style")
    deliver_all(world)
    assert len(worker.held) == 6
    world.advance(60)
    assert world.sweeper.leases() == 0
    world.beat()  # the platform was down for a short time
    assert len(worker.held) == 6
    world.advance(31 + SweepThresholds().outage_grace_s)
    assert world.sweeper.leases() == 6
    worker.held.clear()
    world.run_to_end()


def test_unclaimed_work_message_is_resent(world):
    task = submit(world, world.tenant(), "style")
    world.worker()
    while not world.rows("SELECT 1 FROM slot_in_use"):
        world.deliver_one()
    world.network.messages.clear()  # the message is lost
    world.advance(41)
    assert world.sweeper.unclaimed() == 1
    (message,) = sent(world, "work:")
    assert message["data"] == {
        "nodeId": str(node_of(world, task)["node_id"]),
        "tenantId": str(task.tenant_id),
        "taskId": str(task.task_id),
        "attempt": 1,
    }
    assert world.sweeper.unclaimed() == 0
    world.run_to_end()
    assert node_of(world, task)["attempt"] == 1


def test_node_unclaimed_for_long_returns_its_slot(world):
    task = submit(world, world.tenant(), "style")
    world.worker()
    while not world.rows("SELECT 1 FROM slot_in_use"):
        world.deliver_one()
    world.network.messages.clear()
    world.advance(601)
    assert world.sweeper.unclaimed() == 1
    node = node_of(world, task)
    assert (node["status"], node["failures"]) == ("PENDING", 0)
    assert world.rows("SELECT 1 FROM slot_in_use") == []
    world.run_to_end()


def test_node_without_execution_gets_ready_message(world):
    task = submit(world, world.tenant(), "style")
    world.network.messages.clear()  # no execution is started
    world.advance(31)
    world.sweeper.quick()
    (message,) = sent(world, "lane:")
    assert message["data"]["nodeId"] == str(node_of(world, task)["node_id"])
    world.worker()
    world.run_to_end()


def test_lost_execution_is_started_again(world):
    world.worker()
    task = submit_flow(world, world.tenant(), "a", "a>b")
    deliver_all(world)
    world.machine.restart()
    world.advance(301)
    assert world.sweeper.executions() == 1
    assert world.sweeper.executions() == 0
    deliver_all(world)
    assert set(world.machine.executions) == {str(task.task_id)}
    world.run_to_end()


def test_long_running_node_fails_or_is_requeued(addresses, valkey):
    for tools, status in ((frozenset(), "FAILED"), (frozenset({"style"}), "COMPLETED")):
        world = World(addresses, valkey, requeued_tools=tools)
        world.worker()
        task = submit(world, world.tenant(), "style")
        deliver_all(world)
        for _ in range(8):
            world.advance(900)
            world.beat()
        world.workers[0].held.clear()
        assert world.sweeper.long_running() == 1
        world.run_to_end()
        assert world.task_row(task.task_id)["status"] == status
        world.assert_invariants()
        world.close()


def test_unanswered_token_is_answered(world):
    world.worker()
    task = submit_flow(world, world.tenant(), "a", "a>b")
    deliver_all(world)
    world.superuser.execute("CREATE TEMP TABLE kept AS SELECT * FROM node_token")
    world.finish(*held(world, "a"))
    deliver_all(world)
    world.superuser.execute("INSERT INTO node_token SELECT * FROM kept ON CONFLICT DO NOTHING")
    world.network.messages.clear()
    world.advance(61)
    assert world.sweeper.slow()["tokens"] == 1
    assert sent(world, "machine:answer")
    world.run_to_end()
    assert world.task_row(task.task_id)["status"] == "COMPLETED"


def test_token_of_ended_node_is_answered_at_once(world):
    world.worker()
    task = submit(world, world.tenant(), "style")
    world.run_to_end()
    node_id = node_of(world, task)["node_id"]
    world.node_store.mark_ready([node_id], {node_id: "late-token"})
    assert [body["data"]["token"] for body in sent(world, "machine:answer")] == ["late-token"]


def test_workers_without_heartbeat_are_deleted(world):
    world.worker()
    world.superuser.execute("UPDATE worker SET beat_at = now() - interval '10 minutes'")
    assert world.sweeper.slow()["workers"] == 1
    assert world.rows("SELECT 1 FROM worker") == []


def test_failed_sweep_does_not_stop_the_others(world, monkeypatch):
    world.worker()
    submit(world, world.tenant(), "style")
    deliver_all(world)
    world.advance(31)

    def broken(**_):
        raise RuntimeError("no")

    monkeypatch.setattr(world.sweeper._overdue, "unclaimed", broken)
    counts = world.sweeper.quick()
    assert counts["leases"] == 1
    assert "unclaimed" not in counts
    world.run_to_end()


def test_every_sweep_belongs_to_a_pass(world):
    of_texts = {"text_leases", "text_cancels", "text_messages"}
    assert set(world.sweeper.quick()) == {"leases", "stopped", "unclaimed", "unready", *of_texts}
    assert set(world.sweeper.slow()) == {
        "long_running",
        "executions",
        "tokens",
        "finished",
        "holds",
        "workers",
        "text_holds",
    }


def test_task_without_open_nodes_is_ended(world):
    world.worker()
    tenant = world.tenant(points=100)
    task = submit(world, tenant, "style")
    deliver_all(world)
    world.superuser.execute(
        "UPDATE task_node SET status = 'CANCELLED', version = version + 1, lease_until = NULL, ended_at = now()"
    )
    assert world.balance(*tenant) == (95, 5)
    world.advance(61)
    assert world.sweeper.slow()["finished"] == 1
    assert world.task_row(task.task_id)["status"] == "FAILED"
    assert world.balance(*tenant) == (100, 0)
    world.run_to_end()


# Expired objects


def expired(world, table):
    return world.rows(f"SELECT key FROM {table} WHERE cleanup_status = 1")


def test_only_expired_objects_are_deleted(world):
    world.worker()
    old, young = (submit(world, world.tenant("free"), "style") for _ in range(2))
    world.run_to_end()
    kept = {row["key"] for row in world.rows("SELECT key FROM artefact WHERE task_id = %s", young.task_id)}
    world.superuser.execute("UPDATE artefact SET expires_at = now() - interval '1 s' WHERE task_id = %s", [old.task_id])
    assert world.sweeper.expire_objects() == 1
    assert len(world.bucket.deleted) == 1
    assert not kept & set(world.bucket.deleted)
    assert [row["key"] for row in expired(world, "artefact")] == world.bucket.deleted
    assert world.sweeper.expire_objects() == 0


def test_failed_deletion_is_repeated_by_next_run(world):
    world.worker()
    task = submit(world, world.tenant("free"), "style")
    world.run_to_end()
    world.superuser.execute("UPDATE artefact SET expires_at = now() - interval '1 s'")
    world.bucket.failing = {row["key"] for row in world.rows("SELECT key FROM artefact")}
    assert world.sweeper.expire_objects() == 0
    assert expired(world, "artefact") == []
    world.bucket.failing = set()
    assert world.sweeper.expire_objects() == 1
    assert world.task_row(task.task_id)["status"] == "COMPLETED"


@pytest.mark.parametrize(("tier", "days"), [("free", 3), ("standard", 15), ("vip", 30), ("enterprise", 180)])
def test_result_is_kept_for_days_of_its_tier(world, tier, days):
    world.worker()
    submit(world, world.tenant(tier), "style")
    world.run_to_end()
    (row,) = world.rows("SELECT expires_at - created_at AS kept FROM artefact")
    assert abs(row["kept"].total_seconds() - days * 86_400) < 60


def test_database_refuses_slot_without_attempt(world):
    world.worker()
    task = submit(world, world.tenant(), "style")
    deliver_all(world)
    with pytest.raises(psycopg.errors.CheckViolation):
        world.superuser.execute("UPDATE task_node SET dispatched_at = NULL WHERE task_id = %s", [task.task_id])
    world.run_to_end()


def test_hold_of_live_task_is_kept(world):
    tenant = world.tenant(points=100)
    submit(world, tenant, "style")
    world.advance(10_000)
    assert world.sweeper.holds() == 0
    assert world.balance(*tenant) == (95, 5)
    world.worker()
    world.run_to_end()


def test_hold_of_ended_task_is_released(addresses, valkey):
    world = World(addresses, valkey)
    tenant = world.tenant(points=100)
    hold_id = uuid4()
    world.worker()
    task = submit(world, tenant, "style")
    world.run_to_end()
    world.points.place_hold(
        tenant_id=tenant[0], user_id=tenant[1], hold_id=hold_id, amount_points=7, expires_at=world.clock.now()
    )
    world.superuser.execute("UPDATE task SET hold_id = %s WHERE task_id = %s", [hold_id, task.task_id])
    assert world.balance(*tenant) == (88, 7)
    assert world.sweeper.holds() == 1
    assert world.balance(*tenant) == (95, 0)
    world.close()
