"""The same promises on the fake and on PostgreSQL: one suite keeps the fake honest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Barrier
from uuid import uuid4

import pytest

from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.push.model import Connection, MoreToTell, Notice, NotPosted, parse_cursor
from artiway.push.repository import NEWS_LIMIT
from artiway.push.service import PushService, notice_message
from tests.integration.common.conftest import until
from tests.integration.push.desk import ANN, BOB, PHONE, TENANT, Desk, FixedClock, Killed, Postgres


def test_a_socket_is_greeted_first_and_hears_every_change_once_and_in_order_however_often_and_late_it_is_hinted(desk):
    desk.open("a1")
    desk.happen("1", "2", "3")
    for _ in range(3):
        desk.hint()
    desk.happen("4")
    desk.happen("5")
    for _ in range(2):
        desk.hint()
    assert desk.sockets.open["a1"][0]["type"] == "connected"
    assert desk.heard("a1") == ["1", "2", "3", "4", "5"]


def test_news_reach_every_socket_of_their_user_and_no_other(desk):
    desk.open("a1")
    desk.open("a2", session_id=uuid4())
    desk.open("b1", BOB)
    desk.open("x1", uuid4(), uuid4())  # of another tenant
    desk.happen("1")
    for user_id in (ANN, BOB):
        desk.hint(user_id)
    assert [desk.heard(name) for name in ("a1", "a2", "b1", "x1")] == [["1"], ["1"], [], []]


def test_a_socket_that_opens_later_hears_what_comes_from_then_on(desk):
    desk.happen("1")
    desk.open("a1")
    desk.happen("2")
    desk.hint()
    assert desk.heard("a1") == ["2"]


def test_a_socket_that_is_gone_is_passed_over_and_the_others_are_told(desk):
    desk.open("a1")
    desk.open("a2", session_id=uuid4())
    desk.happen("1")
    del desk.sockets.open["a1"]
    assert desk.hint() == 1
    assert desk.heard("a2") == ["1"]
    assert desk.hint() == 0


def test_who_comes_again_with_a_cursor_hears_what_came_after_it_and_nothing_twice(desk):
    desk.open("a1")
    desk.happen("1", "2")
    desk.hint()
    cursor = desk.cursor("a1")
    desk.happen("3")
    desk.hint()  # posted, and lost on the way: the client was in a tunnel
    desk.push.disconnect("a1")
    desk.happen("4")
    desk.open("a2", after=cursor)
    desk.happen("5")
    desk.hint()
    assert desk.sockets.open["a2"][0] | {"at": ""} == {"type": "connected", "at": "", "cursor": str(cursor)}
    assert desk.heard("a2") == ["3", "4", "5"]


def test_who_comes_again_without_a_cursor_goes_on_where_the_session_s_last_socket_closed(desk):
    desk.open("a1")
    desk.open("laptop", session_id=uuid4())
    desk.happen("1")
    desk.hint()
    desk.push.disconnect("a1")
    desk.happen("2")
    desk.hint()
    desk.open("a2")
    desk.open("a3")  # another window: the place of the first was taken
    desk.hint()
    assert [desk.heard(name) for name in ("laptop", "a2", "a3")] == [["1", "2"], ["2"], []]


def test_a_session_that_stayed_away_too_long_starts_anew(make):
    desk = make(resume_s=0)
    desk.open("a1")
    desk.push.disconnect("a1")
    desk.happen("1")
    desk.open("a2")
    desk.hint()
    assert desk.heard("a2") == []
    assert desk.push.forget_expired() == 1


@pytest.mark.parametrize(
    ("text", "cursor"), [("12", 12), ("", None), (None, None), ("-1", None), ("x", None), ("1" * 19, None)]
)
def test_a_cursor_that_we_did_not_write_is_nothing(text, cursor):
    assert parse_cursor(text) == cursor


def test_a_cursor_from_beyond_the_end_is_the_end(desk):
    desk.open("a1", after=10**17)
    desk.happen("1")
    desk.hint()
    assert desk.heard("a1") == ["1"]


def kill_at(sockets, point, count):
    """The process dies at the count-th message, before or after it was heard."""
    left = iter(range(count))

    def dies(_):
        if next(left, None) is None:
            raise Killed

    setattr(sockets, point, dies)


@pytest.mark.parametrize("point", ["before_post", "after_post"])
@pytest.mark.parametrize("count", range(4))
def test_a_teller_that_is_killed_costs_the_socket_and_its_successor_hears_the_rest_once_and_in_order(
    make, point, count
):
    desk = make(lease_s=0)
    desk.open("a1")
    desk.happen("1", "2", "3")
    kill_at(desk.sockets, point, count)
    with pytest.raises(Killed):
        desk.hint()
    setattr(desk.sockets, point, lambda _: None)
    before = desk.sockets.open["a1"]
    desk.happen("4")
    desk.hint(is_again=True)
    assert desk.sockets.closed == ["a1"]

    seen = [payload["node"] for payload in before if "node" in payload]
    desk.open("a2", after=parse_cursor(before[-1]["cursor"]) if before else None)
    desk.hint()
    assert seen + desk.heard("a2") == ["1", "2", "3", "4"]


def test_while_a_teller_lives_its_sockets_are_left_alone_and_it_tells_what_came_meanwhile(desk):
    desk.open("a1")
    desk.happen("1")

    def meanwhile(_):
        desk.sockets.after_post = lambda _: None
        desk.happen("2")
        assert desk.hint() == 0

    desk.sockets.after_post = meanwhile
    assert desk.hint() == 2
    assert desk.heard("a1") == ["1", "2"]
    assert len(desk.store.hints()) == 2  # those of the connection


def test_a_hint_that_comes_again_while_the_socket_is_in_hand_leaves_word_for_when_the_lease_is_over(desk):
    desk.open("a1")
    desk.happen("1")
    kill_at(desk.sockets, "before_post", 1)
    with pytest.raises(Killed):
        desk.hint()
    assert desk.hint(is_again=True) == 0
    assert desk.sockets.closed == []
    assert desk.store.hints() == [{"tenant_id": TENANT, "delay_s": delay_s} for delay_s in (1, 60, 7)]


def test_what_a_socket_refuses_comes_again_and_nothing_is_said_twice(desk):
    desk.open("a1")
    desk.happen("1", "2", "3")
    left = iter(range(2))

    def refuse(_):
        if next(left, None) is None:
            raise NotPosted

    desk.sockets.before_post = refuse
    with pytest.raises(MoreToTell):
        desk.hint()
    desk.sockets.before_post = lambda _: None
    desk.hint(is_again=True)
    assert desk.heard("a1") == ["1", "2", "3"]


def test_a_socket_whose_answer_was_lost_is_closed_since_nobody_knows_what_it_heard(desk):
    desk.open("a1")
    desk.happen("1", "2")

    def lost(_):
        raise TimeoutError

    desk.sockets.after_post = lost
    desk.hint()
    assert desk.sockets.closed == ["a1"]
    assert desk.hint() == 0


def progress(percent, at=None):
    at = at or datetime.now(UTC) + timedelta(seconds=1)
    return Notice(TENANT, ANN, {"type": "task.progress", "node": "1", "progress": percent, "at": at.isoformat()})


def test_progress_is_told_to_who_is_up_to_date_and_kept_for_nobody(desk):
    desk.open("a1")
    desk.happen("1")
    assert desk.push.deliver(progress(10)) == 2
    assert [payload["type"] for payload in desk.sockets.open["a1"]] == ["connected", "task.started", "task.progress"]
    desk.open("a2", session_id=uuid4(), after=0)
    desk.hint()
    assert [payload["type"] for payload in desk.sockets.open["a2"]] == ["connected", "task.started"]


def test_progress_that_a_change_has_overtaken_on_the_way_is_left_out(desk):
    desk.open("a1")
    noted_at = datetime.now(UTC) - timedelta(seconds=1)
    desk.happen("1")
    desk.push.deliver(progress(90, noted_at))
    assert [payload["type"] for payload in desk.sockets.open["a1"]] == ["connected", "task.started"]


def test_connecting_twice_with_one_id_is_one_connection(desk):
    desk.open("a1")
    desk.open("a1")
    desk.hint()
    assert len(desk.sockets.open["a1"]) == 1


def test_a_connection_past_its_time_is_passed_over_and_swept(make):
    desk = make()
    desk.push = PushService(
        desk.store.connections, desk.sockets, FixedClock(datetime.now(UTC) - timedelta(hours=3)), ttl_s=60, lease_s=7
    )
    desk.open("a1")
    desk.happen("1")
    assert desk.hint() == 0
    assert desk.push.forget_expired() == 1
    assert desk.push.forget_expired() == 0


def test_a_connection_and_its_hints_are_stored_together_and_it_is_left_alone_until_api_gateway_knows_it(
    service_database,
):
    desk = Desk(Postgres(service_database, settling_s=60))
    desk.open("a1")
    desk.happen("1")
    desk.hint()
    assert desk.sockets.open["a1"] == []
    assert desk.store.hints() == [{"tenant_id": TENANT, "delay_s": delay_s} for delay_s in (1, 60)]


def test_more_than_one_read_brings_is_told_in_the_next(service_database):
    desk = Desk(Postgres(service_database))
    desk.open("a1")
    names = [str(number) for number in range(2 * NEWS_LIMIT + 1)]
    desk.happen(*names)
    assert desk.hint() == len(names)
    assert desk.heard("a1") == names


def test_many_tellers_at_once_tell_every_change_once_and_in_order(service_database, addresses):
    """Writers and tellers race; each of them has a connection of its own, as functions have."""
    desk = Desk(Postgres(service_database))
    for name in ("a1", "a2"):
        desk.open(name, session_id=uuid4())
    tellers, changes = 4, 15
    together = Barrier(tellers)

    def work(teller):
        database = Database(addresses.service)
        store = Postgres(database)
        push = PushService(store.connections, desk.sockets, FixedClock(datetime.now(UTC)), ttl_s=60, lease_s=7)
        together.wait(30)
        for number in range(changes):
            store.publish(TENANT, ANN, {"type": "task.started", "node": f"{teller}.{number}"})
            push.deliver(Notice(TENANT, ANN))
        database.close()

    with ThreadPoolExecutor(tellers) as pool:
        list(pool.map(work, range(tellers)))
    with service_database.service_transaction() as tx:
        rows = tx.all(b"SELECT body::json -> 'data' -> 'payload' ->> 'node' AS node FROM outbox ORDER BY outbox_id")
    written = [row["node"] for row in rows if row["node"]]
    assert len(written) == tellers * changes
    assert desk.heard("a1") == desk.heard("a2") == written


def test_news_that_waited_for_a_socket_to_open_are_hinted_to_it(service_database, addresses):
    """Who speaks of a user while a socket of theirs opens waits for it, and then sees it."""
    hinted = []
    news = notice_message(Notice(TENANT, ANN, {"type": "task.started", "node": "1"}))
    speaker = Outbox(lambda _tenant_id, aggregates: hinted.extend(aggregates))
    store = Postgres(service_database)
    store.let_in(TENANT, ANN, PHONE)

    def speak():
        with closing(Database(addresses.service)) as own, own.service_transaction() as tx:
            speaker.publish(tx, [news])

    def is_waiting():
        with service_database.service_transaction() as tx:
            return tx.one(b"SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") is not None

    with ThreadPoolExecutor(1) as pool:
        with service_database.service_transaction():
            opened = Connection("a1", TENANT, ANN, PHONE, datetime.now(UTC) + timedelta(minutes=1))
            store.connections.remember(opened, [], after=None)
            spoken = pool.submit(speak)
            until(is_waiting)
        spoken.result()
    assert hinted == [news.aggregate]
