from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
import redis

from artiway.errors import Refused
from artiway.outbox.model import Envelope, Message
from artiway.outbox.repository import Outbox, PostgresStore
from artiway.outbox.service import DELIVER_MESSAGES, DELIVER_S, Relay
from artiway.platform import tracing
from artiway.platform.database import Database
from artiway.retention.settings import OUTBOX_HOURS
from artiway.settings.model import Fixed
from tests.conftest import Addresses
from tests.fakes.outbox import ListSender
from tests.integration.platform.outbox_child import TENANT
from tests.integration.retention.passes import purge

WRITERS, EVENTS = 8, 10_000


@pytest.fixture
def sender(valkey: redis.Redis, valkey_url: str) -> ListSender:
    return ListSender(valkey_url)


@pytest.fixture
def relay(service_database: Database, sender: ListSender) -> Relay:
    return Relay(PostgresStore(service_database), sender)


@pytest.fixture
def spawn(addresses: Addresses, valkey_url: str) -> Callable[..., subprocess.Popen[bytes]]:
    def start(verb: str, *, count: int = 0, first: int = 0, dies_at: str = "-") -> subprocess.Popen[bytes]:
        address = addresses.app if verb == "write" else addresses.service
        arguments = [verb, address, valkey_url, str(count), str(first), dies_at]
        return subprocess.Popen([sys.executable, "-m", "tests.integration.platform.outbox_child", *arguments])

    return start


def say(database: Database, outbox: Outbox, *messages: Message) -> None:
    with database.tenant_transaction(TENANT) as tx:
        outbox.publish(tx, messages)


def test_message_is_sent_after_commit_with_trace(database, service_database, sender):
    outbox = Outbox(Relay(PostgresStore(database), sender).deliver)
    with tracing.traced("1-01234567-0123456789abcdef01234567"):
        say(database, outbox, Message("queue", "thing:1", "happened", {"n": 1}))
    ((_, body),) = sender.arrived()
    assert (body["type"], body["data"], body["traceId"]) == (
        "happened",
        {"n": 1},
        "1-01234567-0123456789abcdef01234567",
    )
    assert Relay(PostgresStore(service_database), sender).oldest_unsent_age_s() == 0


def test_rolled_back_message_is_never_sent(database, relay, sender):
    outbox = Outbox(Relay(PostgresStore(database), sender).deliver)
    with pytest.raises(Refused), database.tenant_transaction(TENANT) as tx:
        outbox.publish(tx, [Message("queue", "thing:1", "happened")])
        raise Refused("no")
    relay.sweep(age_s=0, limit=10)
    assert sender.arrived() == []


def test_rolled_back_savepoint_drops_its_messages(database, sender):
    outbox = Outbox(Relay(PostgresStore(database), sender).deliver)
    with database.tenant_transaction(TENANT) as tx:
        outbox.publish(tx, [Message("queue", "thing:1", "kept")])
        with pytest.raises(Refused), database.tenant_transaction(TENANT) as inner:
            outbox.publish(inner, [Message("queue", "thing:2", "dropped")])
            raise Refused("no")
    assert [body["type"] for _, body in sender.arrived()] == ["kept"]


class Recorded:
    """Accepts what it is allowed to, and records each call."""

    def __init__(self, *, refused: str = "") -> None:
        self.calls: list[list[Envelope]] = []
        self._refused = refused

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        self.calls.append(list(envelopes))
        return {one.outbox_id for one in envelopes if one.aggregate != self._refused}


