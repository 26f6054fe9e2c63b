"""The same promises on the fake and on PostgreSQL: one suite keeps the fake honest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from artiway.outbox.repository import Outbox
from artiway.push.model import Notice
from artiway.push.repository import PostgresConnections
from artiway.push.service import PushService
from tests.fakes.push import FakeConnections, FakeSockets

TENANT, ANN, BOB = uuid4(), uuid4(), uuid4()


class FixedClock:
    def __init__(self, at):
        self.at = at

    def now(self):
        return self.at


@pytest.fixture(params=["fake", "postgres"])
def connections(request):
    if request.param == "fake":
        return FakeConnections()
    database = request.getfixturevalue("service_database")
    return PostgresConnections(database, Outbox(lambda *_: None))


@pytest.fixture
def sockets():
    return FakeSockets()


@pytest.fixture
def push(connections, sockets):
    return PushService(connections, sockets, FixedClock(datetime.now(UTC)), connection_ttl_s=60)


def open_socket(push, sockets, connection_id, user_id=ANN, tenant_id=TENANT):
    sockets.open[connection_id] = []
    push.connect(connection_id=connection_id, tenant_id=tenant_id, user_id=user_id)


def test_a_notice_reaches_every_socket_of_its_user_and_no_other(push, sockets):
    open_socket(push, sockets, "a1")
    open_socket(push, sockets, "a2")
    open_socket(push, sockets, "b1", BOB)
    open_socket(push, sockets, "x1", ANN, uuid4())  # the same user id in another tenant is another person
    assert push.deliver(Notice(TENANT, ANN, {"type": "hello"})) == 2
    assert [len(sockets.open[name]) for name in ("a1", "a2", "b1", "x1")] == [1, 1, 0, 0]


def test_a_socket_that_is_gone_is_forgotten_and_the_others_are_told(push, sockets, connections):
    open_socket(push, sockets, "a1")
    open_socket(push, sockets, "a2")
    del sockets.open["a1"]
    assert push.deliver(Notice(TENANT, ANN, {"type": "hello"})) == 1
    assert list(connections.of_user(TENANT, ANN)) == ["a2"]


def test_a_socket_that_closed_hears_nothing_more(push, sockets, connections):
    open_socket(push, sockets, "a1")
    push.disconnect("a1")
    assert push.deliver(Notice(TENANT, ANN, {"type": "hello"})) == 0


def test_connecting_twice_with_one_id_is_one_connection(push, sockets, connections):
    open_socket(push, sockets, "a1")
    open_socket(push, sockets, "a1")
    assert list(connections.of_user(TENANT, ANN)) == ["a1"]


def test_a_connection_past_its_time_is_passed_over_and_swept(connections, sockets):
    past = FixedClock(datetime.now(UTC) - timedelta(hours=3))
    push = PushService(connections, sockets, past, connection_ttl_s=60)
    open_socket(push, sockets, "a1")
    assert push.deliver(Notice(TENANT, ANN, {"type": "hello"})) == 0
    assert push.forget_expired() == 1
    assert push.forget_expired() == 0


def test_a_connection_and_its_greeting_are_stored_together(service_database):
    push = PushService(
        PostgresConnections(service_database, Outbox(lambda *_: None)),
        FakeSockets(),
        FixedClock(datetime.now(UTC)),
        connection_ttl_s=60,
    )
    push.connect(connection_id="a1", tenant_id=TENANT, user_id=ANN)
    with service_database.service_transaction() as tx:
        row = tx.one(b"SELECT tenant_id, destination, delay_s FROM outbox")
    assert row == {"tenant_id": TENANT, "destination": "push", "delay_s": 1}
