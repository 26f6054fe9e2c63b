"""Tasks of all tenants for operators: search, history, bulk cancel and retry; and usage of a tenant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from artiway.audit.repository import AuditLog, AuditTrail
from artiway.errors import Refused
from artiway.ids import new_id, to_wire
from artiway.tasks.model import NoSuchTask, TaskSearch, TaskStatus
from artiway.tasks.operations import TaskOperations
from artiway.tasks.repository import PostgresTaskSearch
from artiway.usage.model import usage_query
from artiway.usage.repository import PostgresUsage
from tests.integration.tasks.test_life import deliver_all, held, submit

ADMIN = new_id()


@pytest.fixture
def operations(world, service_database):
    trail = AuditTrail(service_database, service_database, AuditLog())
    return TaskOperations(PostgresTaskSearch(service_database), world.tasks, trail)


def found(operations, **wanted):
    return [one.task_id for one in operations.search(TaskSearch(**wanted), before=None, limit=10)]


def fail(world):
    worker, order = held(world, "cutout")
    world.fail(worker, order)


def test_search_finds_tasks_of_every_tenant(world, operations):
    ann, bob = world.tenant(), world.tenant()
    world.superuser.execute("UPDATE app_user SET email = 'ann@example.com' WHERE user_id = %s", [ann[1]])
    first, second = submit(world, ann, "cutout"), submit(world, bob, "crop")
    assert found(operations) == [second.task_id, first.task_id]
    assert found(operations, email="ann@example.com") == [first.task_id]
    assert found(operations, tenant_id=bob[0]) == [second.task_id]
    assert found(operations, tool="crop", status="QUEUED") == [second.task_id]
    assert found(operations, status="FAILED") == []
    assert found(operations, task_id=first.task_id, trace_id=first.trace_id) == [first.task_id]
    assert operations.search(TaskSearch(), before=second.task_id, limit=1)[0].user_email == "ann@example.com"


def test_history_has_every_change_with_its_worker(world, operations):
    tenant = world.tenant()
    world.worker("w7")
    task = submit(world, tenant, "cutout")
    deliver_all(world)
    world.finish(*held(world, "cutout"))
    deliver_all(world)
    history = operations.history(task.task_id)
    assert [node["status"] for node in history.nodes] == ["COMPLETED"]
    assert [step.to_status for step in history.steps][-2:] == ["PROCESSING", "COMPLETED"]
    assert {step.worker_id for step in history.steps if step.to_status == "PROCESSING"} == {"w7"}
    with pytest.raises(NoSuchTask):
        operations.history(new_id())


def test_bulk_cancel_does_what_it_can(world, operations):
    ann, bob = world.tenant(points=50), world.tenant(points=50)
    tasks = [submit(world, tenant, "cutout") for tenant in (ann, bob)]
    missing = new_id()
    handled = operations.cancel([tasks[0].task_id, missing, tasks[1].task_id, missing], actor_id=ADMIN)
    assert [(one.task_id, one.status, one.error and one.error.code) for one in handled] == [
        (tasks[0].task_id, TaskStatus.CANCELLED, None),
        (missing, None, "TASK_404_NO_TASK"),
        (tasks[1].task_id, TaskStatus.CANCELLED, None),
    ]
    assert world.balance(*ann) == world.balance(*bob) == (50, 0)
    targets = world.rows("SELECT target FROM audit_log WHERE action = 'task.cancelled' ORDER BY at")
    assert [row["target"] for row in targets] == [to_wire("task", task.task_id) for task in tasks]


def test_bulk_retry_refuses_task_without_failure(world, operations):
    tenant = world.tenant(points=50)
    task = submit(world, tenant, "cutout")
    (handled,) = operations.retry([task.task_id], actor_id=ADMIN)
    assert handled.error.code == "TASK_409_NOT_RETRYABLE"


class TestUsage:
    def lines(self, world, tenant, *, by="day", user_id=None, days=3):
        today = datetime.now(UTC).date()
        query = usage_query(
            first=today - timedelta(days=days),
            last=today + timedelta(days=1),
            today=today,
            time_zone="UTC",
            by=by,
            user_id=user_id,
        )
        return PostgresUsage(world.database).lines(tenant[0], query)

    def test_usage_is_grouped_by_day_tool_and_person(self, world):
        tenant, stranger = world.tenant(), world.tenant()
        world.worker()
        for tool, of in (("cutout", tenant), ("crop", tenant), ("cutout", stranger)):
            submit(world, of, tool)
            deliver_all(world)
            world.finish(*held(world, tool))
            deliver_all(world)
        by_tool = {line.tool: (line.tasks, line.points) for line in self.lines(world, tenant, by="tool")}
        assert by_tool == {"cutout": (1, 2), "crop": (1, 1)}
        (total,) = self.lines(world, tenant, by="")
        assert (total.tasks, total.points, total.day) == (2, 3, None)
        (of_user,) = self.lines(world, tenant, by="user")
        assert of_user.user_id == tenant[1]
        (of_day,) = self.lines(world, tenant, by="day")
        assert of_day.points == 3
        assert self.lines(world, tenant, user_id=stranger[1]) == []

    @pytest.mark.parametrize(
        "wish",
        [
            {"time_zone": "Mars/Olympus"},
            {"time_zone": "../../etc/passwd"},
            {"by": "day,colour"},
            {"first": datetime(2026, 1, 1, tzinfo=UTC).date()},
            {"first": datetime(2027, 1, 1, tzinfo=UTC).date()},
            {"last": datetime(1, 1, 5, tzinfo=UTC).date()},
            {"last": datetime(9999, 12, 31, tzinfo=UTC).date()},
        ],
    )
    def test_wish_that_cannot_be_met_is_refused(self, wish):
        asked = {"first": None, "last": None, "time_zone": "UTC", "by": "day", "user_id": None} | wish
        with pytest.raises(Refused):
            usage_query(today=datetime(2026, 11, 18, tzinfo=UTC).date(), **asked)
