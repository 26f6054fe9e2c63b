"""A flow with many dependencies of a new tenant, which PostgreSQL's statistics do not contain yet."""

from __future__ import annotations

import psycopg
import pytest

from artiway import ids
from artiway.errors import Refused
from artiway.tasks.lifecycle import DEPENDENCY_FAILED
from artiway.tasks.model import FlowNode
from tests.integration.tasks.test_life import submit_flow
from tests.simulation.world import World

NODES = 141
EDGES = NODES * (NODES - 1) // 2
TABLES = ("node_dependency", "task_node")


def dense(count):
    """Each node depends on all nodes before it."""
    picture = ids.new_id()
    return [
        FlowNode(f"n{i}", "derive", None, {}, {"product": picture}, {}, tuple(f"n{j}" for j in range(i)))
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def own_addresses(make_addresses):
    """A separate database, because the test makes its statistics outdated."""
    return make_addresses("dense")


@pytest.fixture
def world(own_addresses, valkey):
    world = World(own_addresses, valkey)
    yield world
    world.close()


@pytest.fixture
def tenant(world, own_addresses):
    """A new tenant. All rows that ANALYZE saw belong to another tenant."""
    other = world.tenant()
    for _ in range(3):
        submit_flow(world, other, "a", "a>b", "b>c")
    with psycopg.connect(own_addresses.superuser, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
            connection.execute(f"ANALYZE {table}".encode())
    return world.tenant()


@pytest.fixture
def task(world, tenant):
    tenant_id, user_id = tenant
    nodes = dense(NODES)
    return world.tasks.submit_flow(
        tenant_id=tenant_id, user_id=user_id, name="dense", nodes=nodes, webhook_url=None
    ).task


def rows_read(tx):
    """Rows of both tables that this transaction has read so far."""
    query = (
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS rows"
        " FROM pg_stat_xact_user_tables WHERE relname = ANY (%(tables)s::text[])"
    )
    return tx.one(query.encode(), {"tables": list(TABLES)})["rows"]


def test_view_reads_each_row_few_times(world, tenant, task):
    with world.database.tenant_transaction(tenant[0]) as tx:
        before = rows_read(tx)
        view = world.tasks.view(tenant_id=tenant[0], task_id=task.task_id)
        read = rows_read(tx) - before
    assert sum(map(len, view.graph.dependencies.values())) == EDGES
    assert EDGES <= read <= 3 * (EDGES + NODES)


def test_failure_cancels_dependents_with_few_reads(world, tenant, task):
    with world.store.open(tenant[0]) as task_tx, world.database.tenant_transaction(tenant[0]) as tx:
        task_tx.lock_task(task.task_id)
        first = next(node for node in task_tx.nodes(task.task_id) if node.name == "n0")
        before = rows_read(tx)
        cancelled = task_tx.cancel_dependents(first, DEPENDENCY_FAILED)
        read = rows_read(tx) - before
    assert len(cancelled) == NODES - 1
    assert read <= 3 * (EDGES + NODES)


def test_flow_with_too_many_dependencies_stores_nothing(world, tenant):
    tenant_id, user_id = tenant
    with pytest.raises(Refused) as refusal:
        world.tasks.submit_flow(tenant_id=tenant_id, user_id=user_id, name="", nodes=dense(142), webhook_url=None)
    assert refusal.value.code == "REQUEST_422_INVALID"
    assert world.rows("SELECT FROM task WHERE tenant_id = %s", tenant_id) == []
    assert world.balance(tenant_id, user_id) == (1_000_000, 0)
