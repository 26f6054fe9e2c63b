from __future__ import annotations

import importlib.util
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from artiway.bootstrap import base
from artiway.platform import migrations
from artiway.platform.migrations import (
    Migration,
    MigrationBlocked,
    MigrationChanged,
    MigrationRefused,
    Phase,
    migrate,
)
from artiway.platform.settings import Settings
from tests.conftest import make_database
from tests.fakes.users import add_users
from tools import schema


@pytest.fixture
def empty(postgres_url, worker_id, request):
    """An empty database, as its owner."""
    name = f"empty_{worker_id}_{abs(hash(request.node.name))}"
    make_database(postgres_url, name)
    return make_conninfo(postgres_url, user="artiway_owner", password="test", dbname=name)


def test_schema_file_is_sum_of_migrations(addresses):
    assert schema.TARGET.read_text("utf-8") == schema.dump(addresses.owner), "run `make schema`"


def test_schema_file_alone_makes_same_database(empty, addresses):
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(schema.TARGET.read_bytes())
    assert schema.dump(empty) == schema.dump(addresses.owner)


def test_migrating_twice_does_nothing_second_time(empty):
    assert migrate(empty) == [migration.version for migration in migrations.available()]
    assert migrate(empty) == []


def test_two_deployments_at_once_run_each_migration_once(empty):
    ran: list[list[int]] = []
    threads = [threading.Thread(target=lambda: ran.append(migrate(empty))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(version for versions in ran for version in versions) == [
        migration.version for migration in migrations.available()
    ]


def test_migration_that_fails_leaves_nothing_behind(empty, monkeypatch):
    broken = Migration(1, "broken", b"CREATE TABLE half (a int); SELECT 1 / 0")
    monkeypatch.setattr(migrations, "available", lambda: [broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty)
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT to_regclass('half')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM schema_migration").fetchone() == (0,)


def test_migration_edited_after_it_ran_is_refused(empty, monkeypatch):
    monkeypatch.setattr(migrations, "available", lambda: [Migration(1, "first", b"SELECT 1")])
    migrate(empty)
    monkeypatch.setattr(migrations, "available", lambda: [Migration(1, "first", b"SELECT 2")])
    with pytest.raises(MigrationChanged, match="0001_first"):
        migrate(empty)


@pytest.fixture
def steps(monkeypatch):
    """Makes these the only migrations."""

    def use(*texts: bytes) -> None:
        made = [Migration(number, f"step{number}", text) for number, text in enumerate(texts, 1)]
        monkeypatch.setattr(migrations, "available", lambda: made)

    return use


def names(url: str) -> set[str]:
    """Of the valid tables and indexes of the schema."""
    with psycopg.connect(url) as connection:
        return {
            name
            for (name,) in connection.execute(
                "SELECT relname FROM pg_class LEFT JOIN pg_index ON indexrelid = pg_class.oid"
                " WHERE relnamespace = 'public'::regnamespace AND indisvalid IS NOT false"
                " AND relname NOT LIKE 'schema_migration%'"
            )
        }


class TestPhases:
    EXPAND = b"CREATE TABLE wide (a int, b int)"
    CONTRACT = b"-- phase: after\n-- undo: ALTER TABLE wide ADD b int\nALTER TABLE wide DROP b"

    def test_after_code_runs_apart_from_before(self, empty, steps):
        steps(self.EXPAND, self.CONTRACT, b"CREATE TABLE later (a int)")
        assert migrate(empty, phase=Phase.BEFORE) == [1, 3]
        assert migrate(empty, phase=Phase.BEFORE) == []
        assert migrate(empty, phase=Phase.AFTER) == [2]
        assert migrate(empty) == []

    def test_both_orders_give_the_same_schema(self, empty, addresses):
        """A migration before the code may not depend on one after it, whatever their numbers."""
        migrate(empty, phase=Phase.BEFORE)
        migrate(empty, phase=Phase.AFTER)
        assert schema.dump(empty) == schema.dump(addresses.owner)

    def test_edited_migration_of_other_phase_is_refused(self, empty, steps):
        steps(self.EXPAND, self.CONTRACT)
        migrate(empty)
        steps(self.EXPAND, self.CONTRACT + b" CASCADE")
        with pytest.raises(MigrationChanged):
            migrate(empty, phase=Phase.BEFORE)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"-- phase: later\nSELECT 1", "before or after"),
            (b"-- phase: after\nDROP TABLE wide", "undo"),
            (b"-- transaction: some\nSELECT 1", "transaction is none"),
            (b"-- transaction: none\nCREATE INDEX CONCURRENTLY i ON wide (a)", "IF NOT EXISTS"),
        ],
    )
    def test_wrong_headers_are_refused(self, text, reason):
        with pytest.raises(MigrationRefused, match=reason):
            Migration(1, "wrong", text)


