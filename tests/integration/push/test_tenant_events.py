"""Sockets that receive the events of all users of their tenant: each once, and in order for each user."""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from threading import Event, Lock
from uuid import uuid4

import pytest

from artiway.ids import to_wire
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.push import service
from artiway.push.model import Notice, Scope, TenantEventsNotAllowed, parse_cursor
from artiway.push.repository import SOCKETS_PER_PASS
from artiway.push.service import PushService, notice_message
from tests.fakes.push import FakeSockets
from tests.integration.common.conftest import until
from tests.integration.push.desk import ANN, BOB, QUIET, TENANT, Desk, FixedClock, Postgres
from tests.integration.push.test_push import progress

CHIEF, DESKTOP = uuid4(), uuid4()


def open_tenant_socket(desk, name="t1", **options):
    """Open a tenant-wide socket for a user with task.manage."""
    desk.store.add_user(TENANT, CHIEF, DESKTOP)
    desk.store.make_operator(CHIEF)
    desk.open(name, CHIEF, session_id=DESKTOP, scope=Scope.TENANT, **options)


def test_tenant_socket_receives_each_users_events_once(desk):
    open_tenant_socket(desk)
    desk.open("a1")
    desk.add_events("1", "2")
    desk.add_events("3", user_id=BOB)
    for user_id in (BOB, ANN, BOB):
        desk.deliver(user_id)
    desk.add_events("4", user_id=CHIEF)
    desk.deliver(CHIEF)
    assert desk.received("t1") == ["1", "2", "3", "4"]
    assert desk.received("a1") == ["1", "2"]


def test_messages_of_tenant_socket_name_the_user(desk):
    open_tenant_socket(desk)
    desk.open("a1")
    desk.add_events("1")
    assert desk.push.deliver(progress(10)) == 4
    users = [payload.get("userId") for payload in desk.sockets.open["t1"]]
    assert users == [None, to_wire("usr", ANN), to_wire("usr", ANN)]
    assert [payload["type"] for payload in desk.sockets.open["t1"]][1:] == ["task.started", "task.progress"]
    assert not any("userId" in payload for payload in desk.sockets.open["a1"])


def test_tenant_socket_receives_nothing_of_other_tenants(desk):
    open_tenant_socket(desk)
    stranger = (uuid4(), uuid4())
    desk.store.publish(*stranger, {"type": "task.started", "node": "x"})
    desk.push.deliver(Notice(*stranger))
    desk.deliver()
    assert desk.received("t1") == []


def test_tenant_socket_needs_permission_to_open(desk):
    desk.open("a1")
    with pytest.raises(TenantEventsNotAllowed):
        desk.open("t1", scope=Scope.TENANT)


@pytest.mark.parametrize("is_swept", [True, False])
def test_tenant_socket_is_closed_without_its_permission(desk, is_swept):
    open_tenant_socket(desk)
    desk.open("own", CHIEF, session_id=DESKTOP)
    desk.deliver(CHIEF)
    desk.store.make_member(CHIEF)
    received = desk.sockets.open["t1"]
    if is_swept:
        assert desk.push.close_ended() == 1
    desk.add_events("1")
    assert desk.deliver() == 0
    assert len(received) == 1
    assert desk.sockets.closed == ["t1"]
    desk.add_events("2", user_id=CHIEF)
    assert desk.deliver(CHIEF) == 1


def test_reconnect_with_cursor_misses_no_event(desk):
    open_tenant_socket(desk)
    desk.add_events("1")
    desk.deliver()
    cursor = desk.cursor("t1")
    desk.add_events("2", user_id=BOB)
    desk.deliver(BOB)
    desk.push.disconnect("t1")
    desk.add_events("3")
    desk.add_events("4", user_id=BOB)
    open_tenant_socket(desk, "t2", after=cursor)
    desk.add_events("5")
    desk.deliver()
    assert desk.received("t2") == ["2", "3", "4", "5"]


