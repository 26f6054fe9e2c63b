"""The life of a task with the real services and PostgreSQL: submission, run, results, settlement, failures."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from artiway.errors import Conflict, Refused
from artiway.identity.model import TenantSuspended
from artiway.points.model import InsufficientPoints
from artiway.tasks.model import (
    ColleaguesTask,
    DispatchBacklog,
    NoSuchTask,
    NotRetryable,
    QueueFull,
    Requester,
    TaskFilter,
    TaskStatus,
)
from tests.simulation.world import MANAGER, flow


def submit(world, tenant, tool="model_photo", *, count=None, inputs=None, params=None, webhook_url=None):
    tenant_id, user_id = tenant
    return world.tasks.submit(
        tenant_id=tenant_id,
        user_id=user_id,
        tool=tool,
        inputs=inputs or {"product": uuid4()},
        params=params or {},
        count=count,
        webhook_url=webhook_url,
    ).task


def submit_flow(world, tenant, *edges):
    tenant_id, user_id = tenant
    return world.tasks.submit_flow(
        tenant_id=tenant_id, user_id=user_id, name="f", nodes=flow(*edges), webhook_url=None
    ).task


def deliver_all(world):
    while world.deliver_one():
        pass


def held(world, name):
    return next((worker, one) for worker in world.workers for one in worker.held if one.order["name"] == name)


def running(world):
    return {one.order["name"] for worker in world.workers for one in worker.held}


def events_of(world, task):
    rows = world.rows("SELECT sequence, event, body FROM task_event WHERE task_id = %s ORDER BY sequence", task.task_id)
    assert [row["sequence"] for row in rows] == list(range(1, len(rows) + 1))
    return [(row["event"], row["body"].get("node")) for row in rows]


def test_model_photos_run_in_order_and_charge(world):
    tenant = world.tenant(points=100)
    world.worker()
    task = submit(world, tenant, count=3)
    assert world.balance(*tenant) == (70, 30)
    assert task.status is TaskStatus.QUEUED
    deliver_all(world)
    assert running(world) == {"cutout"}
    world.finish(*held(world, "cutout"))
    deliver_all(world)
    assert running(world) == {"model_1", "model_2", "model_3"}
    world.finish(*held(world, "model_2"))
    deliver_all(world)
    # A node waits for its own dependencies only.
    assert running(world) == {"model_1", "model_3", "compose_2"}
    world.run_to_end()
    row = world.task_row(task.task_id)
    assert (row["status"], row["charged_points"]) == ("COMPLETED", 30)
    assert world.balance(*tenant) == (70, 0)
    assert all(execution.is_over for execution in world.machine.executions.values())
    events = events_of(world, task)
    assert events[0] == ("queued", None)
    assert events[-2:] == [("completed", None), ("settled", None)]
    assert events.index(("completed", "cutout")) < events.index(("started", "model_1"))


def test_claim_returns_inputs_and_parameters(world):
    tenant = world.tenant()
    world.worker()
    picture = uuid4()
    task = submit(world, tenant, inputs={"product": picture})
    deliver_all(world)
    worker, holding = held(world, "cutout")
    assert holding.order["inputs"] == [
        {"name": "product", "key": f"inputs/{tenant[0]}/{picture}", "contentType": "image/png"}
    ]
    world.finish(worker, holding)
    deliver_all(world)
    order = held(world, "model_1")[1].order
    made = f"outputs/{tenant[0]}/{task.task_id}/{holding.order['nodeId']}/1/cutout.png"
    assert order["inputs"] == [{"name": "cutout", "key": made, "contentType": "image/png"}]
    assert order["params"]["step"] == "figure"
    assert (order["attempt"], order["leaseSeconds"]) == (1, 30)
    world.run_to_end()


def test_claim_succeeds_for_one_worker_only(world):
    tenant = world.tenant()
    task = submit(world, tenant, "style")
    world.worker()
    while not world.rows("SELECT 1 FROM slot_in_use"):
        world.deliver_one()
    (node,) = world.rows("SELECT node_id FROM task_node WHERE task_id = %s", task.task_id)
    asked = {"node_id": node["node_id"], "attempt": 1}
    assert world.nodes.claim(**asked, worker_id="a") is not None
    assert world.nodes.claim(**asked, worker_id="b") is None
    assert world.nodes.claim(**asked, worker_id="a") is not None
    assert world.nodes.claim(node_id=node["node_id"], attempt=2, worker_id="a") is None
    assert world.nodes.claim(node_id=uuid4(), attempt=1, worker_id="a") is None
    assert [event for event, _ in events_of(world, task)].count("started") == 1
    world.advance(60)
    world.run_to_end()


def test_failed_node_cancels_only_its_dependents(world):
    tenant = world.tenant(points=100)
    world.worker(slots=10)
    task = submit_flow(world, tenant, "a", "a>b", "b>c", "d", "d>e")
    deliver_all(world)
    world.fail(*held(world, "a"), is_retryable=False)
    world.run_to_end()
    assert world.statuses(task.task_id) == {
        "a": "FAILED",
        "b": "CANCELLED",
        "c": "CANCELLED",
        "d": "COMPLETED",
        "e": "COMPLETED",
    }
    row = world.task_row(task.task_id)
    assert (row["status"], row["charged_points"], row["price_points"]) == ("PARTIAL", 12, 30)
    assert row["error"]["code"] == "INPUT_UNDECODABLE"
    assert world.balance(*tenant) == (88, 0)


def test_retryable_failure_is_retried_three_times(world):
    tenant = world.tenant(points=100)
    world.worker()
    task = submit(world, tenant, "style")
    for _ in range(4):
        deliver_all(world)
        world.fail(*held(world, "style_1"), is_retryable=True)
        deliver_all(world)
        world.advance(20)
    world.run_to_end()
    assert world.statuses(task.task_id) == {"style_1": "FAILED"}
    (node,) = world.rows("SELECT attempt, failures FROM task_node WHERE task_id = %s", task.task_id)
    assert (node["attempt"], node["failures"]) == (4, 4)
    assert world.task_row(task.task_id)["status"] == "FAILED"
    assert world.balance(*tenant) == (100, 0)


def test_retry_waits_for_its_backoff(world):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "style")
    deliver_all(world)
    world.fail(*held(world, "style_1"), is_retryable=True)
    deliver_all(world)
    (node,) = world.rows(
        "SELECT status, extract(epoch FROM not_before - clock_timestamp()) AS wait FROM task_node WHERE task_id = %s",
        task.task_id,
    )
    assert node["status"] == "PENDING"
    assert 0 < node["wait"] <= 1.5
    world.run_to_end()


def test_late_result_of_old_attempt_changes_nothing(world):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "style")
    deliver_all(world)
    worker, holding = held(world, "style_1")
    world.advance(31)
    world.sweep()
    assert world.statuses(task.task_id) == {"style_1": "PENDING"}
    world.finish(worker, holding)
    deliver_all(world)
    assert world.statuses(task.task_id) != {"style_1": "COMPLETED"}
    world.run_to_end()
    (node,) = world.rows("SELECT attempt, output FROM task_node WHERE task_id = %s", task.task_id)
    assert node["attempt"] == 2
    assert "/2/" in node["output"][0]["key"]


def test_result_outside_its_prefix_is_refused(world):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "style")
    deliver_all(world)
    worker, holding = held(world, "style_1")
    holding.order = {**holding.order, "outputPrefix": "outputs/another/tenants/place/"}
    world.finish(worker, holding)
    deliver_all(world)
    assert world.statuses(task.task_id) == {"style_1": "PROCESSING"}
    world.advance(31)
    world.run_to_end()


def test_heartbeat_renews_leases_and_reports_cancellation(world):
    tenant = world.tenant()
    worker = world.worker()
    task, other = submit(world, tenant, "style"), submit(world, tenant, "style")
    deliver_all(world)
    world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
    nodes = [(UUID(one.order["nodeId"]), 1) for one in worker.held]
    verdicts, is_draining, renewed = world.nodes.beat(worker.card, nodes)
    by_task = {one.order["taskId"]: verdicts[UUID(one.order["nodeId"])] for one in worker.held}
    assert by_task == {str(task.task_id): "cancelled", str(other.task_id): "go"}
    assert not is_draining
    going = {UUID(one.order["nodeId"]): one.order for one in worker.held if one.order["taskId"] == str(other.task_id)}
    assert {node_id: row["inputs"] for node_id, row in renewed.items()} == {
        node_id: order["inputs"] for node_id, order in going.items()
    }
    stranger = world.worker("w2")
    verdicts = world.nodes.beat(stranger.card, nodes).verdicts
    assert set(verdicts.values()) == {"cancelled", "fenced"}
    world.run_to_end()


def test_release_returns_nodes_without_a_retry(world):
    tenant = world.tenant()
    worker = world.worker()
    task = submit(world, tenant, "style")
    deliver_all(world)
    (holding,) = worker.held
    released = world.nodes.release(worker_id="w1", held=[(UUID(holding.order["nodeId"]), 1), (uuid4(), 1)])
    worker.held.clear()
    assert released == 1
    assert world.rows("SELECT 1 FROM worker") == []
    deliver_all(world)
    (node,) = world.rows("SELECT attempt, failures, status FROM task_node WHERE task_id = %s", task.task_id)
    assert (node["attempt"], node["failures"], node["status"]) == (2, 0, "PROCESSING")
    world.run_to_end()


def test_cancel_stops_all_nodes_and_charges_results(world):
    tenant = world.tenant(points=100)
    world.worker(slots=10)
    task = submit_flow(world, tenant, "a", "a>b", "b>c", "d")
    deliver_all(world)
    world.finish(*held(world, "a"))
    deliver_all(world)
    assert running(world) == {"b", "d"}
    assert world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER) is TaskStatus.CANCELLED
    assert world.statuses(task.task_id) == {"a": "COMPLETED", "b": "CANCELLED", "c": "CANCELLED", "d": "CANCELLED"}
    assert world.balance(*tenant) == (94, 0)
    assert world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER) is TaskStatus.CANCELLED
    world.run_to_end()
    assert world.balance(*tenant) == (94, 0)
    assert all(execution.is_over for execution in world.machine.executions.values())


def test_cancel_of_colleagues_task_needs_task_manage(world):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "style")
    colleague = Requester(uuid4(), may_manage=False)
    with pytest.raises(ColleaguesTask) as refusal:
        world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=colleague)
    assert (refusal.value.code, refusal.value.details) == ("AUTH_403_FORBIDDEN", {"permission": "task.manage"})
    assert world.task_row(task.task_id)["cancel_requested_at"] is None
    with pytest.raises(NoSuchTask):  # in another tenant it is not found, with any permission
        world.tasks.cancel(tenant_id=world.tenant()[0], task_id=task.task_id, requester=MANAGER)
    manager = Requester(colleague.user_id, may_manage=True)
    assert world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=manager) is TaskStatus.CANCELLED
    world.run_to_end()


def test_user_cancels_and_retries_own_tasks(world):
    tenant = world.tenant()
    world.worker()
    owner = Requester(tenant[1], may_manage=False)
    task = submit(world, tenant, "style")
    assert world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=owner) is TaskStatus.CANCELLED
    failed = submit_flow(world, tenant, "a")
    deliver_all(world)
    world.fail(*held(world, "a"), is_retryable=False)
    world.run_to_end()
    again = world.tasks.retry(tenant_id=tenant[0], task_id=failed.task_id, requester=owner)
    assert again.status is TaskStatus.QUEUED
    world.run_to_end()


def test_retry_of_colleagues_task_needs_task_manage(world):
    tenant = world.tenant(points=100)
    world.worker()
    task = submit_flow(world, tenant, "a")
    deliver_all(world)
    world.fail(*held(world, "a"), is_retryable=False)
    world.run_to_end()
    colleague = Requester(uuid4(), may_manage=False)
    with pytest.raises(ColleaguesTask):
        world.tasks.retry(tenant_id=tenant[0], task_id=task.task_id, requester=colleague)
    assert world.task_row(task.task_id)["status"] == "FAILED"
    assert world.balance(*tenant) == (100, 0)
    assert world.tasks.retry(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER).run == 2
    world.run_to_end()


def test_ended_task_cannot_be_cancelled(world):
    tenant = world.tenant()
    world.worker()
    task = submit(world, tenant, "style")
    world.run_to_end()
    with pytest.raises(Conflict) as refusal:
        world.tasks.cancel(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
    assert refusal.value.code == "TASK_409_ENDED"


def test_retry_runs_and_charges_only_undone_nodes(world):
    tenant = world.tenant(points=100)
    world.worker(slots=10)
    task = submit_flow(world, tenant, "a", "a>b", "b>c", "d")
    deliver_all(world)
    world.fail(*held(world, "a"), is_retryable=False)
    world.run_to_end()
    assert world.balance(*tenant) == (94, 0)
    with pytest.raises(NoSuchTask):
        world.tasks.retry(tenant_id=world.tenant()[0], task_id=task.task_id, requester=MANAGER)
    again = world.tasks.retry(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
    assert (again.run, again.status) == (2, TaskStatus.QUEUED)
    assert world.balance(*tenant) == (76, 18)
    world.run_to_end()
    assert set(world.statuses(task.task_id).values()) == {"COMPLETED"}
    row = world.task_row(task.task_id)
    assert (row["status"], row["charged_points"]) == ("COMPLETED", 24)
    assert world.balance(*tenant) == (76, 0)
    with pytest.raises(NotRetryable):
        world.tasks.retry(tenant_id=tenant[0], task_id=task.task_id, requester=MANAGER)
    assert set(world.machine.executions) == {str(task.task_id), f"{task.task_id}-2"}


def test_full_queue_refuses_before_points_are_held(world):
    tenant = world.tenant("free", queue_depth=2)
    before = world.balance(*tenant)
    for _ in range(2):
        submit(world, tenant, "crop")
    with pytest.raises(QueueFull) as refusal:
        submit(world, tenant, "crop")
    assert refusal.value.code == "TASK_429_QUEUE_FULL"
    assert refusal.value.retry_after_s >= 1
    assert world.balance(*tenant) == (before[0] - 2, 2)
    world.worker()
    world.run_to_end()
    submit(world, tenant, "crop")
    world.run_to_end()


def test_full_lane_refuses_before_points_are_held(world):
    tenant = world.tenant("free", points=10)
    world.superuser.execute("INSERT INTO lane_setting (lane, depth_limit) VALUES ('free_default', 1)")
    submit(world, tenant, "crop")
    with pytest.raises(DispatchBacklog) as refusal:
        submit(world, tenant, "crop")
    assert refusal.value.code == "SCHED_503_DISPATCH_BACKLOG"
    assert world.balance(*tenant) == (9, 1)
    world.worker()
    world.run_to_end()


def test_suspended_tenant_may_not_submit(world):
    tenant = world.tenant(points=10)
    world.superuser.execute("UPDATE tenant SET status = 'SUSPENDED' WHERE tenant_id = %s", [tenant[0]])
    with pytest.raises(TenantSuspended) as refusal:
        submit(world, tenant, "crop")
    assert refusal.value.code == "TENANT_403_SUSPENDED"
    assert world.balance(*tenant) == (10, 0)


def test_task_beyond_balance_stores_nothing(world):
    tenant = world.tenant(points=5)
    with pytest.raises(InsufficientPoints):
        submit(world, tenant)
    assert world.rows("SELECT 1 FROM task") == []
    assert world.rows("SELECT 1 FROM outbox WHERE destination LIKE 'machine%%'") == []


def test_invalid_webhook_url_is_refused(world):
    tenant = world.tenant()
    for url in (
        "ftp://example.com",
        "http://",
        "nonsense",
        "https://user:pw@example.com",
        "http://[",
        "http://x:99999",
    ):
        with pytest.raises(Refused):
            submit(world, tenant, "crop", webhook_url=url)


def test_estimate_returns_price_and_changes_nothing(world):
    tenant = world.tenant("vip", points=0)
    world.worker(slots=2)
    asked = {"tenant_id": tenant[0], "inputs": {"product": uuid4()}, "params": {}}
    short = world.tasks.estimate(tool="style", count=1, **asked)
    assert (short.price_points, short.lane, short.timing.start_s, short.timing.end_s, short.nodes) == (
        5,
        "vip_short",
        0,
        8,
        1,
    )
    long = world.tasks.estimate(tool="model_photo", count=3, **asked)
    assert (long.price_points, long.lane, long.timing.end_s, long.nodes) == (30, "vip_long", 6 + 3 * (8 + 4), 7)
    assert world.rows("SELECT 1 FROM task") == []


def test_enterprise_has_its_own_lane_and_pool(world):
    task = submit(world, world.tenant("enterprise"), "crop")
    assert (task.lane, task.pool) == ("enterprise_exclusive", "enterprise")
    world.worker()
    world.run_to_end()


def test_tasks_are_listed_newest_first_and_filtered(world):
    tenant, stranger = world.tenant(), world.tenant()
    first, second = submit(world, tenant, "crop"), submit(world, tenant, "style")
    submit(world, stranger, "crop")

    def listed(limit=10, before=None, **wanted):
        found = world.tasks.tasks(tenant_id=tenant[0], wanted=TaskFilter(**wanted), before=before, limit=limit)
        return [task.task_id for task, _ in found]

    assert listed() == [second.task_id, first.task_id]
    assert listed(limit=1, before=second.task_id) == [first.task_id]
    assert listed(tool="crop") == [first.task_id]
    assert listed(status="COMPLETED") == []
    assert listed(user_id=stranger[1]) == []
    world.worker()
    world.run_to_end()


def test_task_of_another_tenant_is_not_found(world):
    tenant, stranger = world.tenant(), world.tenant()
    task = submit(world, tenant, "crop")
    with pytest.raises(NoSuchTask):
        world.tasks.view(tenant_id=stranger[0], task_id=task.task_id)
    for act in (world.tasks.cancel, world.tasks.retry):
        with pytest.raises(NoSuchTask):
            act(tenant_id=stranger[0], task_id=task.task_id, requester=MANAGER)
    world.worker()
    world.run_to_end()


def test_compensation_ends_open_nodes(world):
    tenant = world.tenant(points=100)
    world.worker()
    task = submit_flow(world, tenant, "a", "a>b")
    deliver_all(world)
    world.finish(*held(world, "a"))
    deliver_all(world)
    assert world.nodes.compensate(tenant_id=tenant[0], task_id=task.task_id) is TaskStatus.PARTIAL
    assert world.balance(*tenant) == (94, 0)
    assert world.nodes.settle(tenant_id=tenant[0], task_id=uuid4()) is None
    world.run_to_end()