class TestBatch:
    def test_messages_of_all_transactions_leave_in_one_call(self, database, relay):
        sender = Recorded()
        outbox = Outbox(Relay(PostgresStore(database), sender).deliver)
        with outbox.batch():
            say(database, outbox, Message("queue", "thing:1", "happened"))
            say(database, outbox, Message("queue", "thing:2", "happened", is_stored=False))
            say(database, outbox, Message("queue", "thing:3", "happened", is_stored=False))
            assert sender.calls == []
        (call,) = sender.calls
        assert [one.aggregate for one in call] == ["thing:1", "thing:2", "thing:3"]
        assert len({one.outbox_id for one in call}) == 3
        assert relay.sweep(age_s=0, limit=10) == 0

    def test_refused_message_is_left_to_the_sweep(self, database, relay, sender):
        outbox = Outbox(Relay(PostgresStore(database), Recorded(refused="thing:2")).deliver)
        with outbox.batch():
            say(database, outbox, Message("queue", "thing:1", "happened"))
            say(database, outbox, Message("queue", "thing:2", "happened"))
        assert relay.sweep(age_s=0, limit=10) == 1
        assert [body["aggregate"] for _, body in sender.arrived()] == ["thing:2"]

    def test_crash_inside_leaves_committed_messages_to_the_sweep(self, database, relay):
        sent = Recorded()
        outbox = Outbox(Relay(PostgresStore(database), sent).deliver)
        with pytest.raises(KeyboardInterrupt), outbox.batch():
            say(database, outbox, Message("queue", "thing:1", "happened"))
            raise KeyboardInterrupt
        assert sent.calls == []
        assert relay.sweep(age_s=0, limit=10) == 1

    def test_next_transaction_sends_at_once_again(self, database):
        sent = Recorded()
        outbox = Outbox(Relay(PostgresStore(database), sent).deliver)
        with outbox.batch():
            pass
        say(database, outbox, Message("queue", "thing:1", "happened"))
        assert len(sent.calls) == 1


def test_process_killed_between_commit_and_send_loses_nothing(spawn, relay, sender):
    assert spawn("write", count=1, dies_at="after commit").wait() == -signal.SIGKILL
    assert sender.arrived() == []
    assert relay.sweep(age_s=0, limit=10) == 1
    assert [body["data"] for _, body in sender.arrived()] == [{"version": 0}]


def test_relay_killed_before_marking_sends_again(spawn, relay, sender):
    spawn("write", count=1, dies_at="after commit").wait()
    assert spawn("relay", dies_at="after send").wait() == -signal.SIGKILL
    assert len(sender.arrived()) == 1
    assert relay.sweep(age_s=0, limit=10) == 1
    (first, _), (second, _) = sender.arrived()
    assert first == second
    assert relay.sweep(age_s=0, limit=10) == 0


def test_relay_killed_before_send_leaves_message_to_next(spawn, relay, sender):
    spawn("write", count=1, dies_at="after commit").wait()
    assert spawn("relay", dies_at="before send").wait() == -signal.SIGKILL
    assert sender.arrived() == []
    assert relay.sweep(age_s=0, limit=10) == 1


def test_sweep_leaves_young_messages_to_their_writers(database, relay, sender):
    say(database, Outbox(lambda *_: None), Message("queue", "thing:1", "happened"))
    assert relay.sweep(age_s=60, limit=10) == 0
    assert relay.oldest_unsent_age_s() > 0
    assert relay.sweep(age_s=0, limit=10) == 1


def test_sweep_and_eight_writers_lose_no_message(spawn, relay, sender):
    share = EVENTS // WRITERS
    writers = [spawn("write", count=share, first=number * share) for number in range(WRITERS)]
    doomed = spawn("write", count=1, dies_at="after commit")
    while any(writer.poll() is None for writer in writers):
        relay.sweep(age_s=0, limit=200)  # races with the writers' own sending
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    doomed.wait()
    while relay.sweep(age_s=0, limit=500):
        pass
    seen: dict[str, set[int]] = defaultdict(set)
    for _, body in sender.arrived():
        seen[str(body["aggregate"])].add(body["data"]["version"])
    assert sum(len(versions) for versions in seen.values()) == EVENTS + 1
    for versions in seen.values():
        assert versions == set(range(len(versions)))


class Stubborn:
    """Refuses one message until the test allows it."""

    def __init__(self, sender: ListSender, refused: str) -> None:
        self.sender, self.refused = sender, refused

    def send(self, envelopes: list[Envelope]) -> set[int]:
        welcome = [envelope for envelope in envelopes if self.refused not in envelope.body]
        return self.sender.send(welcome) if welcome else set()


