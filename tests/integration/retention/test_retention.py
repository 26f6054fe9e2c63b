"""Retention with tasks that the services made: what users see afterwards, races, crashes, limits of a pass."""

from __future__ import annotations

import contextlib
import itertools
import threading
from datetime import timedelta

import psycopg
import pytest

from artiway.delivery.feed.model import EntryId
from artiway.platform.database import Database, DatabaseAway
from artiway.retention.model import Batch
from artiway.retention.repository import SQL, PostgresExpiredRows
from artiway.retention.rules import RULES
from artiway.retention.service import RetentionService
from artiway.retention.settings import EVENT_DAYS, HISTORY_DAYS, TASK_DAYS
from artiway.settings.model import Defaults, Fixed
from artiway.settings.registry import settings
from artiway.tasks.model import NoSuchTask
from tests.integration.retention.passes import purge
from tests.integration.tasks.test_life import deliver_all, held, submit_flow
from tests.simulation.world import MANAGER, World

TASK_ROWS = ("task", "task_node", "node_history", "node_dependency", "task_event", "artefact", "node_token")


@pytest.fixture
def world(addresses, valkey):
    world = World(addresses, valkey)
    world.worker(slots=10)
    yield world
    world.assert_invariants()
    world.close()


@pytest.fixture
def partial_task(world):
    """A task whose first node completed and whose second failed."""
    tenant = world.tenant(points=100)
    task = submit_flow(world, tenant, "one", "two")
    deliver_all(world)
    world.fail(*held(world, "two"), is_retryable=False)
    world.run_to_end()
    return task


def age(world, days, *, is_cleaned=True):
    """Move the ended tasks into the past, with all that belongs to them."""
    for table, columns in {
        "task": ("created_at", "ended_at"),
        "task_node": ("created_at", "ended_at"),
        "node_history": ("changed_at",),
        "points_hold": ("created_at", "ended_at"),
    }.items():
        moved = ", ".join(f"{column} = {column} - interval '{days} days'" for column in columns)
        world.superuser.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER; UPDATE {table} SET {moved};"
                                f"ALTER TABLE {table} ENABLE TRIGGER USER".encode())  # fmt: skip
    world.superuser.execute("UPDATE artefact SET expires_at = expires_at - %s", [timedelta(days=days)])
    if is_cleaned:
        assert world.sweeper.expire_objects() > 0


def count(world, table):
    return world.rows(f"SELECT count(*) AS rows FROM {table}")[0]["rows"]


def test_old_task_leaves_with_all_its_rows(world, partial_task):
    age(world, 181)
    before = {table: count(world, table) for table in TASK_ROWS}
    purged = purge(world.service_database)
    assert {table: count(world, table) for table in TASK_ROWS} == dict.fromkeys(TASK_ROWS, 0)
    assert purged["task_events"] + purged["node_history"] + purged["tasks"] == sum(before.values())
    with pytest.raises(NoSuchTask):
        world.tasks.view(tenant_id=partial_task.tenant_id, task_id=partial_task.task_id)


def test_ledger_keeps_the_task_of_each_entry(world, partial_task):
    entries = world.rows("SELECT * FROM points_ledger ORDER BY version")
    account = world.rows("SELECT * FROM points_account")
    age(world, 500)
    purge(world.service_database)
    assert world.rows("SELECT * FROM points_ledger ORDER BY version") == entries
    assert world.rows("SELECT * FROM points_account") == account
    assert f"task:{partial_task.task_id}" in {entry["reference"] for entry in entries}
    assert count(world, "points_hold") == 0
    world.assert_invariants()


def test_task_with_a_stored_picture_stays(world, partial_task):
    age(world, 200, is_cleaned=False)
    purge(world.service_database)
    assert count(world, "task") == 1
    world.sweeper.expire_objects()
    purge(world.service_database)
    assert count(world, "task") == 0


def test_purged_events_end_the_stream(world, partial_task):
    world.redis.flushall()
    age(world, 40)
    purge(world.service_database)
    last = world.rows("SELECT max(sequence) AS last FROM task_event")[0]["last"]
    seen, cursor = [], EntryId(0)
    wanted = {"tenant_id": partial_task.tenant_id, "task_id": partial_task.task_id}
    while (events := world.events.available(**wanted, last=cursor)) is not None:
        assert events, "the stream does not end"
        seen += [event.entry_id.sequence for event in events]
        cursor = events[-1].entry_id
    assert seen == [last]


