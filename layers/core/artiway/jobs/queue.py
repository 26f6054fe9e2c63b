"""Sends the results of calls to SQS. The caller has no database, so there is no outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artiway.jobs import messages
from artiway.jobs.messages import Result
from artiway.platform import aws, tracing
from artiway.platform.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

RESULTS_PER_MESSAGE = 10  # of at most 13 KB each


class ResultsQueue:
    def __init__(self, queue_url: str, clock: Clock) -> None:
        self._queue_url, self._clock = queue_url, clock

    def send(self, results: Sequence[Result]) -> None:
        """Raises if SQS does not accept one. The messages of a part that was accepted stay sent."""
        sqs: SQSClient = aws.client("sqs")
        for first in range(0, len(results), RESULTS_PER_MESSAGE):
            message = messages.results(results[first : first + RESULTS_PER_MESSAGE])
            trace_id = tracing.current()
            sqs.send_message(
                QueueUrl=self._queue_url,
                MessageBody=message.body(trace_id=trace_id, at=self._clock.now()),
                MessageAttributes={"traceId": {"DataType": "String", "StringValue": trace_id or "-"}},
            )
