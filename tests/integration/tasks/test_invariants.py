"""R-REC-6: the full check and the check of changed rows find the rows that break each invariant."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
import redis

from artiway import ids
from artiway.points.model import Change, Kind
from artiway.recovery.invariants import CHECKS, LIVE, Invariants
from artiway.recovery.mirror import SlotMirror
from artiway.recovery.repository import PostgresInvariantQueries, PostgresSlots
from artiway.recovery.settings import SLICE_ROWS
from artiway.settings.model import Fixed
from artiway.tasks.model import ReleasedSlot
from tests.integration.tasks.test_life import deliver_all, held, submit, submit_flow
from tests.simulation.world import POOL, World

BREAKS = {
    "holds_end_once": "UPDATE points_hold SET status = 'HELD', ended_at = NULL, charged = 0",
    "live_tasks_have_holds": "UPDATE task SET status = 'QUEUED', ended_at = NULL",
    "charges_equal_deliveries": "UPDATE task SET charged_points = charged_points - 1",
    "in_degrees_agree": "UPDATE task_node SET in_degree = 1 WHERE status = 'CANCELLED';"
    " INSERT INTO node_dependency SELECT b.tenant_id, b.node_id, a.node_id FROM task_node a, task_node b"
    " WHERE a.name = 'fails' AND b.name = 'done'",
    "no_orphan_nodes": "ALTER TABLE task_node DISABLE TRIGGER ALL;"
    "UPDATE task_node SET status = 'PENDING', dispatched_at = NULL, ended_at = NULL WHERE status = 'FAILED'",
    "no_dependents_of_failures": "INSERT INTO node_dependency SELECT b.tenant_id, b.node_id, a.node_id"
    " FROM task_node a, task_node b WHERE a.name = 'fails' AND b.name = 'done'",
    "credits_are_of_own_payments": "UPDATE pay_transaction SET outcome = 'FOREIGN'",
    "one_credit_per_paid_order": "UPDATE points_ledger SET reference = 'another order' WHERE reference LIKE 'ord%'",
    "history_is_complete": "DELETE FROM node_history WHERE version > 3",
    "tokens_are_answered": "INSERT INTO node_token (tenant_id, token_id, node_id, kind, token, issued_at)"
    " SELECT tenant_id, gen_random_uuid(), node_id, 'ready', 'left', now() - interval '1 h' FROM task_node;"
    "UPDATE task_node SET ended_at = now() - interval '1 h'",
    "artefacts_have_nodes": "DELETE FROM artefact",
    "balances_equal_ledger": "ALTER TABLE points_ledger DISABLE TRIGGER ALL;"
    "ALTER TABLE points_account DISABLE TRIGGER ALL;"
    "UPDATE points_ledger SET balance_delta = balance_delta + 1, balance = balance + 1 WHERE version = 1",
}
MENDS_BALANCES = "UPDATE points_ledger SET balance_delta = balance_delta - 1, balance = balance - 1 WHERE version = 1"
BY_CONSTRAINT = {"slots_are_held_by_attempts", "sweepers_run"}
# tests/integration/jobs/test_invariants.py corrupts these.
OF_RUNS = {"runs_are_single", "runs_have_jobs", "running_runs_are_leased", "run_counters_agree"}


@pytest.fixture
def broken_world(addresses, valkey):
    """A world with a completed, a failed and a cancelled node and a paid order, for a test to corrupt."""
    world = World(addresses, valkey)
    world.worker(slots=10)
    tenant = world.tenant(points=100)
    pay(world, tenant)
    submit_flow(world, tenant, "fails", "fails>never", "done")
    deliver_all(world)
    world.fail(*held(world, "fails"), is_retryable=False)
    world.run_to_end()
    world.assert_invariants()
    yield world
    for table in ("task_node", "points_ledger", "points_account"):
        world.superuser.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL".encode())
    world.close()


def pay(world, tenant, *, status="COMPLETED"):
    """An order that was paid for and credited."""
    order_id = uuid4()
    world.superuser.execute(
        "INSERT INTO pay_order (tenant_id, user_id, order_id, out_trade_no, mchid, appid, package_id, amount_fen,"
        " points, channel, status, prepay_body, created_at, expires_at, next_query_at, transaction_id, paid_at)"
        " VALUES (%s, %s, %s, %s, 'm', 'a', 'p', 100, 10, 'native', %s, '{}', now(), now(), now(), %s, now())",
        [*tenant, order_id, order_id.hex, status, str(order_id)],
    )
    world.superuser.execute(
        "INSERT INTO pay_transaction (mchid, transaction_id, tenant_id, order_id, out_trade_no, outcome, source,"
        " seen_at) VALUES ('m', %s, %s, %s, %s, 'CREDITED', 'callback', now())",
        [str(order_id), tenant[0], order_id, order_id.hex],
    )
    change = Change(tenant[1], Kind.RECHARGE, 10, ids.to_wire("ord", order_id), f"wxpay:m:{order_id}")
    world.points.credit(tenant_id=tenant[0], change=change)
    return order_id


def check_of(world, name, *, is_full=True):
    health = world.invariants.check() if is_full else world.invariants.check_changes()
    return next(check for check in health.checks if check.name == name)


def slice_of(world, name, *, rows=1_000):
    """The check of the next slice, with so many rows of each table."""
    queries = PostgresInvariantQueries(world.service_database)
    invariants = Invariants(
        queries, SlotMirror(PostgresSlots(world.service_database), NotImplemented, []), Fixed({SLICE_ROWS: rows})
    )
    return next(check for check in invariants.check_slice(within_s=60).checks if check.name == name)


def move_to_yesterday(world):
    """Move all timestamps back by one day."""
    world.superuser.execute("ALTER TABLE points_ledger DISABLE TRIGGER ALL")
    for table, column in (("points_ledger", "created_at"), ("node_history", "changed_at"), ("pay_order", "paid_at")):
        world.superuser.execute(f"UPDATE {table} SET {column} = {column} - interval '1 day'".encode())


def test_every_invariant_has_a_corruption():
    assert {name for name, _, _ in CHECKS} == set(BREAKS) | BY_CONSTRAINT | OF_RUNS


@pytest.mark.breaks_invariants("the test corrupts the rows", *(name for name, _, _ in CHECKS))
@pytest.mark.parametrize("is_full", [True, False], ids=["all rows", "changed rows"])
@pytest.mark.parametrize("name", sorted(BREAKS))
def test_broken_invariant_is_found_with_its_rows(broken_world, name, is_full):
    assert check_of(broken_world, name, is_full=is_full).is_ok
    broken_world.superuser.execute(BREAKS[name].encode())
    check = check_of(broken_world, name, is_full=is_full)
    assert check.violations
    assert check.checked >= len(check.violations) or name == "artefacts_have_nodes"


@pytest.mark.breaks_invariants("the test corrupts the rows", *(name for name, _, _ in CHECKS))
def test_broken_invariant_says_since_when(broken_world):
    name = "balances_equal_ledger"
    assert check_of(broken_world, name).since is None
    broken_world.superuser.execute(BREAKS[name].encode())
    first = check_of(broken_world, name, is_full=False).since
    assert first is not None
    assert [check_of(broken_world, name, is_full=is_full).since for is_full in (False, True)] == [first, first]
    slice_of(broken_world, "holds_end_once")  # a part of the rows mends nothing
    assert check_of(broken_world, name).since == first
    broken_world.superuser.execute(MENDS_BALANCES)
    assert check_of(broken_world, name).since is None
    broken_world.superuser.execute(BREAKS[name].encode())
    assert check_of(broken_world, name).since > first


@pytest.mark.breaks_invariants("the test corrupts the rows", *(name for name, _, _ in CHECKS))
@pytest.mark.parametrize("name", sorted(BREAKS.keys() - LIVE))
def test_slice_finds_what_changes_do_not_show(broken_world, name):
    """The rows are old, so the check of changes does not cover them until the slice has found them."""
    broken_world.superuser.execute(BREAKS[name].encode())
    move_to_yesterday(broken_world)
    assert check_of(broken_world, name, is_full=False).checked == 0
    assert slice_of(broken_world, name).violations
    for _ in range(2):
        assert check_of(broken_world, name, is_full=False).violations


def test_slices_reach_every_row_in_turn(world):
    world.worker(slots=10)
    tenants = [world.tenant(points=100) for _ in range(3)]
    for tenant in tenants:
        submit_flow(world, tenant, "one", "two")
    world.run_to_end()
    assert [slice_of(world, "charges_equal_deliveries", rows=1).checked for _ in range(4)] == [1, 1, 1, 0]
    slice_of(world, "balances_equal_ledger")  # to the end of the round
    for name, rows in (("in_degrees_agree", 6), ("holds_end_once", 3), ("balances_equal_ledger", 3)):
        assert slice_of(world, name, rows=1_000).checked == rows


@pytest.mark.breaks_invariants("the test corrupts the rows", "balances_equal_ledger")
def test_changed_ledger_is_read_from_first_change(broken_world):
    """An old entry that was corrupted is no part of the changes; a slice of entries finds it."""
    world = broken_world
    world.superuser.execute(BREAKS["balances_equal_ledger"].encode())
    world.superuser.execute("UPDATE points_ledger SET created_at = created_at - interval '1 day' WHERE version < 3")
    assert check_of(world, "balances_equal_ledger", is_full=False).is_ok
    (row,) = slice_of(world, "balances_equal_ledger").violations
    assert row["version"] == 2
    assert not check_of(world, "balances_equal_ledger", is_full=False).is_ok


def test_missing_sweep_is_found(world):
    world.worker()
    submit(world, world.tenant(), "style")
    deliver_all(world)
    world.advance(31 + 300)
    check = next(check for check in world.invariants.check().checks if check.name == "sweepers_run")
    assert [row["status"] for row in check.violations] == ["PROCESSING"]
    world.run_to_end()


def test_order_credited_twice_or_never_is_found(world):
    tenant = world.tenant()
    twice, never = pay(world, tenant), pay(world, tenant)
    assert check_of(world, "one_credit_per_paid_order").checked == 2
    change = Change(tenant[1], Kind.RECHARGE, 10, ids.to_wire("ord", twice), "wxpay:m:again")
    world.points.credit(tenant_id=tenant[0], change=change)
    world.superuser.execute("UPDATE points_ledger SET reference = 'lost' WHERE reference = %s", [f"ord_{never.hex}"])
    found = {row["order_id"]: row["credits"] for row in check_of(world, "one_credit_per_paid_order").violations}
    assert found == {twice: 2, never: 0}
    world.superuser.execute("DELETE FROM pay_transaction")
    world.superuser.execute("DELETE FROM pay_order")


def test_credited_order_without_payment_is_found(world):
    tenant = world.tenant()
    order_id = pay(world, tenant)
    world.superuser.execute("UPDATE pay_order SET status = 'PAYING', transaction_id = NULL, paid_at = NULL")
    assert [row["order_id"] for row in check_of(world, "one_credit_per_paid_order").violations] == [order_id]
    world.superuser.execute("DELETE FROM pay_transaction")
    world.superuser.execute("DELETE FROM pay_order")


def test_clean_rows_are_not_checked_again(broken_world):
    assert check_of(broken_world, "history_is_complete", is_full=False).checked == 3
    move_to_yesterday(broken_world)
    for name in ("history_is_complete", "balances_equal_ledger", "holds_end_once", "live_tasks_have_holds"):
        assert check_of(broken_world, name, is_full=False).checked == 0
        assert check_of(broken_world, name).checked > 0
    assert check_of(broken_world, "one_credit_per_paid_order", is_full=False).checked == 0


def test_first_check_of_changes_covers_all_rows(broken_world):
    move_to_yesterday(broken_world)
    broken_world.superuser.execute("DELETE FROM invariant_pass")
    assert check_of(broken_world, "history_is_complete", is_full=False).checked == 3
    assert check_of(broken_world, "history_is_complete", is_full=False).checked == 0


def test_violation_is_reported_until_it_is_fixed(broken_world):
    broken_world.superuser.execute("UPDATE invariant_pass SET clean_at = clean_at - interval '2 days'")
    broken_world.superuser.execute("UPDATE task SET charged_points = charged_points - 1")
    move_to_yesterday(broken_world)
    for _ in range(2):
        assert not check_of(broken_world, "charges_equal_deliveries", is_full=False).is_ok
    broken_world.superuser.execute("UPDATE task SET charged_points = charged_points + 1")
    assert check_of(broken_world, "charges_equal_deliveries", is_full=False).checked == 1
    assert check_of(broken_world, "charges_equal_deliveries", is_full=False).checked == 0


@pytest.fixture
def mirrored(world):
    """One running node, with its slot in Redis and in PostgreSQL."""
    queue_of = world.use_fair_queue()
    world.worker()
    submit(world, world.tenant(), "style")
    deliver_all(world)
    assert check_of(world, "slots_are_mirrored").checked == 1
    yield world, queue_of(POOL)
    world.run_to_end()


def test_slot_missing_in_redis_is_found_after_grace(mirrored):
    world, queue = mirrored
    (node_id,) = queue.running_ids()
    world.dispatcher.release([ReleasedSlot(UUID(node_id), POOL, None)])
    assert check_of(world, "slots_are_mirrored").is_ok
    world.superuser.execute("UPDATE task_node SET dispatched_at = dispatched_at - interval '2 minutes'")
    assert [row["what"] for row in check_of(world, "slots_are_mirrored").violations] == ["not in Redis"]
    world.sweep()
    assert check_of(world, "slots_are_mirrored").is_ok


def test_slot_left_in_redis_is_found_after_grace(mirrored, monkeypatch):
    world, _ = mirrored
    monkeypatch.setattr(world.store, "_schedule", lambda slots, ready: None)
    world.finish(*held(world, world.workers[0].held[0].order["name"]))
    deliver_all(world)
    assert check_of(world, "slots_are_mirrored").is_ok
    world.superuser.execute("UPDATE task_node SET ended_at = ended_at - interval '2 minutes'")
    assert [row["what"] for row in check_of(world, "slots_are_mirrored").violations] == ["not in PostgreSQL"]
    world.sweep()
    assert check_of(world, "slots_are_mirrored").is_ok


def test_emptied_redis_is_no_violation(mirrored):
    world, _ = mirrored
    world.superuser.execute("UPDATE task_node SET dispatched_at = dispatched_at - interval '2 minutes'")
    world.redis.flushall()
    assert check_of(world, "slots_are_mirrored").is_ok


def test_redis_without_answer_is_no_violation(mirrored):
    world, _ = mirrored

    class Away:
        def attach(self) -> bool:
            raise redis.TimeoutError("no answer")

    mirror = SlotMirror(PostgresSlots(world.service_database), lambda pool: Away(), [POOL], losses=(redis.RedisError,))
    assert mirror.check(limit=10).is_ok
