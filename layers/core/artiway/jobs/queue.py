"""Sends the results of calls to SQS: those of runs together, those of nodes as reports. The caller has no database, so
there is no outbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from artiway.jobs import messages
from artiway.jobs.messages import Result
from artiway.outbox.model import Message
from artiway.platform import aws, tracing
from artiway.platform.clock import Clock

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

RESULTS_PER_MESSAGE = 10  # of at most 13 KB each


class ResultsQueue:
    """`report_of` makes the message of a result of a node."""

    def __init__(
        self, queue_url: str, clock: Clock, *, reports_url: str, report_of: Callable[[Result], Message]
    ) -> None:
        self._queue_url, self._clock = queue_url, clock
        self._reports_url, self._report_of = reports_url, report_of

    def send(self, results: Sequence[Result]) -> None:
        """Raises if SQS does not accept one. The messages of a part that was accepted stay sent."""
        of_runs = [one for one in results if one.node_of is None]
        for first in range(0, len(of_runs), RESULTS_PER_MESSAGE):
            self._send(self._queue_url, messages.results(of_runs[first : first + RESULTS_PER_MESSAGE]))
        for one in results:
            if one.node_of is not None:
                self._send(self._reports_url, self._report_of(one))

    def _send(self, queue_url: str, message: Message) -> None:
        sqs: SQSClient = aws.client("sqs")
        trace_id = tracing.current()
        sqs.send_message(
            QueueUrl=queue_url,
            MessageBody=message.body(trace_id=trace_id, at=self._clock.now()),
            MessageAttributes={"traceId": {"DataType": "String", "StringValue": trace_id or "-"}},
        )
