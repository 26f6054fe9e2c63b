"""Delivery to sockets. Each test runs on the fake and on PostgreSQL, so that the fake stays true."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Barrier
from uuid import uuid4

import pytest

from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.push.model import Connection, MoreToSend, Notice, NotPosted, parse_cursor
from artiway.push.repository import EVENTS_LIMIT
from artiway.push.service import PushService, notice_message
from tests.integration.common.conftest import until
from tests.integration.push.desk import ANN, BOB, PHONE, TENANT, Desk, FixedClock, Killed, Postgres


def test_socket_receives_greeting_then_each_event_once(desk):
    desk.open("a1")
    desk.add_events("1", "2", "3")
    for _ in range(3):
        desk.deliver()
    desk.add_events("4")
    desk.add_events("5")
    for _ in range(2):
        desk.deliver()
    assert desk.sockets.open["a1"][0]["type"] == "connected"
    assert desk.received("a1") == ["1", "2", "3", "4", "5"]


def test_events_reach_only_sockets_of_their_user(desk):
    desk.open("a1")
    desk.open("a2", session_id=uuid4())
    desk.open("b1", BOB)
    desk.open("x1", uuid4(), uuid4())  # of another tenant
    desk.add_events("1")
    for user_id in (ANN, BOB):
        desk.deliver(user_id)
    assert [desk.received(name) for name in ("a1", "a2", "b1", "x1")] == [["1"], ["1"], [], []]


def test_new_socket_receives_later_events_only(desk):
    desk.add_events("1")
    desk.open("a1")
    desk.add_events("2")
    desk.deliver()
    assert desk.received("a1") == ["2"]


def test_closed_socket_does_not_stop_the_others(desk):
    desk.open("a1")
    desk.open("a2", session_id=uuid4())
    desk.add_events("1")
    del desk.sockets.open["a1"]
    assert desk.deliver() == 1
    assert desk.received("a2") == ["1"]
    assert desk.deliver() == 0


def test_reconnect_with_cursor_receives_later_events_once(desk):
    desk.open("a1")
    desk.add_events("1", "2")
    desk.deliver()
    cursor = desk.cursor("a1")
    desk.add_events("3")
    desk.deliver()  # posted, and lost on its way to the client
    desk.push.disconnect("a1")
    desk.add_events("4")
    desk.open("a2", after=cursor)
    desk.add_events("5")
    desk.deliver()
    assert desk.sockets.open["a2"][0] | {"at": ""} == {"type": "connected", "at": "", "cursor": str(cursor)}
    assert desk.received("a2") == ["3", "4", "5"]


def test_reconnect_without_cursor_continues_after_closed_socket(desk):
    desk.open("a1")
    desk.open("laptop", session_id=uuid4())
    desk.add_events("1")
    desk.deliver()
    desk.push.disconnect("a1")
    desk.add_events("2")
    desk.deliver()
    desk.open("a2")
    desk.open("a3")  # another window: a2 continued after a1 already
    desk.deliver()
    assert [desk.received(name) for name in ("laptop", "a2", "a3")] == [["1", "2"], ["2"], []]


def test_reconnect_after_resume_time_receives_new_events(make):
    desk = make(resume_s=0)
    desk.open("a1")
    desk.push.disconnect("a1")
    desk.add_events("1")
    desk.open("a2")
    desk.deliver()
    assert desk.received("a2") == []
    assert desk.push.forget_expired() == 1


@pytest.mark.parametrize(
    ("text", "cursor"), [("12", 12), ("", None), (None, None), ("-1", None), ("x", None), ("1" * 19, None)]
)
def test_text_that_is_no_cursor_is_ignored(text, cursor):
    assert parse_cursor(text) == cursor


def test_cursor_above_newest_event_is_lowered(desk):
    desk.open("a1", after=10**17)
    desk.add_events("1")
    desk.deliver()
    assert desk.received("a1") == ["1"]


def kill_at(sockets, point, count):
    """Kill the process at the count-th message, before or after the client received it."""
    left = iter(range(count))

    def kill(_):
        if next(left, None) is None:
            raise Killed

    setattr(sockets, point, kill)


@pytest.mark.parametrize("point", ["before_post", "after_post"])
@pytest.mark.parametrize("count", range(4))
def test_killed_sender_costs_socket_and_no_event(make, point, count):
    desk = make(lease_s=0)
    desk.open("a1")
    desk.add_events("1", "2", "3")
    kill_at(desk.sockets, point, count)
    with pytest.raises(Killed):
        desk.deliver()
    setattr(desk.sockets, point, lambda _: None)
    before = desk.sockets.open["a1"]
    desk.add_events("4")
    desk.deliver(is_again=True)
    assert desk.sockets.closed == ["a1"]

    seen = [payload["node"] for payload in before if "node" in payload]
    desk.open("a2", after=parse_cursor(before[-1]["cursor"]) if before else None)
    desk.deliver()
    assert seen + desk.received("a2") == ["1", "2", "3", "4"]


def test_claimed_socket_is_served_by_its_sender_alone(desk):
    desk.open("a1")
    desk.add_events("1")

    def meanwhile(_):
        desk.sockets.after_post = lambda _: None
        desk.add_events("2")
        assert desk.deliver() == 0

    desk.sockets.after_post = meanwhile
    assert desk.deliver() == 2
    assert desk.received("a1") == ["1", "2"]
    assert len(desk.store.wake_messages()) == 2  # those of the connection


def test_redelivered_message_of_claimed_socket_checks_after_lease(desk):
    desk.open("a1")
    desk.add_events("1")
    kill_at(desk.sockets, "before_post", 1)
    with pytest.raises(Killed):
        desk.deliver()
    assert desk.deliver(is_again=True) == 0
    assert desk.sockets.closed == []
    assert desk.store.wake_messages() == [{"tenant_id": TENANT, "delay_s": delay_s} for delay_s in (1, 60, 7)]


def test_refused_events_are_sent_again_once(desk):
    desk.open("a1")
    desk.add_events("1", "2", "3")
    left = iter(range(2))

    def refuse(_):
        if next(left, None) is None:
            raise NotPosted

    desk.sockets.before_post = refuse
    with pytest.raises(MoreToSend):
        desk.deliver()
    desk.sockets.before_post = lambda _: None
    desk.deliver(is_again=True)
    assert desk.received("a1") == ["1", "2", "3"]


def test_socket_is_closed_after_a_lost_answer(desk):
    desk.open("a1")
    desk.add_events("1", "2")

    def lost(_):
        raise TimeoutError

    desk.sockets.after_post = lost
    desk.deliver()
    assert desk.sockets.closed == ["a1"]
    assert desk.deliver() == 0


def progress(percent, at=None):
    at = at or datetime.now(UTC) + timedelta(seconds=1)
    return Notice(TENANT, ANN, {"type": "task.progress", "node": "1", "progress": percent, "at": at.isoformat()})


def test_progress_reaches_current_sockets_and_is_not_stored(desk):
    desk.open("a1")
    desk.add_events("1")
    assert desk.push.deliver(progress(10)) == 2
    assert [payload["type"] for payload in desk.sockets.open["a1"]] == ["connected", "task.started", "task.progress"]
    desk.open("a2", session_id=uuid4(), after=0)
    desk.deliver()
    assert [payload["type"] for payload in desk.sockets.open["a2"]] == ["connected", "task.started"]


def test_progress_older_than_newest_event_is_dropped(desk):
    desk.open("a1")
    noted_at = datetime.now(UTC) - timedelta(seconds=1)
    desk.add_events("1")
    desk.push.deliver(progress(90, noted_at))
    assert [payload["type"] for payload in desk.sockets.open["a1"]] == ["connected", "task.started"]


def test_repeated_connect_stores_one_connection(desk):
    desk.open("a1")
    desk.open("a1")
    desk.deliver()
    assert len(desk.sockets.open["a1"]) == 1


def test_expired_connection_receives_nothing_and_is_deleted(make):
    desk = make()
    desk.push = PushService(
        desk.store.connections, desk.sockets, FixedClock(datetime.now(UTC) - timedelta(hours=3)), ttl_s=60, lease_s=7
    )
    desk.open("a1")
    desk.add_events("1")
    assert desk.deliver() == 0
    assert desk.push.forget_expired() == 1
    assert desk.push.forget_expired() == 0


def test_new_connection_is_not_served_before_greeting_delay(service_database):
    desk = Desk(Postgres(service_database, settling_s=60))
    desk.open("a1")
    desk.add_events("1")
    desk.deliver()
    assert desk.sockets.open["a1"] == []
    assert desk.store.wake_messages() == [{"tenant_id": TENANT, "delay_s": delay_s} for delay_s in (1, 60)]


def test_events_beyond_one_read_are_sent_too(service_database):
    desk = Desk(Postgres(service_database))
    desk.open("a1")
    names = [str(number) for number in range(2 * EVENTS_LIMIT + 1)]
    desk.add_events(*names)
    assert desk.deliver() == len(names)
    assert desk.received("a1") == names


def test_concurrent_senders_send_each_event_once(service_database, addresses):
    """Writers and senders race; each has its own database connection, as a function has."""
    desk = Desk(Postgres(service_database))
    for name in ("a1", "a2"):
        desk.open(name, session_id=uuid4())
    senders, changes = 4, 15
    together = Barrier(senders)

    def work(sender):
        database = Database(addresses.service)
        store = Postgres(database)
        push = PushService(store.connections, desk.sockets, FixedClock(datetime.now(UTC)), ttl_s=60, lease_s=7)
        together.wait(30)
        for number in range(changes):
            store.publish(TENANT, ANN, {"type": "task.started", "node": f"{sender}.{number}"})
            push.deliver(Notice(TENANT, ANN))
        database.close()

    with ThreadPoolExecutor(senders) as pool:
        list(pool.map(work, range(senders)))
    with service_database.service_transaction() as tx:
        rows = tx.all(b"SELECT body::json -> 'data' -> 'payload' ->> 'node' AS node FROM outbox ORDER BY outbox_id")
    written = [row["node"] for row in rows if row["node"]]
    assert len(written) == senders * changes
    assert desk.received("a1") == desk.received("a2") == written


def test_event_that_waited_for_socket_is_published(service_database, addresses):
    """A writer of a user's events waits while a socket of the user opens, and then sees the socket."""
    published = []
    event = notice_message(Notice(TENANT, ANN, {"type": "task.started", "node": "1"}))
    outbox = Outbox(lambda _tenant_id, aggregates: published.extend(aggregates))
    store = Postgres(service_database)
    store.add_user(TENANT, ANN, PHONE)

    def write():
        with closing(Database(addresses.service)) as own, own.service_transaction() as tx:
            outbox.publish(tx, [event])

    def is_waiting():
        with service_database.service_transaction() as tx:
            return tx.one(b"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") is not None

    with ThreadPoolExecutor(1) as pool:
        with service_database.service_transaction():
            opened = Connection("a1", TENANT, ANN, PHONE, datetime.now(UTC) + timedelta(minutes=1))
            store.connections.add(opened, [], after=None)
            written = pool.submit(write)
            until(is_waiting)
        written.result()
    assert [envelope.aggregate for envelope in published] == [event.aggregate]