def test_reconnect_without_cursor_continues_in_its_scope(desk):
    open_tenant_socket(desk)
    desk.open("own", CHIEF, session_id=DESKTOP)
    desk.add_events("1")
    desk.deliver()
    desk.push.disconnect("t1")
    desk.push.disconnect("own")
    desk.add_events("2")
    open_tenant_socket(desk, "t2")
    desk.open("own2", CHIEF, session_id=DESKTOP)
    desk.deliver()
    desk.deliver(CHIEF)
    assert (desk.received("t2"), desk.received("own2")) == (["2"], [])


def test_sockets_beyond_one_pass_are_all_served(desk):
    names = [f"t{number}" for number in range(2 * SOCKETS_PER_PASS + 1)]
    for name in names:
        open_tenant_socket(desk, name)
    desk.add_events("1", "2")
    assert desk.deliver() == 2 * len(names)
    assert desk.push.deliver(progress(10)) == len(names)
    assert all(desk.received(name) == ["1", "2", "1"] for name in names)


def test_long_backlog_is_sent_by_several_calls(desk, monkeypatch):
    monkeypatch.setattr(service, "POSTS_PER_CALL", 2)
    open_tenant_socket(desk)
    desk.add_events("1", "2", "3")
    before = len(desk.store.wake_messages())
    assert desk.deliver() == 3
    assert desk.store.wake_messages()[before:] == [{"tenant_id": TENANT, "delay_s": 0}]


class Writer:
    """A separate transaction that publishes events and commits on command."""

    def __init__(self, addresses, outbox=QUIET):
        self._addresses, self._outbox = addresses, outbox
        self.has_published, self._may_commit = Event(), Event()

    def write(self, user_id, node):
        with closing(Database(self._addresses.service)) as own, own.service_transaction() as tx:
            event = {"type": "task.started", "node": node}
            self._outbox.publish(tx, [notice_message(Notice(TENANT, user_id, event))])
            self.has_published.set()
            assert self._may_commit.wait(30)

    def commit(self):
        self._may_commit.set()


def waits_for_a_lock(database):
    with database.service_transaction() as tx:
        return tx.one(b"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") is not None


class TestWriters:
    @pytest.fixture
    def desk(self, service_database):
        return Desk(Postgres(service_database))

    @pytest.fixture
    def pool(self):
        with ThreadPoolExecutor(2) as pool:
            yield pool

    def test_of_a_watched_tenant_commit_in_order(self, desk, pool, addresses, service_database):
        open_tenant_socket(desk)
        first, second = Writer(addresses), Writer(addresses)
        try:
            done = [pool.submit(first.write, ANN, "1")]
            assert first.has_published.wait(30)
            second.commit()
            done.append(pool.submit(second.write, BOB, "2"))
            until(lambda: second.has_published.is_set() or waits_for_a_lock(service_database))
            desk.deliver()
            assert desk.received("t1") == []
        finally:
            first.commit()
        for one in done:
            one.result()
        desk.deliver()
        assert desk.received("t1") == ["1", "2"]

    def test_of_an_unwatched_tenant_do_not_wait(self, desk, pool, addresses):
        desk.open("a1")
        desk.open("b1", BOB)
        first, second = Writer(addresses), Writer(addresses)
        try:
            done = [pool.submit(first.write, ANN, "1")]
            assert first.has_published.wait(30)
            done.append(pool.submit(second.write, BOB, "2"))
            assert second.has_published.wait(30)
        finally:
            first.commit()
            second.commit()
        for one in done:
            one.result()

    def test_commit_before_a_tenant_wide_socket_opens(self, desk, pool, addresses, service_database):
        desk.store.add_user(TENANT, CHIEF, DESKTOP)
        desk.store.make_operator(CHIEF)
        writer = Writer(addresses)

        def open_socket():
            with closing(Database(addresses.service)) as own:
                other = Desk(Postgres(own))
                other.push.connect(
                    connection_id="t1", tenant_id=TENANT, user_id=CHIEF, session_id=DESKTOP, scope=Scope.TENANT
                )

        try:
            done = [pool.submit(writer.write, ANN, "1")]
            assert writer.has_published.wait(30)
            done.append(pool.submit(open_socket))
            until(lambda: waits_for_a_lock(service_database) or done[1].done())
            assert not done[1].done()
        finally:
            writer.commit()
        for one in done:
            one.result()
        desk.sockets.open["t1"] = []
        desk.add_events("2", user_id=BOB)
        desk.deliver(BOB)
        assert desk.received("t1") == ["2"]

    def test_publish_events_for_a_tenant_wide_socket(self, desk, addresses):
        published = []
        outbox = Outbox(lambda _tenant_id, envelopes: published.extend(one.aggregate for one in envelopes))
        writer = Writer(addresses, outbox)
        writer.commit()
        writer.write(BOB, "1")
        assert published == []
        open_tenant_socket(desk)
        writer.write(BOB, "2")
        assert published == [f"user:{BOB}"]


