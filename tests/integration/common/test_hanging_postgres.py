"""A PostgreSQL that takes connections and never answers: its own time limits stand still with it, ours must not."""

from __future__ import annotations

import contextlib
import json
import time
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from artiway.idempotency.repository import PostgresKeys
from artiway.idempotency.service import IdempotencyService
from artiway.platform import waits
from artiway.platform.consumer import consume
from artiway.platform.database import Database, DatabaseAway
from artiway.platform.settings import Settings
from tests.conftest import Addresses
from tests.integration.common.hung import DATABASE, frozen

# What is promised to a client of the API.
ANSWER_S = 3
TENANT, USER = uuid4(), uuid4()
INSERT = b"INSERT INTO outbox (tenant_id, aggregate, destination, body) VALUES (%(tenant)s, 'a', 'q', '{}')"


@pytest.fixture
def connect():
    """A database with the limits that functions of the API have, unless others are given."""
    settings = Settings()
    with contextlib.ExitStack() as opened:

        def make(address: str, **limits: float) -> Database:
            found = {
                "connect_timeout_s": settings.database_connect_timeout_s,
                "begin_timeout_s": settings.database_begin_timeout_s,
                "statement_timeout_ms": settings.database_statement_timeout_ms,
                "request_timeout_s": settings.database_request_timeout_s,
            } | limits
            return opened.enter_context(contextlib.closing(Database(address, **found)))

        yield make


@pytest.fixture
def databases(postgres_server, connect):
    """As the application and as the service, connected."""
    addresses = Addresses.of(postgres_server.url, DATABASE)
    app, service = connect(addresses.app), connect(addresses.service)
    read(app), read(service)
    return app, service


def read(database: Database) -> None:
    with database.service_transaction() as tx:
        tx.one(b"SELECT 1 AS one")


def write(database: Database) -> None:
    with database.tenant_transaction(TENANT) as tx:
        tx.run(INSERT, {"tenant": TENANT})


def rows(database: Database) -> int:
    with database.tenant_transaction(TENANT) as tx:
        found = tx.one(b"SELECT count(*) AS n FROM outbox")
        assert found is not None
        return int(found["n"])


@contextlib.contextmanager
def answered_in_time():
    began = time.monotonic()
    with waits.counted(is_bounded=True):
        yield
    assert time.monotonic() - began < ANSWER_S


def test_frozen_server_fails_within_three_seconds(postgres_server, databases):
    app, service = databases
    with frozen(postgres_server), answered_in_time():
        for database in (app, service, app):
            with pytest.raises(DatabaseAway) as caught:
                read(database)
    assert (caught.value.code, caught.value.retry_after_s) == ("PLATFORM_503_DATABASE", 2)
    read(app), read(service)


def test_after_one_wait_request_waits_no_more(postgres_server, databases):
    app, service = databases
    with frozen(postgres_server), waits.counted(is_bounded=True):
        with pytest.raises(DatabaseAway):
            read(app)
        waited_s = waits.current().total_s
        for database in (service, app, service):
            with pytest.raises(DatabaseAway):
                read(database)
        assert waits.current().total_s == waited_s


def test_server_frozen_inside_transaction_fails_in_time(postgres_server, databases):
    app, _ = databases
    until = contextlib.ExitStack()
    with until, answered_in_time(), pytest.raises(DatabaseAway), app.tenant_transaction(TENANT) as tx:
        tx.run(INSERT, {"tenant": TENANT})
        with app.tenant_transaction(TENANT) as inner:
            until.enter_context(frozen(postgres_server))
            inner.run(INSERT, {"tenant": TENANT})
    assert rows(app) == 0


def test_refusal_is_said_though_its_rollback_hangs(postgres_server, databases):
    app, _ = databases
    until = contextlib.ExitStack()
    with until, answered_in_time(), pytest.raises(KeyError), app.tenant_transaction(TENANT) as tx:
        tx.run(INSERT, {"tenant": TENANT})
        until.enter_context(frozen(postgres_server))
        raise KeyError("refused")
    assert rows(app) == 0


def test_connection_lost_before_freeze_costs_no_second_wait(postgres_server, databases):
    app, _ = databases
    app._connection.pgconn.finish()
    with frozen(postgres_server), answered_in_time(), pytest.raises(DatabaseAway):
        read(app)
    read(app)


def test_listener_that_never_answers_fails_in_time(connect, serve):
    listener = serve(lambda connection: connection.recv(1))
    address = make_conninfo(host="127.0.0.1", port=listener.port, user="u", password="p", dbname="d")
    with answered_in_time(), pytest.raises(DatabaseAway):
        read(connect(address))
    assert listener.asked


def test_one_limit_holds_for_all_addresses_of_host(connect, serve):
    listeners = [serve(lambda connection: connection.recv(1)) for _ in range(4)]
    ports = ",".join(str(listener.port) for listener in listeners)
    address = make_conninfo(host=",".join(["127.0.0.1"] * 4), port=ports, user="u", password="p", dbname="d")
    with answered_in_time(), pytest.raises(DatabaseAway):
        read(connect(address))


def test_slow_server_gives_up_before_client(postgres_server, connect):
    database = connect(Addresses.of(postgres_server.url, DATABASE).app, statement_timeout_ms=100)
    with pytest.raises(DatabaseAway) as caught, database.service_transaction() as tx:
        tx.run(b"SELECT pg_sleep(60)")
    assert caught.value.reason == "QueryCanceled"


def test_slow_statements_of_one_request_share_its_limit(postgres_server, connect):
    database = connect(Addresses.of(postgres_server.url, DATABASE).app)
    with answered_in_time(), pytest.raises(DatabaseAway):
        for _ in range(10):
            with database.service_transaction() as tx:
                tx.run(b"SELECT pg_sleep(0.5)")


def test_commit_without_answer_is_done_once(postgres_server, connect):
    """The server may have the COMMIT and do it when it wakes: the same key then gives the same answer."""
    address = Addresses.of(postgres_server.url, DATABASE).app
    database, until = connect(address), contextlib.ExitStack()
    once = IdempotencyService(PostgresKeys(database))
    before = rows(database)

    def perform() -> tuple[int, str]:
        write(database)
        return 201, "made"

    end = database._end

    def end_of_a_frozen_server(command: bytes) -> None:
        if command == b"COMMIT":
            until.enter_context(frozen(postgres_server))
        end(command)

    database._end = end_of_a_frozen_server
    with answered_in_time(), pytest.raises(DatabaseAway):
        once.run(tenant_id=TENANT, user_id=USER, key="k", request_hash="h", perform=perform)
    until.close()
    del database._end
    assert once.run(tenant_id=TENANT, user_id=USER, key="k", request_hash="h", perform=perform) == (201, "made")
    assert rows(database) == before + 1


def test_batch_of_messages_waits_once_and_fails_whole(postgres_server, databases):
    app, _ = databases
    records = [{"messageId": str(n), "body": json.dumps({"type": "t", "data": {}})} for n in range(10)]
    with frozen(postgres_server):
        began = time.monotonic()
        answer = consume({"Records": records}, lambda message: read(app))
        assert time.monotonic() - began < ANSWER_S
    assert len(answer["batchItemFailures"]) == 10
    assert consume({"Records": records}, lambda message: read(app)) == {"batchItemFailures": []}
