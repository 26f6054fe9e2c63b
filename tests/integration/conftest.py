"""After every test that touches the database its books must be right (R-TST-3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from artiway.platform.database import Database
from artiway.recovery.invariants import Invariants
from artiway.recovery.mirror import SlotMirror
from artiway.recovery.repository import PostgresInvariantQueries, PostgresSlots
from artiway.settings.model import Defaults
from tests.conftest import Addresses


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "breaks_invariants(reason, *names): the books it leaves are wrong in these")


@pytest.fixture(scope="session")
def invariants(worker_addresses: Addresses) -> Iterator[Invariants]:
    """Of this process's database. Redis is looked at by the worlds that have one."""
    with contextlib.closing(Database(worker_addresses.service)) as database:
        mirror = SlotMirror(PostgresSlots(database), lambda pool: NotImplemented, pools=())
        yield Invariants(PostgresInvariantQueries(database), mirror, Defaults())


@pytest.fixture(autouse=True)
def _books_are_right(request: pytest.FixtureRequest) -> Iterator[None]:
    # The first to come is the last to go: whatever the test's own fixtures still do is done.
    if not {"addresses", "worker_addresses"} & set(request.fixturenames):
        yield
        return
    invariants: Invariants = request.getfixturevalue("invariants")
    yield
    marker = request.node.get_closest_marker("breaks_invariants")
    excused = marker.args[1:] if marker else ()
    broken = [check for check in invariants.check().checks if not check.is_ok and check.name not in excused]
    assert not broken, broken