class TestFunction:
    @pytest.fixture
    def invoke(self, empty):
        """Calls DeployFunction with so many seconds left."""
        file = Path(__file__).parents[3] / "functions/deploy/app.py"
        spec = importlib.util.spec_from_file_location("functions_deploy", file)
        app = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(app)
        parts = conninfo_to_dict(empty)
        url = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format_map(parts)
        base.settings.supply(Settings(owner_database_url=SecretStr(url)))
        yield lambda event, remaining_s=900: app.handler(
            event, SimpleNamespace(get_remaining_time_in_millis=lambda: remaining_s * 1_000)
        )
        base.settings.cache_clear()

    def test_operator_runs_one_phase_at_a_time(self, invoke, steps):
        steps(TestPhases.EXPAND, TestPhases.CONTRACT)
        assert invoke({"action": "migrate"}) == {"ran": [1]}
        assert invoke({"action": "migrate", "Phase": "after"}) == {"ran": [2]}

    def test_statement_ends_before_the_function_does(self, invoke, steps):
        steps(b"SELECT pg_sleep(60)")
        with pytest.raises(psycopg.errors.QueryCanceled):
            invoke({"action": "migrate"}, remaining_s=31)


class TestConcurrentIndex:
    TABLE = b"CREATE TABLE big (a int); INSERT INTO big SELECT generate_series(1, 1000)"
    INDEX = (
        b"-- transaction: none\n-- The relay reads by it.\n"
        b"CREATE INDEX CONCURRENTLY IF NOT EXISTS big_a ON big (a)\n    WHERE a > 0;\n"
        b"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS big_once ON big (a);\n"
    )

    def test_index_is_made_while_writers_write(self, empty, steps):
        """A plain CREATE INDEX would wait for the open transaction, and every later writer behind it."""
        steps(self.TABLE)
        migrate(empty)
        steps(self.TABLE, self.INDEX)
        with psycopg.connect(empty) as writer, psycopg.connect(empty, autocommit=True) as later:
            writer.execute("INSERT INTO big VALUES (2000)")
            running = threading.Thread(target=migrate, args=(empty,))
            running.start()
            wait_for_statement(later, "CREATE INDEX CONCURRENTLY")
            later.execute("SET statement_timeout = '5s'")
            later.execute("INSERT INTO big VALUES (3000)")
            writer.commit()
            running.join()
        assert names(empty) == {"big", "big_a", "big_once"}

    def test_unfinished_index_is_dropped_and_made_again(self, empty, steps):
        steps(self.TABLE + b"; INSERT INTO big VALUES (1)")
        migrate(empty)
        steps(self.TABLE + b"; INSERT INTO big VALUES (1)", self.INDEX)
        for _ in range(2):
            with pytest.raises(psycopg.errors.UniqueViolation):
                migrate(empty)
        assert names(empty) == {"big", "big_a"}
        with psycopg.connect(empty) as connection:
            connection.execute("DELETE FROM big WHERE ctid = (SELECT max(ctid) FROM big WHERE a = 1)")
        assert migrate(empty) == [2]
        assert names(empty) == {"big", "big_a", "big_once"}

    def test_runner_that_waits_does_not_block_index(self, empty, steps):
        steps(self.TABLE)
        migrate(empty)
        steps(self.TABLE, self.INDEX)
        with psycopg.connect(empty) as writer, psycopg.connect(empty, autocommit=True) as watcher:
            writer.execute("INSERT INTO big VALUES (2000)")
            ran: list[list[int]] = []
            first = threading.Thread(target=lambda: ran.append(migrate(empty)))
            first.start()
            wait_for_statement(watcher, "CREATE INDEX CONCURRENTLY")
            has_waited = threading.Event()

            def pause(seconds: float) -> None:
                has_waited.set()
                time.sleep(seconds)

            second = threading.Thread(target=lambda: ran.append(migrate(empty, pause=pause)))
            second.start()
            assert has_waited.wait(20)
            writer.commit()
            for thread in (first, second):
                thread.join()
        assert sorted(ran) == [[], [2]]


