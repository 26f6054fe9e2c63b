from __future__ import annotations

import contextlib
from uuid import uuid4

import pytest

from artiway.errors import Refused
from artiway.recovery.deadletters import DeadLetterQueue, DeadLetters, NoSuchQueue
from artiway.recovery.model import DeadLetter

QUEUES = [
    DeadLetterQueue("push", "sqs/push-dead", ("sqs/push",)),
    DeadLetterQueue("work", "sqs/work-dead", ("https://sqs/1/work-a", "https://sqs/1/work-b")),
]


def dead_letter(message_id, source=""):
    return DeadLetter(message_id, "{}", 0, 4, f"receipt-{message_id}", source)


class Queues:
    """Queues as lists; a received message is hidden until it is put back."""

    def __init__(self, **dead):
        self.messages = {f"sqs/{name}-dead": list(messages) for name, messages in dead.items()}
        self.hidden, self.sent = [], []

    def depth(self, url):
        return len(self.messages.get(url, ()))

    def take(self, url, *, limit):
        taken = self.messages[url][:limit]
        self.hidden += taken
        return taken

    def put_back(self, url, messages):
        self.hidden = [one for one in self.hidden if one not in messages]

    def send(self, url, one):
        self.sent.append((url, one.message_id))

    def delete(self, url, one):
        self.messages[url].remove(one)
        self.hidden.remove(one)


class Journal:
    def __init__(self):
        self.records = []

    def record(self, *, actor_id, action, target, details):
        self.records.append((action, target, dict(details)))


def make(**dead):
    queues, journal = Queues(**dead), Journal()
    return DeadLetters(QUEUES, queues, journal, lock=lambda _: contextlib.nullcontext()), queues, journal


def test_listing_messages_keeps_them_in_queue():
    service, queues, journal = make(push=[dead_letter("1"), dead_letter("2")])
    assert service.depths() == {"push": 2, "work": 0}
    assert [one.message_id for one in service.messages("push")] == ["1", "2"]
    assert (queues.hidden, queues.depth("sqs/push-dead"), journal.records) == ([], 2, [])


def test_replay_sends_only_chosen_messages():
    service, queues, journal = make(push=[dead_letter("1"), dead_letter("2")])
    assert service.replay("push", ["2", "unknown"], actor_id=uuid4()) == 1
    assert queues.sent == [("sqs/push", "2")]
    assert [one.message_id for one in queues.messages["sqs/push-dead"]] == ["1"]
    assert queues.hidden == []
    assert journal.records == [("dlq.replay", "push", {"messageIds": ["2"]})]
    assert service.replay("push", None, actor_id=uuid4()) == 1


def test_replay_of_shared_queue_finds_source_queue():
    service, queues, _ = make(work=[dead_letter("1", "arn:aws:sqs:us-east-1:1:work-b")])
    service.replay("work", None, actor_id=uuid4())
    assert queues.sent == [("https://sqs/1/work-b", "1")]


def test_message_without_source_stays():
    service, queues, _ = make(work=[dead_letter("1")])
    with pytest.raises(Refused):
        service.replay("work", None, actor_id=uuid4())
    assert queues.depth("sqs/work-dead") == 1


def test_discard_needs_reason_and_records_it():
    service, queues, journal = make(push=[dead_letter("1")])
    with pytest.raises(Refused):
        service.discard("push", None, reason="  ", actor_id=uuid4())
    assert service.discard("push", None, reason="a test", actor_id=uuid4()) == 1
    assert queues.depth("sqs/push-dead") == 0
    assert queues.sent == []
    assert journal.records == [("dlq.discard", "push", {"reason": "a test", "messageIds": ["1"]})]


def test_unknown_queue_is_not_found():
    service, _, _ = make()
    for act in (service.messages, lambda name: service.replay(name, None, actor_id=uuid4())):
        with pytest.raises(NoSuchQueue):
            act("nonsense")
