"""Sends messages to SQS: envelopes of the outbox ten at a time, or one message past the outbox."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from artiway.outbox.model import Envelope, Message
from artiway.platform import aws, tracing
from artiway.platform.clock import Clock, SystemClock
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

logger = Logger("queues")
BATCH_MESSAGES = 10
BATCH_BYTES = 256 * 1024
MOST_DELAY_S = 900


class SqsSender:
    """Knows the queue URL of each destination. Returns the messages of a batch that SQS accepted."""

    def __init__(self, queue_urls: Mapping[str, str], clock: Clock | None = None) -> None:
        self._queue_urls, self._clock = queue_urls, clock or SystemClock()

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        by_destination: dict[str, list[Envelope]] = defaultdict(list)
        for envelope in envelopes:
            by_destination[envelope.destination].append(envelope)
        accepted: set[int] = set()
        for destination, messages in by_destination.items():
            queue_url = self._queue_urls.get(destination)
            if not queue_url:
                logger.error("destination without a queue", destination=destination, messages=len(messages))
                continue
            for batch in _batches(messages):
                accepted |= self._send_batch(queue_url, batch)
        return accepted

    def _send_batch(self, queue_url: str, batch: Sequence[Envelope]) -> set[int]:
        from botocore.exceptions import BotoCoreError, ClientError

        sqs: SQSClient = aws.client("sqs")
        now = self._clock.now()
        try:
            answer = sqs.send_message_batch(QueueUrl=queue_url, Entries=[_entry(envelope, now) for envelope in batch])
        except (BotoCoreError, ClientError) as error:
            logger.warning("batch not sent", queue_url=queue_url, messages=len(batch), reason=type(error).__name__)
            return set()
        for failure in answer.get("Failed", []):
            logger.warning("message not sent", queue_url=queue_url, outbox_id=failure["Id"], reason=failure["Code"])
        return {int(success["Id"]) for success in answer.get("Successful", [])}


def send_directly(queue_url: str, clock: Clock) -> Callable[[Message], None]:
    """Past the outbox, for messages that may be lost: nothing is stored, nothing is sent again."""

    def send(message: Message) -> None:
        sqs: SQSClient = aws.client("sqs")
        sqs.send_message(
            QueueUrl=queue_url,
            MessageBody=message.body(trace_id=tracing.current(), at=clock.now()),
            MessageGroupId=str(message.tenant_id),
        )

    return send


def delay_of(envelope: Envelope, now: datetime) -> int:
    """Whole seconds, rounded down: a message that is due at a time arrives up to a second before it."""
    if envelope.due_at is None:
        return envelope.delay_s
    return min(MOST_DELAY_S, max(0, math.floor((envelope.due_at - now).total_seconds())))


def _entry(envelope: Envelope, now: datetime) -> SendMessageBatchRequestEntryTypeDef:
    entry: SendMessageBatchRequestEntryTypeDef = {
        "Id": str(envelope.outbox_id),
        "MessageBody": envelope.body,
        "DelaySeconds": delay_of(envelope, now),
        # A consumer can drop a repeated message: its outbox number stays the same.
        "MessageAttributes": {
            "outboxId": {"DataType": "Number", "StringValue": str(envelope.outbox_id)},
            "traceId": {"DataType": "String", "StringValue": envelope.trace_id or "-"},
        },
    }
    if envelope.tenant_id is not None:
        entry["MessageGroupId"] = str(
            envelope.tenant_id
        )  # a fair queue: the messages of one tenant do not delay those of others
    return entry


def _batches(envelopes: Sequence[Envelope]) -> list[list[Envelope]]:
    batches: list[list[Envelope]] = []
    size = 0
    for envelope in envelopes:
        length = len(envelope.body.encode()) + 200
        if not batches or len(batches[-1]) == BATCH_MESSAGES or size + length > BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(envelope)
        size += length
    return batches