def test_retried_task_is_purged_from_the_start(world, partial_task):
    """Its events and history start again, and readers receive the new events."""
    age(world, 100)
    purge(world.service_database)
    assert world.rows("SELECT purge_stage FROM task") == [{"purge_stage": 2}]
    world.assert_invariants()
    first = count(world, "task_event")
    world.tasks.retry(tenant_id=partial_task.tenant_id, task_id=partial_task.task_id, requester=MANAGER)
    assert world.rows("SELECT purge_stage FROM task") == [{"purge_stage": 0}]
    purge(world.service_database)
    world.run_to_end()
    world.redis.flushall()
    events = world.events.available(tenant_id=partial_task.tenant_id, task_id=partial_task.task_id, last=EntryId(0))
    assert len(events) == count(world, "task_event") > first
    assert world.rows("SELECT status FROM task") == [{"status": "COMPLETED"}]


def test_row_in_use_is_left_to_next_pass(world, addresses, partial_task):
    age(world, 200)
    with psycopg.connect(addresses.superuser) as other:
        other.execute("SELECT FROM task FOR UPDATE")
        purge(world.service_database)
        assert count(world, "task") == 1
    purge(world.service_database)
    assert count(world, "task") == 0


def test_passes_at_once_delete_each_row_once(world, addresses, partial_task):
    age(world, 200)
    expected = sum(count(world, table) for table in TASK_ROWS)
    start, deleted = threading.Barrier(4), []

    def run():
        with contextlib.closing(Database(addresses.service)) as database:
            start.wait()
            passes = [purge(database, "task_events", "node_history", "tasks", batch=1) for _ in range(5)]
            deleted.extend(sum(one.values()) for one in passes)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(deleted) == expected
    assert count(world, "task") == 0


def test_crash_in_a_batch_loses_nothing(world, partial_task):
    age(world, 200)
    purge(world.service_database, "task_events", "node_history")
    before = {table: count(world, table) for table in TASK_ROWS}
    crashing = {**SQL, "keep_position": b"SELECT pg_terminate_backend(pg_backend_pid())"}
    rule = next(rule for rule in RULES if rule.name == "tasks")
    with pytest.raises(DatabaseAway):
        PostgresExpiredRows(world.service_database, crashing).purge(rule, age=timedelta(days=180))
    assert {table: count(world, table) for table in TASK_ROWS} == before
    purge(world.service_database)
    assert count(world, "task") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM task",
        "DELETE FROM task_node",
        "DELETE FROM artefact",
        "DELETE FROM points_hold",
        "DELETE FROM node_history",
    ],
)
def test_row_policy_protects_live_rows(world, statement):
    submit_flow(world, world.tenant(points=100), "one")
    deliver_all(world)
    with world.service_database.service_transaction() as tx:
        assert tx.run(statement.encode()) == 0
    world.run_to_end()


@pytest.mark.parametrize("table", ["points_ledger", "points_account", "bill_day", "bill_difference", "app_user"])
def test_money_and_accounts_cannot_be_deleted(service_database, table):
    with pytest.raises(psycopg.errors.InsufficientPrivilege), service_database.service_transaction() as tx:
        tx.run(f"DELETE FROM {table}".encode())


class Endless:
    """Every batch is full, and one rule fails."""

    def __init__(self):
        self.taken = []

    def purge(self, rule, *, age):
        self.taken.append(rule.name)
        if rule.name == "tasks":
            raise RuntimeError("no answer")
        return Batch(rule.batch, 7)

    def oldest_s(self):
        return {"audit_entries": 86_400.0}


def test_pass_ends_after_its_time_and_batches():
    rows, ticks = Endless(), itertools.count()
    service = RetentionService(rows, Defaults(), monotonic=lambda: next(ticks), batches=1_000)
    deleted = service.run(within_s=100)
    assert len(rows.taken) == 99
    assert deleted["audit_entries"] == 7 * rows.taken.count("audit_entries") > 0
    assert rows.taken.count("tasks") == 1
    rows.taken.clear()
    RetentionService(rows, Defaults(), monotonic=lambda: 0, batches=3).run(within_s=1)
    assert rows.taken.count("logins") == 3


def test_steps_of_a_task_keep_their_order():
    values = Fixed({TASK_DAYS: 30, HISTORY_DAYS: 90, EVENT_DAYS: 400})
    assert {rule.age(values) for rule in RULES[:3]} == {timedelta(days=30)}
    assert {setting for rule in RULES for setting in rule.periods} <= set(settings().values())
