from __future__ import annotations

import contextlib
from uuid import uuid4

import pytest

from artiway.errors import Refused
from artiway.recovery.deadletters import DeadLetters, NoSuchQueue, Pair
from artiway.recovery.model import DeadLetter

PAIRS = [
    Pair("push", "sqs/push-dead", ("sqs/push",)),
    Pair("work", "sqs/work-dead", ("https://sqs/1/work-a", "https://sqs/1/work-b")),
]


def letter(message_id, source=""):
    return DeadLetter(message_id, "{}", 0, 4, f"receipt-{message_id}", source)


class Queues:
    """Queues as lists; a letter that was taken is hidden until it is put back."""

    def __init__(self, **dead):
        self.letters = {f"sqs/{name}-dead": list(letters) for name, letters in dead.items()}
        self.hidden, self.sent = [], []

    def depth(self, url):
        return len(self.letters.get(url, ()))

    def take(self, url, *, limit):
        taken = self.letters[url][:limit]
        self.hidden += taken
        return taken

    def put_back(self, url, letters):
        self.hidden = [one for one in self.hidden if one not in letters]

    def send(self, url, one):
        self.sent.append((url, one.message_id))

    def delete(self, url, one):
        self.letters[url].remove(one)
        self.hidden.remove(one)


class Journal:
    def __init__(self):
        self.acts = []

    def acted(self, *, actor_id, action, target, details):
        self.acts.append((action, target, dict(details)))


def make(**dead):
    queues, journal = Queues(**dead), Journal()
    return DeadLetters(PAIRS, queues, journal, once=lambda _: contextlib.nullcontext()), queues, journal


def test_looking_at_letters_leaves_them_where_they_are():
    service, queues, journal = make(push=[letter("1"), letter("2")])
    assert service.depths() == {"push": 2, "work": 0}
    assert [one.message_id for one in service.letters("push")] == ["1", "2"]
    assert (queues.hidden, queues.depth("sqs/push-dead"), journal.acts) == ([], 2, [])


def test_a_replay_sends_back_what_was_chosen_and_nothing_else():
    service, queues, journal = make(push=[letter("1"), letter("2")])
    assert service.replay("push", ["2", "unknown"], actor_id=uuid4()) == 1
    assert queues.sent == [("sqs/push", "2")]
    assert [one.message_id for one in queues.letters["sqs/push-dead"]] == ["1"]
    assert queues.hidden == []
    assert journal.acts == [("dlq.replay", "push", {"messageIds": ["2"]})]
    assert service.replay("push", None, actor_id=uuid4()) == 1


def test_a_letter_of_a_shared_queue_goes_back_to_where_it_failed():
    service, queues, _ = make(work=[letter("1", "arn:aws:sqs:us-east-1:1:work-b")])
    service.replay("work", None, actor_id=uuid4())
    assert queues.sent == [("https://sqs/1/work-b", "1")]


def test_a_letter_that_does_not_say_where_it_failed_stays():
    service, queues, _ = make(work=[letter("1")])
    with pytest.raises(Refused):
        service.replay("work", None, actor_id=uuid4())
    assert queues.depth("sqs/work-dead") == 1


def test_a_letter_is_discarded_for_a_reason_that_is_kept():
    service, queues, journal = make(push=[letter("1")])
    with pytest.raises(Refused):
        service.discard("push", None, reason="  ", actor_id=uuid4())
    assert service.discard("push", None, reason="a test", actor_id=uuid4()) == 1
    assert queues.depth("sqs/push-dead") == 0
    assert queues.sent == []
    assert journal.acts == [("dlq.discard", "push", {"reason": "a test", "messageIds": ["1"]})]


def test_an_unknown_queue_is_not_there():
    service, _, _ = make()
    for act in (service.letters, lambda name: service.replay(name, None, actor_id=uuid4())):
        with pytest.raises(NoSuchQueue):
            act("nonsense")
