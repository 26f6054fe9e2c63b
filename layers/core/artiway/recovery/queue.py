"""Dead-letter queues in SQS. Moved by receive, send, delete: a move task of SQS cannot choose letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artiway.platform import aws
from artiway.recovery.model import DeadLetter

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef, MessageTypeDef

BATCH = 10
# As long as an act on the letters may take; then they are there again for the next.
HIDDEN_S = 30
EMPTY_ANSWERS = 2


class SqsQueues:
    def depth(self, url: str) -> int:
        sqs: SQSClient = aws.client("sqs")
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    def take(self, url: str, *, limit: int) -> Sequence[DeadLetter]:
        sqs: SQSClient = aws.client("sqs")
        found: dict[str, DeadLetter] = {}
        empty = 0
        while len(found) < limit and empty < EMPTY_ANSWERS:
            answer = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(BATCH, limit - len(found)),
                VisibilityTimeout=HIDDEN_S,
                WaitTimeSeconds=0,
                MessageSystemAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            empty = 0 if messages else empty + 1
            found |= {letter.message_id: letter for letter in map(_letter, messages)}
        return list(found.values())

    def put_back(self, url: str, letters: Sequence[DeadLetter]) -> None:
        sqs: SQSClient = aws.client("sqs")
        for letter in letters:
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=letter.receipt, VisibilityTimeout=0)

    def send(self, url: str, letter: DeadLetter) -> None:
        sqs: SQSClient = aws.client("sqs")
        origin: dict[str, MessageAttributeValueTypeDef] = {
            "deadLetterId": {"DataType": "String", "StringValue": letter.message_id}
        }
        if letter.group:
            sqs.send_message(
                QueueUrl=url, MessageBody=letter.body, MessageAttributes=origin, MessageGroupId=letter.group
            )
        else:
            sqs.send_message(QueueUrl=url, MessageBody=letter.body, MessageAttributes=origin)

    def delete(self, url: str, letter: DeadLetter) -> None:
        sqs: SQSClient = aws.client("sqs")
        sqs.delete_message(QueueUrl=url, ReceiptHandle=letter.receipt)


def _letter(message: MessageTypeDef) -> DeadLetter:
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
