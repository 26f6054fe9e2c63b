"""Access to sockets: a socket ends with its session, user or tenant, and the number of sockets is limited."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from uuid import uuid4

import pytest

from artiway import bootstrap
from artiway.errors import Unavailable
from artiway.platform.database import Database
from artiway.platform.origin import Origin, hashes_of
from artiway.push import service
from artiway.push.model import (
    Scope,
    SessionEnded,
    SocketLimits,
    TenantEventsNotAllowed,
    TooManySockets,
)
from artiway.push.service import PushService
from tests.integration.push.desk import ANN, BOB, PHONE, TENANT, Desk, FixedClock, Postgres
from tests.integration.push.test_push import progress
from tools.openapi import load_handler

ROOT = Path(__file__).parents[3]
ENDINGS = {"log_out": PHONE, "disable": ANN, "suspend": TENANT}


@pytest.fixture(params=ENDINGS)
def end(request):
    return lambda desk: getattr(desk.store, request.param)(ENDINGS[request.param])


class TestAnEndedSocket:
    def test_receives_nothing_and_is_closed(self, desk, end):
        desk.open("a1")
        desk.add_events("1")
        desk.deliver()
        end(desk)
        received = desk.sockets.open["a1"]
        desk.add_events("2")
        assert desk.deliver() == 0
        assert [payload.get("node") for payload in received] == [None, "1"]
        assert desk.sockets.closed == ["a1"]
        assert desk.push.close_ended() == 0

    def test_is_closed_by_the_sweep_alone(self, desk, end):
        desk.open("a1")
        stranger = uuid4()
        desk.open("x1", uuid4(), stranger)
        desk.deliver()
        end(desk)
        assert desk.push.close_ended() == 1
        assert desk.sockets.closed == ["a1"]
        assert desk.push.close_ended() == 0

    def test_receives_no_progress_either(self, desk, end):
        desk.open("a1")
        desk.deliver()
        end(desk)
        assert desk.push.deliver(progress(10)) == 0
        assert desk.sockets.closed == ["a1"]

    def test_cannot_be_opened_at_all(self, desk, end):
        desk.open("a1")
        end(desk)
        with pytest.raises(SessionEnded):
            desk.open("a2")

    def test_leaves_other_sessions_of_its_user_alone(self, desk):
        desk.open("a1")
        desk.open("laptop", session_id=uuid4())
        desk.store.log_out(PHONE)
        desk.add_events("1")
        assert desk.deliver() == 1
        assert desk.received("laptop") == ["1"]
        assert desk.sockets.closed == ["a1"]

    def test_that_cannot_be_closed_is_closed_later(self, desk):
        desk.open("a1")
        desk.open("laptop", session_id=uuid4())
        desk.store.log_out(PHONE)
        desk.add_events("1")

        def fail(_):
            raise TimeoutError

        desk.sockets.before_close = fail
        assert desk.deliver() == 1
        assert desk.push.close_ended() == 0
        desk.sockets.before_close = lambda _: None
        assert desk.push.close_ended() == 1
        assert [len(desk.sockets.open["laptop"]), desk.sockets.closed] == [2, ["a1"]]


def test_deleted_session_ends_its_sockets(service_database):
    desk = Desk(Postgres(service_database))
    desk.open("a1")
    with service_database.service_transaction() as tx:
        tx.run(b"DELETE FROM session")
    assert desk.push.close_ended() == 1


def test_session_ended_during_read_is_not_claimed(service_database, addresses, monkeypatch):
    desk = Desk(Postgres(service_database))
    desk.open("a1")
    desk.add_events("1")
    read = desk.store.connections._events

    def log_out_meanwhile(*arguments, **options):
        with closing(Database(addresses.service)) as other:
            Postgres(other).log_out(PHONE)
        return read(*arguments, **options)

    monkeypatch.setattr(desk.store.connections, "_events", log_out_meanwhile)
    assert desk.deliver() == 0
    assert desk.sockets.open["a1"] == []


def test_sweep_closes_more_than_one_batch(desk, monkeypatch):
    monkeypatch.setattr(service, "ENDED_BATCH", 2)
    for number in range(5):
        desk.open(f"a{number}")
    desk.store.suspend(TENANT)
    assert desk.push.close_ended() == 5


def test_sweep_skips_socket_that_just_connected(service_database):
    desk = Desk(Postgres(service_database, settling_s=60))
    desk.open("a1")
    desk.store.log_out(PHONE)
    assert desk.push.close_ended() == 0


class TestTheNumberOfSockets:
    LIMITS = SocketLimits(per_user=2, per_tenant=3)

    def test_of_a_user_is_limited(self, make):
        desk = make(limits=self.LIMITS)
        desk.open("a1")
        desk.open("a2")
        with pytest.raises(TooManySockets):
            desk.open("a3")
        desk.open("a2")  # a repeated connect does not count twice
        desk.push.disconnect("a1")
        desk.open("a3")
        desk.add_events("1")
        desk.deliver()
        assert desk.received("a2") == desk.received("a3") == ["1"]

    def test_of_a_tenant_is_limited(self, make):
        desk = make(limits=self.LIMITS)
        for user_id in (ANN, ANN, BOB):
            desk.open(str(uuid4()), user_id)
        with pytest.raises(TooManySockets):
            desk.open("b2", BOB)
        desk.open("x1", uuid4(), uuid4())

    def test_is_kept_when_all_connect_at_once(self, service_database, addresses):
        limits = SocketLimits(per_user=3, per_tenant=1_000)
        clients = 8
        Postgres(service_database).add_user(TENANT, ANN, PHONE)
        together = Barrier(clients)

        def connect(number):
            with closing(Database(addresses.service)) as database:
                connections = Postgres(database, limits=limits).connections
                push = PushService(connections, None, FixedClock(datetime.now(UTC)), ttl_s=60, lease_s=7)
                together.wait(30)
                try:
                    push.connect(connection_id=f"a{number}", tenant_id=TENANT, user_id=ANN, session_id=PHONE)
                except TooManySockets:
                    return False
                return True

        with ThreadPoolExecutor(clients) as pool:
            assert sum(pool.map(connect, range(clients))) == limits.per_user


class Answers:
    """Replaces the services that $connect calls."""

    def __init__(self, outcome):
        self._outcome = outcome
        self.asked = {}

    def verify(self, _token):
        return SimpleNamespace(tenant_id=TENANT, user_id=ANN, family_id=str(PHONE))

    def of_session(self, *, tenant_id, user_id, session_id):
        return SimpleNamespace(tenant_id=tenant_id, user_id=user_id, session_id=session_id)

    def connect(self, **asked):
        self.asked = asked
        if self._outcome:
            raise self._outcome


@pytest.mark.parametrize(
    ("outcome", "asked", "status"),
    [
        (None, {}, 200),
        (None, {"scope": "tenant"}, 200),
        (None, {"scope": "platform"}, 400),
        (SessionEnded(), {}, 401),
        (TenantEventsNotAllowed(), {"scope": "tenant"}, 403),
        (TooManySockets(10), {}, 429),
        (Unavailable("away", retry_after_s=1), {}, 503),
    ],
)
def test_connect_answers_each_refusal_with_its_status(monkeypatch, outcome, asked, status):
    answers = Answers(outcome)
    for provider in ("token_verifier", "access", "push"):
        monkeypatch.setattr(bootstrap, provider, lambda: answers)
    event = json.loads((ROOT / "events/websocket.connect.json").read_text())
    event["queryStringParameters"] |= asked
    assert load_handler(ROOT / "functions/websocket").handler(event, None) == {"statusCode": status}
    if status == 200:
        assert answers.asked["scope"] is Scope(asked.get("scope", "user"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (None, 403),
        ({}, 403),
        ({"X-Origin-Verify": ""}, 403),
        ({"X-Origin-Verify": "a" * 48}, 403),
        ({"X-Origin-Verify": "b" * 48}, 200),
        ({"x-origin-verify": "b" * 48}, 200),
    ],
)
def test_socket_past_cloudfront_is_refused(monkeypatch, headers, status):
    answers = Answers(None)
    origin = Origin(hashes_of(json.dumps({"second": "b" * 48})))
    monkeypatch.setattr(bootstrap, "origin", lambda: origin)
    for provider in ("token_verifier", "access", "push"):
        monkeypatch.setattr(bootstrap, provider, lambda: answers)
    event = json.loads((ROOT / "events/websocket.connect.json").read_text()) | {"headers": headers}
    assert load_handler(ROOT / "functions/websocket").handler(event, None) == {"statusCode": status}
    assert bool(answers.asked) == (status == 200)


def test_quick_pass_closes_ended_sockets(monkeypatch):
    done = []
    quiet = SimpleNamespace(
        quick=dict,
        reconcile=lambda _pool: None,
        measure=lambda: None,
        close_ended=lambda: done.append("sockets"),
    )
    for provider in ("sweeper", "run_sweeper", "scheduler", "operations", "push"):
        monkeypatch.setattr(bootstrap, provider, lambda: quiet)
    load_handler(ROOT / "functions/watchdog").handler({"pass": "quick", "once": True}, None)
    assert done == ["sockets"]


@pytest.mark.parametrize("pass_s", [0, 4, 6, 9, 15, 25])
def test_passes_are_never_thirty_seconds_apart(monkeypatch, pass_s):
    """The schedule calls each minute, and the function works for most of it."""
    now, passes = [0.0], []

    def sweep() -> dict[str, int]:
        passes.append(now[0])
        now[0] += pass_s
        return {}

    quiet = SimpleNamespace(quick=sweep, reconcile=lambda _: None, measure=lambda: None, close_ended=lambda: None)
    for provider in ("sweeper", "run_sweeper", "scheduler", "operations", "push"):
        monkeypatch.setattr(bootstrap, provider, lambda: quiet)
    watchdog = load_handler(ROOT / "functions/watchdog")
    monkeypatch.setattr(
        watchdog, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    )
    for minute in range(3):
        now[0] = max(now[0], minute * 60)
        watchdog.handler({"pass": "quick"}, None)
    assert max(later - earlier for earlier, later in pairwise(passes)) < 30
