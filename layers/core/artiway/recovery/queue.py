"""Dead-letter queues in SQS. Messages move by receive, send and delete: a move task of SQS moves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artiway.platform import aws
from artiway.recovery.model import DeadLetter

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef, MessageTypeDef

BATCH = 10
# The longest time of one operation; afterwards the messages are visible again.
VISIBILITY_TIMEOUT_S = 30
EMPTY_RECEIVES = 2


class SqsQueues:
    def depth(self, url: str) -> int:
        sqs: SQSClient = aws.client("sqs")
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def take(self, url: str, *, limit: int) -> Sequence[DeadLetter]:
        sqs: SQSClient = aws.client("sqs")
        found: dict[str, DeadLetter] = {}
        empty = 0
        while len(found) < limit and empty < EMPTY_RECEIVES:
            answer = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(BATCH, limit - len(found)),
                VisibilityTimeout=VISIBILITY_TIMEOUT_S,
                WaitTimeSeconds=0,
                MessageSystemAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            empty = 0 if messages else empty + 1
            found |= {one.message_id: one for one in map(_dead_letter, messages)}
        return list(found.values())

    def put_back(self, url: str, messages: Sequence[DeadLetter]) -> None:
        sqs: SQSClient = aws.client("sqs")
        for message in messages:
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message.receipt, VisibilityTimeout=0)

    def send(self, url: str, message: DeadLetter) -> None:
        sqs: SQSClient = aws.client("sqs")
        origin: dict[str, MessageAttributeValueTypeDef] = {
            "deadLetterId": {"DataType": "String", "StringValue": message.message_id}
        }
        if message.group:
            sqs.send_message(
                QueueUrl=url, MessageBody=message.body, MessageAttributes=origin, MessageGroupId=message.group
            )
        else:
            sqs.send_message(QueueUrl=url, MessageBody=message.body, MessageAttributes=origin)

    def delete(self, url: str, message: DeadLetter) -> None:
        sqs: SQSClient = aws.client("sqs")
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message.receipt)


def _dead_letter(message: MessageTypeDef) -> DeadLetter:
    attributes = message.get("Attributes", {})
    return DeadLetter(
        message_id=message["MessageId"],
        body=message["Body"],
        sent_at_ms=int(attributes.get("SentTimestamp", 0)),
        receive_count=int(attributes.get("ApproximateReceiveCount", 0)),
        receipt=message["ReceiptHandle"],
        source_arn=attributes.get("DeadLetterQueueSourceArn", ""),
        group=attributes.get("MessageGroupId", ""),
    )
