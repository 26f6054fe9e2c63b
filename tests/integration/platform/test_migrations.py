from __future__ import annotations

import threading
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from artiway.platform import migrations
from artiway.platform.migrations import Migration, MigrationChanged, migrate
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
