from __future__ import annotations

import threading

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from artiway.platform import migrations
from artiway.platform.migrations import Migration, MigrationChanged, migrate
from tests.conftest import make_database
from tools import schema


@pytest.fixture
def empty(postgres_url, worker_id, request):
    """An empty database, as its owner."""
    name = f"empty_{worker_id}_{abs(hash(request.node.name))}"
    make_database(postgres_url, name)
    return make_conninfo(postgres_url, user="artiway_owner", password="test", dbname=name)


def test_the_schema_file_is_the_sum_of_the_migrations(addresses):
    assert schema.TARGET.read_text("utf-8") == schema.dump(addresses.owner), "run `make schema`"


def test_the_schema_file_alone_makes_the_same_database(empty, addresses):
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute(schema.TARGET.read_bytes())
    assert schema.dump(empty) == schema.dump(addresses.owner)


def test_migrating_twice_does_nothing_the_second_time(empty):
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


def test_a_migration_that_fails_leaves_nothing_behind(empty, monkeypatch):
    broken = Migration(1, "broken", b"CREATE TABLE half (a int); SELECT 1 / 0")
    monkeypatch.setattr(migrations, "available", lambda: [broken])
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty)
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT to_regclass('half')").fetchone() == (None,)
        assert connection.execute("SELECT count(*) FROM schema_migration").fetchone() == (0,)


def test_a_migration_edited_after_it_ran_is_refused(empty, monkeypatch):
    monkeypatch.setattr(migrations, "available", lambda: [Migration(1, "first", b"SELECT 1")])
    migrate(empty)
    monkeypatch.setattr(migrations, "available", lambda: [Migration(1, "first", b"SELECT 2")])
    with pytest.raises(MigrationChanged, match="0001_first"):
        migrate(empty)
