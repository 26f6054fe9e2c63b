"""R-TSK-5 for every pair of states: the database allows the legal transitions, refuses others and writes history."""

from __future__ import annotations

from itertools import product
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from artiway.tasks.model import TRANSITIONS, NodeStatus
from artiway.tasks.repository import SQL
from tests.fakes.users import add_users

pytestmark = pytest.mark.breaks_invariants(
    "the test inserts nodes directly, without a hold and without artefacts",
    "live_tasks_have_holds",
    "artefacts_have_nodes",
    "in_degrees_agree",
)

ENDS = {NodeStatus.COMPLETED, NodeStatus.FAILED, NodeStatus.TIMEOUT, NodeStatus.CANCELLED}
SLOTTED = {NodeStatus.PROCESSING}
# The columns that each state needs, so that a refusal is caused by the transition alone.
SHAPE = {
    status: {
        "ready_at": "now()" if status is not NodeStatus.PENDING else "NULL",
        "dispatched_at": "NULL" if status in {NodeStatus.PENDING, NodeStatus.QUEUED} else "now()",
        "lease_until": "now()" if status in SLOTTED else "NULL",
        "worker_id": "'w'" if status in SLOTTED else "NULL",
        "ended_at": "now()" if status in ENDS else "NULL",
    }
    for status in NodeStatus
}
STATEMENTS = {
    "mark_ready": (NodeStatus.PENDING, NodeStatus.QUEUED),
    "claim": (NodeStatus.QUEUED, NodeStatus.PROCESSING),
    "finish": (NodeStatus.PROCESSING, NodeStatus.COMPLETED),
    "fail": (NodeStatus.PROCESSING, NodeStatus.FAILED),
    "time_out_lease": (NodeStatus.PROCESSING, NodeStatus.TIMEOUT),
    "time_out_running": (NodeStatus.PROCESSING, NodeStatus.TIMEOUT),
    "time_out_unclaimed": (NodeStatus.QUEUED, NodeStatus.TIMEOUT),
    "hand_back": (NodeStatus.PROCESSING, NodeStatus.TIMEOUT),
}


@pytest.fixture
def connection(addresses):
    """As the superuser, so that no policy and no grant hides the trigger."""
    with psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row) as connection:
        yield connection


@pytest.fixture
def place(addresses, connection):
    tenant_id, user_id, task_id = uuid4(), uuid4(), uuid4()
    add_users(addresses.superuser, tenant_id, [user_id])
    connection.execute(
        "INSERT INTO task (tenant_id, task_id, user_id, tool, hold_id, lane, pool, price_points)"
        " VALUES (%s, %s, %s, 'cutout', %s, 'vip_short', 'gpu', 1)",
        [tenant_id, task_id, user_id, uuid4()],
    )
    return tenant_id, user_id, task_id


def make_node(connection, place, status, *, attempt=1, is_dispatched=None):
    tenant_id, user_id, task_id = place
    node_id = uuid4()
    shape = dict(SHAPE[status])
    if is_dispatched:
        shape["dispatched_at"] = "now()"
    connection.execute(
        "INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, lane, pool, cost_us,"
        f" is_result, in_degree, status, attempt, {', '.join(shape)})"
        " VALUES (%s, %s, %s, %s, 0, %s, 'cutout', 'cutout', 'vip_short', 'gpu', 1, true, 0, %s, %s,"
        f" {', '.join(shape.values())})".encode(),
        [tenant_id, node_id, task_id, user_id, str(node_id), status, attempt],
    )
    return node_id


def row_of(connection, node_id):
    return connection.execute("SELECT * FROM task_node WHERE node_id = %s", [node_id]).fetchone()


def history_of(connection, node_id):
    rows = connection.execute("SELECT * FROM node_history WHERE node_id = %s ORDER BY version", [node_id]).fetchall()
    return [(row["from_status"], row["to_status"], row["attempt"]) for row in rows]


def test_database_and_code_have_same_transitions(connection):
    rows = connection.execute("SELECT from_status, to_status FROM node_transition").fetchall()
    assert {(row["from_status"], row["to_status"]) for row in rows} == {
        (start, end) for start, ends in TRANSITIONS.items() for end in ends
    }


@pytest.mark.parametrize(("start", "end"), list(product(NodeStatus, NodeStatus)), ids=str)
def test_only_legal_transitions_are_accepted(connection, place, start, end):
    node_id = make_node(connection, place, start)
    shape = ", ".join(f"{column} = {value}" for column, value in SHAPE[end].items())
    change = f"UPDATE task_node SET status = %s, version = version + 1, {shape} WHERE node_id = %s".encode()
    if end in TRANSITIONS[start] or end is start:
        connection.execute(change, [end, node_id])
        assert history_of(connection, node_id) == [(None, start, 1), (start, end, 1)]
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match=f"{start} -> {end}"):
            connection.execute(change, [end, node_id])
        assert row_of(connection, node_id)["status"] == start
        assert history_of(connection, node_id) == [(None, start, 1)]


def test_transition_without_new_version_is_refused(connection, place):
    node_id = make_node(connection, place, NodeStatus.PENDING)
    with pytest.raises(psycopg.errors.CheckViolation, match="illegal change"):
        connection.execute("UPDATE task_node SET status = 'QUEUED', ready_at = now() WHERE node_id = %s", [node_id])


