"""A queue's handler: decode each record, call one function, report the ids that failed. The others are done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from artiway.platform import logs, metrics, tracing, waits
from artiway.platform.logs import Logger

logger = Logger("consumer")
T = TypeVar("T")


class PoisonMessage(ValueError):
    """A record that no retry can help. It is left to the redrive policy, which brings it to the DLQ."""


@dataclass(frozen=True)
class Received:
    """A decoded message. `message_id` is SQS's; it is the same when the queue delivers again."""

    message_id: str
    type: str
    aggregate: str
    data: Mapping[str, Any]
    receive_count: int


def decode(record: Mapping[str, Any]) -> Received:
    try:
        body = json.loads(record["body"])
        data = body.get("data", {})
        if not isinstance(data, dict):
            raise TypeError("data is not an object")
        return Received(
            message_id=record["messageId"],
            type=str(body["type"]),
            aggregate=str(body.get("aggregate", "")),
            data=data,
            receive_count=int(record.get("attributes", {}).get("ApproximateReceiveCount", 1)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PoisonMessage(f"not a message of ours: {error}") from error


def consume(event: Mapping[str, Any], handle: Callable[[Received], object]) -> dict[str, Any]:
    """Handle a batch. One record's failure is its own, but a database that hangs is waited for once."""
    failed = []
    with waits.counted(is_bounded=False):
        for record in event["Records"]:
            message_id = record.get("messageId", "")
            with tracing.traced(_trace_of(record)), logs.context(message_id=message_id):
                try:
                    handle(decode(record))
                except PoisonMessage as error:
                    logger.error("poison message", reason=str(error))
                    metrics.emit("PoisonMessages", 1)
                    failed.append(message_id)
                except Exception:
                    logger.exception("message failed")
                    failed.append(message_id)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def consume_batch(
    event: Mapping[str, Any], handle: Callable[[list[T]], None], *, decode: Callable[[Received], T]
) -> dict[str, Any]:
    """Handle a batch in one act, where that is cheaper. What cannot be decoded fails alone; the rest, together."""
    decoded: list[T] = []
    good: list[str] = []

    def collect(message: Received) -> None:
        decoded.append(decode(message))
        good.append(message.message_id)

    answer = consume(event, collect)
    if not decoded:
        return answer
    with tracing.traced(_trace_of(event["Records"][0])), waits.counted(is_bounded=False):
        try:
            handle(decoded)
        except Exception:
            logger.exception("batch failed", messages=len(decoded))
            answer["batchItemFailures"] += [{"itemIdentifier": message_id} for message_id in good]
    return answer


def _trace_of(record: Mapping[str, Any]) -> str | None:
    attribute = (record.get("messageAttributes") or {}).get("traceId") or {}
    header = (record.get("attributes") or {}).get("AWSTraceHeader")
    return tracing.parse(attribute.get("stringValue")) or tracing.parse(header)
