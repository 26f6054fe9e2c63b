"""Points on the fake and on PostgreSQL: one suite keeps both honest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.platform.database import Database
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from tests.conftest import Addresses
from tests.fakes.clock import FixedClock
from tests.fakes.points import FakeLedger
from tests.fakes.users import add_users

TENANT = UUID("01900000-0000-7000-8000-00000000000a")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture(params=["fake", "postgres"])
def ledger(request: pytest.FixtureRequest) -> FakeLedger | PostgresLedger:
    if request.param == "fake":
        return FakeLedger()
    return PostgresLedger(request.getfixturevalue("database"), AuditLog())


@pytest.fixture
def points(ledger: FakeLedger | PostgresLedger, clock: FixedClock) -> PointsService:
    return PointsService(ledger, clock)


@pytest.fixture
def new_user(ledger: FakeLedger | PostgresLedger, request: pytest.FixtureRequest) -> Callable[[], UUID]:
    def make() -> UUID:
        user_id = uuid4()
        if isinstance(ledger, FakeLedger):
            ledger.add_user(TENANT, user_id)
        else:
            add_users(request.getfixturevalue("addresses").superuser, TENANT, [user_id])
        return user_id

    return make


@pytest.fixture
def make_points(addresses: Addresses, clock: FixedClock) -> Iterator[Callable[[], PointsService]]:
    """Services on connections of their own, as concurrent functions have, and with longer timeouts: sixty-four of them
    that sign in at once on a busy core may take longer than a function would wait."""
    databases: list[Database] = []

    def make() -> PointsService:
        databases.append(Database(addresses.app, connect_timeout_s=60, statement_timeout_ms=60_000))
        return PointsService(PostgresLedger(databases[-1], AuditLog()), clock)

    yield make
    for database in databases:
        database.close()


@pytest.fixture
def superuser(addresses: Addresses) -> Iterator[psycopg.Connection]:
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        yield connection
