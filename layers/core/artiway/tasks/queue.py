"""Step Functions as a destination of the outbox: starts executions and answers task tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from artiway.outbox.model import Envelope, Sender
from artiway.platform import aws
from artiway.platform.logs import Logger
from artiway.tasks import messages

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

logger = Logger("machine")
# The execution was started before, or no execution waits for the token any more: the message needs no retry.
CLOSED = frozenset({"ExecutionAlreadyExists", "TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})


class MachineSender:
    """`queue_urls` has the queue of each lane: an execution sends its messages there."""

    def __init__(self, machine_arn: str, queue_urls: Mapping[str, str]) -> None:
        self._machine_arn, self._queue_urls = machine_arn, queue_urls

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        return {envelope.outbox_id for envelope in envelopes if self._is_sent(envelope)}

    def _is_sent(self, envelope: Envelope) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        data = json.loads(envelope.body)["data"]
        if envelope.destination == messages.START and not self._can_start(data):
            logger.error("destination without a machine or a queue", destination=envelope.destination)
            return False
        try:
            self._call(envelope, data)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in CLOSED:
                logger.warning("machine not reached", destination=envelope.destination, reason=code)
            return code in CLOSED
        except BotoCoreError as error:
            logger.warning("machine not reached", destination=envelope.destination, reason=type(error).__name__)
            return False
        return True

    def _can_start(self, data: Mapping[str, Any]) -> bool:
        return bool(self._machine_arn) and messages.lane_destination(data["input"]["lane"]) in self._queue_urls

    def _call(self, envelope: Envelope, data: Mapping[str, Any]) -> None:
        machine: SFNClient = aws.client("stepfunctions")
        if envelope.destination == messages.START:
            queue_url = self._queue_urls[messages.lane_destination(data["input"]["lane"])]
            machine.start_execution(
                stateMachineArn=self._machine_arn,
                name=data["name"],
                input=json.dumps({**data["input"], "queueUrl": queue_url}),
                **({"traceHeader": f"Root={envelope.trace_id}"} if envelope.trace_id else {}),
            )
        else:
            machine.send_task_success(taskToken=data["token"], output=json.dumps(data["output"]))


class Senders:
    """Routes each envelope to a sender by the part of its destination before the colon."""

    def __init__(self, by_kind: Mapping[str, Sender], default: Sender) -> None:
        self._by_kind, self._default = by_kind, default

    def send(self, envelopes: Sequence[Envelope]) -> set[int]:
        parts: dict[str, list[Envelope]] = {}
        for envelope in envelopes:
            kind = envelope.destination.partition(":")[0]
            parts.setdefault(kind if kind in self._by_kind else "", []).append(envelope)
        accepted: set[int] = set()
        for kind, part in parts.items():
            accepted |= self._by_kind.get(kind, self._default).send(part)
        return accepted
