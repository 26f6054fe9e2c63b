from __future__ import annotations

import contextlib
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from artiway.errors import Conflict, Refused
from artiway.platform.database import Database, DatabaseAway
from local.servers import free_port, start_postgres
from tests.conftest import Addresses

A, B = uuid4(), uuid4()
INSERT = b"INSERT INTO outbox (tenant_id, aggregate, destination, body) VALUES (%(tenant)s, 'a', 'q', '{}')"
COUNT = b"SELECT count(*) AS n FROM outbox"


def rows(database: Database, tenant=None) -> int:
    with database.tenant_transaction(tenant) if tenant else database.service_transaction() as tx:
        row = tx.one(COUNT)
        assert row is not None
        return row["n"]


def test_transaction_sees_and_writes_its_own_tenant_only(database):
    with database.tenant_transaction(A) as tx:
        tx.run(INSERT, {"tenant": A})
    assert (rows(database, A), rows(database, B)) == (1, 0)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.tenant_transaction(B) as tx:
        tx.run(INSERT, {"tenant": A})


def test_without_tenant_application_sees_nothing_and_writes_nothing(database):
    with database.tenant_transaction(A) as tx:
        tx.run(INSERT, {"tenant": A})
    assert rows(database) == 0  # also on a connection that had a tenant a moment ago
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.service_transaction() as tx:
        tx.run(INSERT, {"tenant": A})


def test_tenant_must_be_a_uuid(database):
    with pytest.raises(TypeError), database.tenant_transaction("' OR true --"):
        pass


def test_inner_transaction_is_a_savepoint_of_outer(database):
    with database.tenant_transaction(A) as tx:
        tx.run(INSERT, {"tenant": A})
        with pytest.raises(Refused), database.tenant_transaction(A) as inner:
            inner.run(INSERT, {"tenant": A})
            raise Refused("no")
        assert tx.one(COUNT) == {"n": 1}
    assert rows(database, A) == 1


def test_transaction_cannot_contain_one_of_another_tenant(database):
    with pytest.raises(RuntimeError), database.tenant_transaction(A), database.tenant_transaction(B):
        pass


def test_duplicate_becomes_error_that_caller_named(database, service_database):
    connect = b"INSERT INTO websocket_connection VALUES ('c', %(tenant)s, %(tenant)s, now(), now())"
    with service_database.service_transaction() as tx:
        tx.run(connect, {"tenant": A})
    with pytest.raises(Conflict, match="taken"), service_database.service_transaction() as tx:
        tx.run(connect, {"tenant": A}, on_duplicate=Conflict("taken"))


def test_failed_after_commit_callback_changes_nothing(database, capsys):
    seen: list[int] = []
    with database.tenant_transaction(A) as tx:
        tx.run(INSERT, {"tenant": A})
        tx.after_commit(lambda: seen.append(rows(database, A)))
        tx.after_commit(lambda: 1 / 0)
        assert seen == []
    assert seen == [1]
    assert "ZeroDivisionError" in capsys.readouterr().out


def test_connection_that_died_idle_is_replaced_without_word(database, addresses):
    assert rows(database, A) == 0
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = 'artiway_app' AND datname = current_database()"
        )
    assert rows(database, A) == 0


def test_transaction_works_after_a_lost_connection(database, addresses):
    with pytest.raises(DatabaseAway) as caught, database.tenant_transaction(A) as tx:
        tx.run(INSERT, {"tenant": A})
        with psycopg.connect(addresses.superuser, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE usename = 'artiway_app' AND datname = current_database()"
            )
        tx.run(INSERT, {"tenant": A})
    assert caught.value.status == 503
    assert rows(database, A) == 0


def test_statement_that_takes_too_long_is_ended(addresses):
    with contextlib.closing(Database(addresses.app, statement_timeout_ms=100)) as database:
        with pytest.raises(DatabaseAway), database.tenant_transaction(A) as tx:
            tx.run(b"SELECT pg_sleep(30)")
        assert rows(database, A) == 0


def test_locks_of_vanished_client_are_released(addresses):
    with contextlib.closing(Database(addresses.app, idle_transaction_ms=100)) as vanished:
        with pytest.raises(DatabaseAway), vanished.tenant_transaction(A) as tx:
            tx.run(INSERT, {"tenant": A})
            tx.run(b"SELECT pg_advisory_xact_lock(7)")
            with psycopg.connect(addresses.app, autocommit=True) as other:
                other.execute("SET statement_timeout = '30s'")
                other.execute("SELECT pg_advisory_lock(7)")  # returns when the server has ended the idle session
            tx.run(INSERT, {"tenant": A})
        assert rows(vanished, A) == 0


def test_database_is_used_again_after_an_outage(tmp_path):
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.name.startswith("pytest"):
            folder.chmod(0o755)
    port = free_port()
    server = start_postgres(tmp_path, port, is_durable=False)
    with contextlib.closing(Database(make_conninfo(server.url))) as database:
        with database.service_transaction() as tx:
            tx.run(b"SELECT 1")
        server.kill()
        with pytest.raises(DatabaseAway), database.service_transaction():
            pass
        server = start_postgres(tmp_path, port, is_durable=False)
        with database.service_transaction() as tx:
            tx.run(b"SELECT 1")
    server.stop()


def test_application_owns_nothing_and_cannot_truncate_or_bypass(addresses: Addresses):
    with psycopg.connect(addresses.superuser) as connection:
        flags = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles"
            " WHERE rolname IN ('artiway_app', 'artiway_service')"
        ).fetchall()
        owned = connection.execute(
            "SELECT relname FROM pg_class WHERE pg_get_userbyid(relowner) IN ('artiway_app', 'artiway_service')"
        ).fetchall()
        truncatable = connection.execute(
            "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = 'public' AND relkind IN ('r', 'p')"
            " AND (has_table_privilege('artiway_app', pg_class.oid, 'TRUNCATE')"
            "   OR has_table_privilege('artiway_service', pg_class.oid, 'TRUNCATE'))"
        ).fetchall()
    assert len(flags) == 2
    assert not any(any(row[1:]) for row in flags)
    assert owned == []
    assert truncatable == []
