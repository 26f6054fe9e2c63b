"""The outbox's sender, the sender past the outbox, and the dead letters, against SQS."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from artiway.outbox.model import Envelope, Message
from artiway.outbox.queue import SqsSender, delay_of, send_directly
from artiway.platform import aws
from artiway.platform.clock import SystemClock
from artiway.recovery.queue import SqsQueues
from tests.fakes.clock import NOON

TENANT = uuid4()
TRACE = "1-65f00000-0123456789abcdef01234567"


@pytest.fixture
def sqs():
    return aws.client("sqs")


@pytest.fixture
def url(sqs):
    return sqs.create_queue(QueueName="lane")["QueueUrl"]


def envelope(number, *, body="{}", destination="lane", tenant_id=None, delay_s=0):
    return Envelope(number, tenant_id, "task:1", destination, body, delay_s, TRACE)


def received(sqs, url):
    found = []
    while messages := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    ).get("Messages"):
        found += messages
    return found


@pytest.mark.parametrize(("seconds", "delay_s"), [(0.9, 0), (1.0, 1), (59.999, 59), (-3, 0), (5_000, 900)])
def test_due_message_is_delayed_when_sent(seconds, delay_s):
    due = replace(envelope(1, delay_s=7), due_at=NOON + timedelta(seconds=seconds))
    assert delay_of(due, NOON) == delay_s


class TestSender:
    def test_message_carries_number_trace_and_tenant(self, sqs, url):
        assert SqsSender({"lane": url}).send([envelope(7, body='{"n":1}', tenant_id=TENANT)]) == {7}
        (message,) = received(sqs, url)
        assert message["Body"] == '{"n":1}'
        attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
        assert attributes == {"outboxId": "7", "traceId": TRACE}
        assert message["Attributes"]["MessageGroupId"] == str(TENANT)

    def test_more_messages_than_batch_all_arrive(self, sqs, url):
        assert SqsSender({"lane": url}).send([envelope(number) for number in range(23)]) == set(range(23))
        assert len(received(sqs, url)) == 23

    def test_no_batch_is_larger_than_sqs_takes(self, sqs, url):
        large = [envelope(number, body="x" * 100_000) for number in range(5)]
        assert SqsSender({"lane": url}).send(large) == set(range(5))
        assert len(received(sqs, url)) == 5

    def test_message_that_sqs_refuses_fails_alone(self, url):
        sent = SqsSender({"lane": url}).send([envelope(1), envelope(2, delay_s=901), envelope(3)])
        assert sent == {1, 3}

    def test_queue_that_is_gone_accepts_nothing(self, sqs, url):
        other = sqs.create_queue(QueueName="other")["QueueUrl"]
        sqs.delete_queue(QueueUrl=url)
        sender = SqsSender({"lane": url, "other": other})
        assert sender.send([envelope(1), envelope(2, destination="other")]) == {2}

    def test_destination_without_queue_accepts_nothing(self, url):
        assert SqsSender({"lane": url}).send([envelope(1, destination="nowhere")]) == set()

    def test_call_that_is_denied_accepts_nothing(self, sqs, url, answer):
        answer(sqs, 403, "AccessDeniedException")
        assert SqsSender({"lane": url}).send([envelope(1)]) == set()


class TestSendNow:
    def test_message_past_outbox_has_its_shape(self, sqs, url):
        send_directly(url, SystemClock())(Message("lane", "user:1", "hint", {"n": 1}, tenant_id=TENANT))
        (message,) = received(sqs, url)
        body = json.loads(message["Body"])
        assert (body["type"], body["aggregate"], body["data"]) == ("hint", "user:1", {"n": 1})


class TestDeadLetters:
    @pytest.fixture
    def dead(self, sqs, url):
        for number in range(12):
            sqs.send_message(QueueUrl=url, MessageBody=str(number), MessageGroupId=str(TENANT))
        return SqsQueues()

    def test_messages_are_received_up_to_the_limit(self, dead, url):
        assert len(dead.take(url, limit=11)) == 11

    def test_fewer_messages_than_limit_are_all_received(self, dead, url):
        messages = dead.take(url, limit=100)
        assert {dead_letter.body for dead_letter in messages} == {str(number) for number in range(12)}
        assert all(dead_letter.receive_count == 1 and dead_letter.sent_at_ms > 0 for dead_letter in messages)
        assert {dead_letter.group for dead_letter in messages} == {str(TENANT)}

    def test_returned_messages_count_again(self, dead, url):
        messages = dead.take(url, limit=100)
        assert dead.depth(url) == 0
        dead.put_back(url, messages)
        assert dead.depth(url) == 12

    def test_replayed_message_names_its_dead_letter_queue(self, dead, sqs, url):
        target = sqs.create_queue(QueueName="target")["QueueUrl"]
        (dead_letter,) = dead.take(url, limit=1)
        dead.send(target, dead_letter)
        dead.delete(url, dead_letter)
        (message,) = received(sqs, target)
        assert message["Body"] == dead_letter.body
        assert message["MessageAttributes"]["deadLetterId"]["StringValue"] == dead_letter.message_id
        assert message["Attributes"]["MessageGroupId"] == str(TENANT)
        dead.put_back(url, dead.take(url, limit=100))
        assert dead.depth(url) == 11

    def test_queue_that_is_gone_raises(self, dead, sqs, url):
        sqs.delete_queue(QueueUrl=url)
        with pytest.raises(ClientError, match="NonExistentQueue"):
            dead.depth(url)
