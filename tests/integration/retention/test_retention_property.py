"""Rows of random ages and states: what lives, is unsettled or referenced stays, everything else leaves in the end."""

from __future__ import annotations

import contextlib
from random import Random

import psycopg
import pytest

from artiway.platform.database import Database
from artiway.recovery.invariants import CHECKS
from artiway.retention.repository import SQL
from tests.conftest import soaked
from tests.integration.retention.passes import purge
from tests.integration.retention.rows import KEYS, Rows, present

pytestmark = pytest.mark.breaks_invariants("the rows are random", *(name for name, _, _ in CHECKS))
# A condition of a purge, and what it becomes when it is forgotten or weakened. Each must be noticed.
MUTANTS = [
    ("task_events", "ended_at < statement_timestamp() - %(age)s", "ended_at IS NOT NULL"),
    ("task_events", "event.sequence < ended.event_sequence", "true"),
    ("task_events", "ended_at < statement_timestamp() - %(age)s", "created_at < statement_timestamp() - %(age)s"),
    ("node_history", "ended_at < statement_timestamp() - %(age)s", "ended_at IS NOT NULL"),
    ("node_history", "history.version < node.version", "true"),
    ("tasks", "ended_at < statement_timestamp() - %(age)s", "ended_at IS NOT NULL"),
    ("tasks", "hold.status = 'HELD'", "false"),
    ("tasks", "artefact.cleanup_status = 0", "false"),
    ("tasks", "delivery.status = 'PENDING'", "false"),
    ("tasks", "waiting.answered_at IS NULL", "false"),
    ("tasks", "node.ended_at IS NULL", "false"),
    ("tasks", "(ended_at, task_id) > (%(at)s::timestamptz, %(id)s::uuid)", "true"),
    ("node_tokens", "answered_at < statement_timestamp() - %(age)s", "true"),
    ("webhook_deliveries", "status <> 'PENDING' AND", ""),
    ("webhook_deliveries", "next_try_at < statement_timestamp() - %(age)s", "true"),
    ("webhooks", "deleted_at < statement_timestamp() - %(age)s", "deleted_at IS NOT NULL"),
    ("webhooks", "AND (deleted_at, webhook_id) > (%(at)s::timestamptz, %(id)s::uuid)", ""),
    ("payment_alerts", "sent_at < statement_timestamp() - %(age)s", "created_at < statement_timestamp() - %(age)s"),
    ("payment_alerts", "sent_at < statement_timestamp() - %(age)s", "sent_at IS NOT NULL"),
    ("uploads", "cleanup_status = 1 AND", ""),
    ("uploads", "expires_at < statement_timestamp() - %(age)s", "true"),
    ("expired_sessions", "expires_at < statement_timestamp() - %(age)s", "expires_at < statement_timestamp()"),
    ("revoked_sessions", "revoked_at < statement_timestamp() - %(age)s", "revoked_at < statement_timestamp()"),
    ("login_failures", "last_at < statement_timestamp() - %(age)s", "true"),
    ("logins", "logged_at < statement_timestamp() - %(age)s", "true"),
    ("idempotency_keys", "created_at < statement_timestamp() - %(age)s", "true"),
    ("outbox_events", "sent_at < statement_timestamp() - %(age)s", "created_at < statement_timestamp() - %(age)s"),
    ("audit_entries", "at < statement_timestamp() - %(age)s", "true"),
    ("holds", "ended_at < statement_timestamp() - %(age)s", "ended_at IS NOT NULL"),
    ("holds", "WHERE NOT EXISTS (SELECT FROM task WHERE task.hold_id = ended.hold_id)", ""),
    ("lots", "remaining = 0 AND", ""),
    ("lots", "expires_at < statement_timestamp() - %(age)s", "true"),
    ("unpaid_orders", "created_at < statement_timestamp() - %(age)s", "true"),
    ("unpaid_orders", "ended.status = 'CLOSED' AND", ""),
    ("unpaid_orders", "AND ended.flag IS NULL", ""),
    ("unpaid_orders", "open.resolution = 'OPEN'", "false"),
    ("paid_orders", "created_at < statement_timestamp() - %(age)s", "true"),
    ("paid_orders", "status IN ('COMPLETED', 'REFUNDED') AND (", "("),
    ("paid_orders", "(flag IS NULL OR flag = 'PAID_LATE')", "true"),
    ("paid_orders", "refund.ended_at IS NULL OR", ""),
    ("paid_orders", "payment.outcome <> 'CREDITED' OR", ""),
    ("paid_orders", "open.resolution = 'OPEN'", "false"),
    ("generations", "text.ended_at < statement_timestamp() - %(age)s", "text.ended_at IS NOT NULL"),
    ("generations", "text.ended_at <", "text.created_at <"),
    ("generations", "hold.status = 'HELD'", "false"),
    ("job_changes", "superseded_at < statement_timestamp() - %(age)s", "at < statement_timestamp() - %(age)s"),
    ("job_notes", "at < statement_timestamp() - %(age)s", "first_at < statement_timestamp() - %(age)s"),
    ("allowances", "day < (statement_timestamp() - %(age)s)::date", "true"),
    ("text_usage", "day < (statement_timestamp() - %(age)s)::date", "true"),
]
SEEDS_OF_MUTANTS = 40


@pytest.fixture
def superuser(addresses):
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        yield connection


def settle(rows, database, *, batch, queries=SQL):
    """Passes until nothing leaves any more. A hold leaves after its task, a webhook after its deliveries."""
    for _ in range(20):
        if not any(purge(database, batch=batch, values=rows.values, queries=queries).values()):
            return
    raise AssertionError("rows leave for ever")


def wrong(rows, connection):
    found = present(connection)
    return {table: found[table] ^ rows.kept[table] for table in KEYS if found[table] != rows.kept[table]}


@pytest.mark.parametrize("seed", range(soaked(10)))
def test_exactly_the_finished_rows_leave(superuser, service_database, seed):
    random = Random(seed)
    rows = Rows(random)
    rows.insert(superuser)
    before = sum(map(len, present(superuser).values()))
    settle(rows, service_database, batch=random.choice((1, 3, 1_000)))
    assert wrong(rows, superuser) == {}
    assert 0 < sum(map(len, rows.kept.values())) < before


@pytest.mark.parametrize("seed", range(soaked(3)))
def test_at_no_moment_a_row_leaves_too_early(superuser, service_database, seed):
    """Each batch is a commit after which a crash may stop the pass."""
    rows = Rows(Random(seed))
    rows.insert(superuser)
    for _ in range(40):
        purge(service_database, batch=2, batches=1, values=rows.values)
        found = present(superuser)
        assert {table: rows.kept[table] - found[table] for table in KEYS if not rows.kept[table] <= found[table]} == {}


@pytest.mark.parametrize(("name", "condition", "mutation"), MUTANTS)
def test_forgotten_condition_is_noticed(superuser, addresses, name, condition, mutation):
    """As a superuser, whom no row policy stops."""
    text = SQL[name].decode()
    assert condition in text, f"{name} has no such condition"
    queries = {**SQL, name: text.replace(condition, mutation).encode()}
    batch = 3 if "%(at)s" in condition else 1_000
    with contextlib.closing(Database(addresses.superuser)) as database:
        for seed in range(SEEDS_OF_MUTANTS):
            rows = Rows(Random(seed))
            rows.insert(superuser)
            try:
                settle(rows, database, batch=batch, queries=queries)
            except AssertionError:
                return
            if wrong(rows, superuser):
                return
    raise AssertionError("no row shows that the condition is missing")
