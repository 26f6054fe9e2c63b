"""Servers for all tests: one PostgreSQL per run with a database per worker, one Valkey per worker."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import psycopg
import pytest
import redis
from psycopg import sql
from psycopg.conninfo import make_conninfo

from artiway.platform import logs
from artiway.platform.database import Database
from artiway.platform.migrations import migrate
from local.servers import free_port, running, start_postgres, start_valkey

_SERVERS = contextlib.ExitStack()
_PASSWORD = "test"
# How many times as long random tests run; `make soak` sets it.
SOAK = int(os.environ.get("ARTIWAY_SOAK", "1"))
UNIT = Path(__file__).parent / "unit"
ROLES = ("artiway_owner", "artiway_app", "artiway_service")


def soaked(count: int) -> int:
    """So many seeds or examples in `make test`, and a multiple of them in `make soak`."""
    return count * SOAK


# Without a deadline: the time of an example depends on what else the machine does.
hypothesis.settings.register_profile(
    "soaked", max_examples=soaked(hypothesis.settings.default.max_examples), deadline=None
)
hypothesis.settings.load_profile("soaked")


def pytest_configure(config: pytest.Config) -> None:
    """The controller starts PostgreSQL before xdist forks its workers; they find it in the environment.

    Unit tests need no server, so it is not started where only they run.
    """
    os.environ["ARTIWAY_LOG_LEVEL"] = "WARNING"  # of the processes that tests start
    os.environ["ARTIWAY_ORIGIN_HASHES"] = "off"  # tests that call a handler have no CloudFront
    logging.getLogger(logs.SERVICE).setLevel(logging.WARNING)
    if hasattr(config, "workerinput") or all(Path(name).resolve().is_relative_to(UNIT) for name in _paths(config)):
        return
    home = _SERVERS.enter_context(server_home())
    server = _SERVERS.enter_context(running(start_postgres(home, free_port(), is_durable=False)))
    os.environ["ARTIWAY_TEST_POSTGRES_URL"] = server.url
    make_roles(server.url)
    make_database(server.url, "artiway_template")
    migrate(make_conninfo(server.url, user="artiway_owner", password=_PASSWORD, dbname="artiway_template"))


def _paths(config: pytest.Config) -> list[str]:
    """The folders and files to be run, without the names of single tests."""
    return [argument.partition("::")[0] for argument in config.args]


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _SERVERS.close()


@contextlib.contextmanager
def server_home() -> Iterator[Path]:
    """A new folder that the account of PostgreSQL can reach. In pytest's own folders it cannot."""
    with tempfile.TemporaryDirectory(prefix="artiway-tests-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def make_roles(url: str) -> None:
    """As on RDS: the owner has CREATEROLE, is no superuser and creates the others."""
    owner, *others = ROLES
    create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} {}")
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(create.format(sql.Identifier(owner), _PASSWORD, sql.SQL("CREATEROLE")))
    with psycopg.connect(url, user=owner, password=_PASSWORD, autocommit=True) as connection:
        for role in others:
            connection.execute(create.format(sql.Identifier(role), _PASSWORD, sql.SQL("")))


def make_database(url: str, name: str, template: str = "template0") -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER artiway_owner TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )


@dataclass(frozen=True)
class Addresses:
    """One migrated database, as each role reaches it."""

    superuser: str
    owner: str
    app: str
    service: str

    @staticmethod
    def of(superuser_url: str, database: str) -> Addresses:
        def role(name: str) -> str:
            return make_conninfo(superuser_url, user=name, password=_PASSWORD, dbname=database)

        return Addresses(make_conninfo(superuser_url, dbname=database), *(role(name) for name in ROLES))


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """The superuser's address of the run's PostgreSQL."""
    return os.environ["ARTIWAY_TEST_POSTGRES_URL"]


@pytest.fixture(scope="session")
def make_addresses(postgres_url: str, worker_id: str) -> Callable[..., Addresses]:
    """A database of one's own, by name: migrated, or made like another template."""

    def make(name: str, template: str = "artiway_template") -> Addresses:
        database = f"artiway_{worker_id}_{name}"
        make_database(postgres_url, database, template)
        return Addresses.of(postgres_url, database)

    return make


@pytest.fixture(scope="session")
def worker_addresses(make_addresses: Callable[..., Addresses]) -> Addresses:
    return make_addresses("shared")


@pytest.fixture
def addresses(worker_addresses: Addresses) -> Addresses:
    """This worker's database, emptied."""
    return emptied(worker_addresses)


def emptied(addresses: Addresses) -> Addresses:
    """Only tables that hold something are touched: truncating all costs far more."""
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # the order of foreign keys does not matter here
        tables = connection.execute(
            "SELECT format('%I', relname) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE nspname = 'public' AND relkind IN ('r', 'p') AND relname <> 'schema_migration'"
        ).fetchall()
        probe = " UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for (name,) in tables)
        for (name,) in connection.execute(probe.encode()).fetchall() if tables else []:
            connection.execute(f"DELETE FROM {name}".encode())
    return addresses


@pytest.fixture
def database(addresses: Addresses) -> Iterator[Database]:
    """As the application: one tenant's rows."""
    with contextlib.closing(Database(addresses.app)) as database:
        yield database


@pytest.fixture
def service_database(addresses: Addresses) -> Iterator[Database]:
    """As a function that works across tenants."""
    with contextlib.closing(Database(addresses.service)) as database:
        yield database


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(start_valkey(tmp_path_factory.mktemp("valkey"), free_port(), is_durable=False)) as server:
        yield server.url


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[redis.Redis]:
    """An empty Redis of this worker's own."""
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        client.flushall()
        yield client