class Lines(FakeSockets):
    """Sockets of one client, which keeps what it receives. A message posted after a cut does not arrive."""

    def __init__(self):
        super().__init__()
        self.received, self._lock = [], Lock()

    def post(self, connection_id, payload):
        with self._lock:
            super().post(connection_id, payload)

    def close(self, connection_id):
        with self._lock:
            super().close(connection_id)

    def cut(self, connection_id):
        with self._lock:
            self.open.pop(connection_id, None)

    def plug_in(self, connection_id):
        self.open[connection_id] = self.received


@pytest.mark.parametrize("seed", range(4))
def test_racing_writers_and_a_flaky_client_lose_nothing(service_database, addresses, seed):
    """Writers of four users, two deliverers, and a client that is away from time to time."""
    users, events = [uuid4() for _ in range(4)], 25
    sockets = Lines()
    received = sockets.received
    desk = Desk(Postgres(service_database), sockets)
    sockets.plug_in("t0")
    open_tenant_socket(desk, "t0")
    is_over = Event()

    def write(user_id):
        luck = random.Random(f"{seed}{users.index(user_id)}")
        with closing(Database(addresses.service)) as own:
            for number in range(events):
                with own.service_transaction() as tx:
                    event = {"type": "task.started", "node": str(number)}
                    QUIET.publish(tx, [notice_message(Notice(TENANT, user_id, event))])
                    # The longer a transaction stays open after its number is given, the sooner another overtakes it.
                    tx.run(b"SELECT pg_sleep(%(s)s)", {"s": luck.random() * 0.004})

    def deliver(_):
        with closing(Database(addresses.service)) as own:
            connections = Postgres(own).connections
            push = PushService(connections, sockets, FixedClock(datetime.now(UTC)), ttl_s=60, lease_s=60)
            while not is_over.is_set():
                push.deliver(Notice(TENANT, users[0]))

    def come_and_go():
        luck = random.Random(seed)
        with closing(Database(addresses.service)) as own:
            client = Desk(Postgres(own))
            for life in range(1, 9):
                length = len(received)
                until(lambda length=length: len(received) > length or all(one.done() for one in writing))
                sockets.cut(f"t{life - 1}")
                if luck.random() < 0.8:  # otherwise the server does not learn that the socket broke
                    client.push.disconnect(f"t{life - 1}")
                with own.service_transaction() as tx:  # away for a moment, in which writers do not wait for each other
                    tx.run(b"SELECT pg_sleep(%(s)s)", {"s": luck.random() * 0.01})
                cursor = parse_cursor(received[-1]["cursor"]) if received else 0
                sockets.plug_in(f"t{life}")
                client.push.connect(
                    connection_id=f"t{life}",
                    tenant_id=TENANT,
                    user_id=CHIEF,
                    session_id=DESKTOP,
                    scope=Scope.TENANT,
                    after=cursor,
                )

    with ThreadPoolExecutor(8) as pool:
        delivering = [pool.submit(deliver, number) for number in range(2)]
        writing = [pool.submit(write, user_id) for user_id in users]
        try:
            pool.submit(come_and_go).result()
            for one in writing:
                one.result()
        finally:
            is_over.set()
        for one in delivering:
            one.result()
    desk.deliver(users[0])
    by_user = defaultdict(list)
    for payload in received:
        if "userId" in payload:
            by_user[payload["userId"]].append(payload["node"])
    assert by_user == {to_wire("usr", user_id): [str(number) for number in range(events)] for user_id in users}
