"""A queue's handler on Powertools' batch types: decode each record, call one function, report the ids that failed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from artiway.platform import aws, logs, metrics, tracing, waits
from artiway.platform.logs import Logger

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

logger = Logger("consumer")
T = TypeVar("T")


class PoisonMessage(ValueError):
    """A record that no retry can help. The redrive policy moves it to the dead-letter queue."""


class ReturnLater(Exception):
    """The message cannot be handled now: it returns through its queue after a delay, which is no failure."""

    def __init__(self, delay_s: int) -> None:
        super().__init__(f"returns after {delay_s} s")
        self.delay_s = delay_s


@dataclass(frozen=True)
class Received:
    """A decoded message. `message_id` is SQS's; it is the same when the queue delivers again."""

    message_id: str
    type: str
    aggregate: str
    data: Mapping[str, Any]
    receive_count: int
    trace_id: str = ""


class WholeBatchProcessor(BatchProcessor):
    """Handles the decoded records of a batch in one call. They fail together."""

    def __init__(self, handle: Callable[[list[Any]], None]) -> None:
        super().__init__(EventType.SQS, raise_on_entire_batch_failure=False)
        self._handle = handle

    def process(self) -> list[tuple[Any, ...]]:
        entries = super().process()
        good = [(result, SQSRecord(record)) for status, result, record in entries if status == "success"]
        if not good:
            return entries
        with tracing.traced(_trace_of(SQSRecord(self.records[0]))):
            try:
                self._handle([result for result, _ in good])
            except Exception:
                logger.exception("batch failed", messages=len(good))
                for _, record in good:
                    self.failure_handler(record, sys.exc_info())
        return entries


def decode(record: SQSRecord) -> Received:
    try:
        body = record.json_body
        data = body.get("data", {})
        if not isinstance(data, dict):
            raise TypeError("data is not an object")
        return Received(
            message_id=record.message_id,
            type=str(body["type"]),
            aggregate=str(body.get("aggregate", "")),
            data=data,
            receive_count=int((record.get("attributes") or {}).get("ApproximateReceiveCount", 1)),
            trace_id=tracing.current(),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PoisonMessage(f"the message cannot be decoded: {error}") from error


def consume(event: dict[str, Any], handle: Callable[[Received], object]) -> dict[str, Any]:
    """Handle each record by itself. A database that hangs is waited for once per batch."""
    return _processed(event, handle, BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False))


def consume_batch(
    event: dict[str, Any], handle: Callable[[list[T]], None], *, decode: Callable[[Received], T]
) -> dict[str, Any]:
    """Handle a batch in one call. A record that cannot be decoded fails alone; the others fail together."""
    return _processed(event, decode, WholeBatchProcessor(handle))


def _processed(
    event: dict[str, Any], handle: Callable[[Received], object], processor: BatchProcessor
) -> dict[str, Any]:
    def handle_record(record: SQSRecord) -> object:
        with tracing.traced(_trace_of(record)), logs.context(message_id=record.message_id):
            try:
                message = decode(record)
                result = handle(message)
            except ReturnLater as later:
                _delay(record, later.delay_s)
                raise
            except PoisonMessage as error:
                logger.error("poison message", reason=str(error))
                metrics.emit("PoisonMessages", 1)
                raise
            except Exception:
                logger.exception("message failed")
                raise
            if not isinstance(processor, WholeBatchProcessor):  # the handler of a batch logs what it did
                logger.info("message handled", type=message.type, aggregate=message.aggregate)
            return result

    with waits.counted(is_bounded=False):
        return {**process_partial_response(event, handle_record, processor)}


def _delay(record: SQSRecord, delay_s: int) -> None:
    """Without the change the queue delivers again after its own visibility time-out."""
    from botocore.exceptions import BotoCoreError, ClientError

    sqs: SQSClient = aws.client("sqs")
    url = f"{os.environ.get('ARTIWAY_QUEUE_ADDRESS', '')}/{record.event_source_arn.rpartition(':')[2]}"
    try:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=record.receipt_handle, VisibilityTimeout=delay_s)
    except (BotoCoreError, ClientError) as error:
        logger.warning("message not delayed", reason=type(error).__name__)


def _trace_of(record: SQSRecord) -> str | None:
    """The outbox sends it as an attribute, workers and Step Functions in the body."""
    attribute = (record.get("messageAttributes") or {}).get("traceId") or {}
    if trace_id := tracing.parse(attribute.get("stringValue")):
        return trace_id
    try:
        return tracing.parse(record.json_body["traceId"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return tracing.parse((record.get("attributes") or {}).get("AWSTraceHeader"))