class TestLocks:
    def test_migration_does_not_queue_writers_behind_it(self, empty, steps, monkeypatch):
        """It gives up its place, writers pass, and it is tried again until the transaction has ended."""
        monkeypatch.setattr(migrations, "LOCK_TIMEOUT_MS", 50)
        steps(b"CREATE TABLE busy (a int)")
        migrate(empty)
        steps(b"CREATE TABLE busy (a int)", b"CREATE TABLE half (a int); ALTER TABLE busy ADD b int")
        pauses: list[set[str]] = []
        with psycopg.connect(empty) as reader, psycopg.connect(empty, autocommit=True) as writer:
            reader.execute("SELECT count(*) FROM busy")

            def pause(_: float) -> None:
                writer.execute("SET lock_timeout = '1s'")
                writer.execute("INSERT INTO busy VALUES (1)")
                pauses.append(names(empty))
                if len(pauses) == 2:
                    reader.rollback()

            assert migrate(empty, pause=pause) == [2]
        assert pauses == [{"busy"}, {"busy"}]  # nothing of the migration remains between the tries
        assert names(empty) == {"busy", "half"}

    def test_migration_gives_up_at_its_deadline(self, empty, steps, monkeypatch):
        monkeypatch.setattr(migrations, "LOCK_TIMEOUT_MS", 50)
        steps(b"CREATE TABLE busy (a int)")
        migrate(empty)
        steps(b"CREATE TABLE busy (a int)", b"ALTER TABLE busy ADD b int")
        with psycopg.connect(empty) as reader:
            reader.execute("SELECT count(*) FROM busy")
            with pytest.raises(MigrationBlocked, match="0002_step2"):
                migrate(empty, within_s=3)

    def test_second_runner_gives_up_at_its_deadline(self, empty, steps):
        steps(b"SELECT 1")
        with psycopg.connect(empty, autocommit=True) as other:
            other.execute(migrations.SQL["take_lock"])
            with pytest.raises(MigrationBlocked, match="another migration runs"):
                migrate(empty, within_s=0.2)

    def test_long_statement_is_stopped_at_the_deadline(self, empty, steps):
        steps(b"SELECT pg_sleep(60)")
        with pytest.raises(psycopg.errors.QueryCanceled):
            migrate(empty, within_s=1)


def wait_for_statement(connection: psycopg.Connection, start: str) -> None:
    """Until another session runs a statement that starts like this and waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND wait_event_type = 'Lock'"
    while connection.execute(query, [f"{start}%"]).fetchone() != (1,):
        time.sleep(0.05)


def test_credit_after_wrong_report_is_corrected(empty, postgres_url, monkeypatch):
    """Earlier releases left such a payment as FOREIGN, and the comparison with the bill passed over it."""
    every = migrations.available()
    at = next(place for place, one in enumerate(every) if b"pay_order_transaction" in one.text)
    monkeypatch.setattr(migrations, "available", lambda: every[:at])
    migrate(empty)
    tenant_id, user_id, order_id = uuid4(), uuid4(), uuid4()
    add_users(make_conninfo(postgres_url, dbname=conninfo_to_dict(empty)["dbname"]), tenant_id, [user_id])
    with psycopg.connect(postgres_url, dbname=conninfo_to_dict(empty)["dbname"]) as superuser:
        superuser.execute(
            "INSERT INTO pay_order (tenant_id, user_id, order_id, out_trade_no, mchid, appid, package_id, amount_fen,"
            " points, channel, status, prepay_body, created_at, expires_at, next_query_at, transaction_id, paid_at)"
            " VALUES (%s, %s, %s, %s, 'm', 'a', 'p', 990, 100, 'native', 'COMPLETED', '{}', now(), now(), now(), 't1',"
            " now())",
            [tenant_id, user_id, order_id, order_id.hex],
        )
        superuser.execute(
            "INSERT INTO pay_transaction (mchid, transaction_id, out_trade_no, outcome, source, seen_at)"
            " SELECT 'm', id, %s, 'FOREIGN', 'callback', now() FROM unnest(ARRAY['t1', 't2']) AS id",
            [order_id.hex],
        )
    monkeypatch.setattr(migrations, "available", lambda: every[: at + 1])
    migrate(empty)
    with psycopg.connect(postgres_url, dbname=conninfo_to_dict(empty)["dbname"]) as superuser:
        found = superuser.execute("SELECT transaction_id, outcome, order_id FROM pay_transaction ORDER BY 1").fetchall()
    assert found == [("t1", "CREDITED", order_id), ("t2", "FOREIGN", None)]