def test_attempt_rises_only_at_dispatch(connection, place):
    node_id = make_node(connection, place, NodeStatus.QUEUED)
    with pytest.raises(psycopg.errors.CheckViolation, match="illegal change"):
        connection.execute("UPDATE task_node SET attempt = attempt + 1 WHERE node_id = %s", [node_id])
    dispatched = {"node_ids": [node_id], "charges_us": [5], "tags_us": [7]}
    assert connection.execute(SQL["dispatch"], dispatched).fetchone()["attempt"] == 2
    assert connection.execute(SQL["dispatch"], dispatched).fetchall() == []
    assert row_of(connection, node_id)["attempt"] == 2


@pytest.mark.parametrize(("verb", "status"), list(product(STATEMENTS, NodeStatus)), ids=str)
def test_statement_changes_only_its_own_state(connection, place, verb, status):
    start, end = STATEMENTS[verb]
    node_id = make_node(
        connection, place, status, is_dispatched=verb in {"claim", "time_out_unclaimed"} and status is start
    )
    if verb == "time_out_lease":
        connection.execute("UPDATE task_node SET lease_until = now() - interval '1 s' WHERE status = 'PROCESSING'")
    before = row_of(connection, node_id)
    changed = connection.execute(SQL[verb], parameters(node_id, place)).rowcount
    if status is start:
        assert (changed, row_of(connection, node_id)["status"]) == (1, end)
    else:
        # Nodes that wait already are returned again, unchanged: the queue may have lost them.
        assert changed == (verb == "mark_ready" and status is end)
        assert row_of(connection, node_id) == before


@pytest.mark.parametrize("verb", [verb for verb in STATEMENTS if verb != "mark_ready"])
def test_statement_with_other_attempt_changes_nothing(connection, place, verb):
    start, _ = STATEMENTS[verb]
    node_id = make_node(connection, place, start, attempt=2, is_dispatched=True)
    connection.execute("UPDATE task_node SET lease_until = now() - interval '1 s' WHERE status = 'PROCESSING'")
    before = row_of(connection, node_id)
    assert connection.execute(SQL[verb], parameters(node_id, place)).rowcount == 0
    assert row_of(connection, node_id) == before


def test_renewed_lease_does_not_expire(connection, place):
    node_id = make_node(connection, place, NodeStatus.PROCESSING)
    held = {"node_ids": [node_id], "attempts": [1], "worker_id": "w", "pool": "gpu", "lease_s": 30}
    assert connection.execute(SQL["renew"], held).rowcount == 1
    assert connection.execute(SQL["time_out_lease"], parameters(node_id, place)).rowcount == 0


def test_heartbeat_of_other_worker_renews_nothing(connection, place):
    node_id = make_node(connection, place, NodeStatus.PROCESSING)
    held = {"node_ids": [node_id], "attempts": [1], "worker_id": "w", "pool": "gpu", "lease_s": 30}
    assert connection.execute(SQL["renew"], {**held, "worker_id": "other"}).rowcount == 0
    assert connection.execute(SQL["renew"], {**held, "attempts": [2]}).rowcount == 0
    assert connection.execute(SQL["renew"], {**held, "pool": "other"}).rowcount == 0


@pytest.mark.parametrize("status", list(NodeStatus), ids=str)
def test_only_failed_or_timed_out_node_is_retried(connection, place, status):
    node_id = make_node(connection, place, status)
    changed = connection.execute(SQL["retry"], {**parameters(node_id, place), "delay_s": 1}).rowcount
    assert changed == (status in {NodeStatus.FAILED, NodeStatus.TIMEOUT})


@pytest.mark.parametrize("status", list(NodeStatus), ids=str)
def test_cancelled_task_stops_its_open_nodes(connection, place, status):
    node_id = make_node(connection, place, status)
    changed = connection.execute(SQL["cancel_nodes"], {"task_id": place[2], "error": None}).rowcount
    assert changed == (status not in ENDS)
    assert (row_of(connection, node_id)["status"] == NodeStatus.CANCELLED) == (
        status not in ENDS or status is NodeStatus.CANCELLED
    )


def test_node_with_dependencies_or_backoff_stays_pending(connection, place):
    first, second = (make_node(connection, place, NodeStatus.PENDING) for _ in range(2))
    connection.execute("UPDATE task_node SET in_degree = 1 WHERE node_id = %s", [first])
    connection.execute("UPDATE task_node SET not_before = now() + interval '1 h' WHERE node_id = %s", [second])
    assert connection.execute(SQL["mark_ready"], {"node_ids": [first, second]}).fetchall() == []


def test_slots_in_use_are_open_dispatched_nodes(connection, place):
    held = {
        make_node(connection, place, NodeStatus.QUEUED, is_dispatched=True),
        make_node(connection, place, NodeStatus.PROCESSING),
    }
    for status in NodeStatus:
        if status is not NodeStatus.PROCESSING:
            make_node(connection, place, status)
    rows = connection.execute("SELECT node_id FROM slot_in_use").fetchall()
    assert {row["node_id"] for row in rows} == held


def parameters(node_id, place):
    return {
        "task_id": place[2],
        "artefacts": "[]",
        "node_id": node_id,
        "node_ids": [node_id],
        "attempt": 1,
        "worker_id": "w",
        "lease_s": 30,
        "output": "[]",
        "engine": None,
        "error": None,
        "gpu_us": None,
        "counted": 1,
    }