def test_refused_message_stays_for_next_sweep(database, service_database, sender):
    stubborn = Stubborn(sender, '"n":1')
    relay = Relay(PostgresStore(service_database), stubborn)
    say(database, Outbox(lambda *_: None), *(Message("queue", "a:1", "happened", {"n": n}) for n in range(3)))
    assert relay.sweep(age_s=0, limit=100) == 2
    assert [body["data"]["n"] for _, body in sender.arrived()] == [0, 2]
    stubborn.refused = "nothing"
    assert relay.sweep(age_s=0, limit=100) == 1
    assert [body["data"]["n"] for _, body in sender.arrived()] == [0, 2, 1]


def test_message_refused_after_commit_is_swept(database, service_database, sender):
    stubborn = Stubborn(sender, '"n":1')
    outbox = Outbox(Relay(PostgresStore(database), stubborn).deliver)
    say(database, outbox, *(Message("queue", "a:1", "happened", {"n": n}) for n in range(3)))
    assert [body["data"]["n"] for _, body in sender.arrived()] == [0, 2]
    assert Relay(PostgresStore(service_database), sender).sweep(age_s=0, limit=100) == 1


class Slow:
    """Each send takes so long."""

    def __init__(self, sender: ListSender, seconds: float) -> None:
        self.sender, self.seconds, self.now = sender, seconds, 0.0

    def send(self, envelopes: list[Envelope]) -> set[int]:
        self.now += self.seconds
        return self.sender.send(envelopes)


@pytest.mark.parametrize(("seconds", "sent"), [(0.1, 250), (DELIVER_S + 1, DELIVER_MESSAGES)])
def test_slow_writer_leaves_the_rest_to_the_sweep(database, service_database, sender, seconds, sent):
    """Else the sweep, which takes old messages, would send the same ones at the same time."""
    slow = Slow(sender, seconds)
    relay = Relay(PostgresStore(database), slow, elapsed=lambda: slow.now)
    messages = [Message("queue", "a:1", "happened", {"n": n}) for n in range(250)]
    say(database, Outbox(relay.deliver), *messages)
    assert len(sender.arrived()) == sent
    assert Relay(PostgresStore(service_database), sender).sweep(age_s=0, limit=500) == 250 - sent
    assert [body["data"]["n"] for _, body in sender.arrived()] == list(range(250))


def test_sent_message_leaves_the_table(database, service_database, sender):
    say(database, Outbox(Relay(PostgresStore(database), sender).deliver), Message("queue", "thing:1", "happened"))
    with service_database.service_transaction() as tx:
        assert tx.all(b"SELECT FROM outbox") == []


def test_events_are_purged_after_retention(database, service_database, sender):
    outbox = Outbox(Relay(PostgresStore(database), sender).deliver)
    say(database, outbox, Message("push", f"user:{TENANT}", "happened"))
    values = Fixed({OUTBOX_HOURS: 1})
    assert purge(service_database, "outbox_events", values=values) == {"outbox_events": 0}
    with service_database.service_transaction() as tx:
        tx.run(b"UPDATE outbox SET sent_at = sent_at - interval '2 hours'")
    assert purge(service_database, "outbox_events", values=values) == {"outbox_events": 1}


def test_tenants_cannot_delete_events(database, service_database):
    say(database, Outbox(lambda *_: None), Message("push", f"user:{TENANT}", "happened"))
    with database.tenant_transaction(TENANT) as tx:
        assert tx.run(b"DELETE FROM outbox") == 0


def test_sweep_waits_for_no_other_sweep(database, service_database, addresses, sender):
    say(database, Outbox(lambda *_: None), Message("queue", "a:1", "happened"), Message("queue", "a:2", "happened"))
    with PostgresStore(service_database).claim_overdue(age_s=0, limit=1) as claim:
        with contextlib.closing(Database(addresses.service)) as other:
            assert Relay(PostgresStore(other), sender).sweep(age_s=0, limit=10) == 1
        claim.mark_sent([envelope.outbox_id for envelope in claim.envelopes])
    assert Relay(PostgresStore(service_database), sender).sweep(age_s=0, limit=10) == 0
