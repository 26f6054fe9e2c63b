"""Starts the functions of jobs before the stack answers: the first job of a user may be due in a few seconds."""

from __future__ import annotations

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from artiway.jobs.messages import CALLS, warm
from artiway.outbox.model import Message
from local.emulator import client
from local.lambdas import ACCOUNT, REGION

DISPATCHER, CALLER = "DispatchFunction", "CallerFunction"


def ensure(lambda_url: str, functions: Collection[str]) -> bool:
    """Call a dispatcher and a caller with messages that ask for nothing. False: one of them failed.

    A deployment sends the same messages through the queues; here their end is waited for.
    """
    calls = [(CALLER if message.destination == CALLS else DISPATCHER, _event(message)) for message in warm()]
    wanted = [(name, event) for name, event in calls if name in functions]
    with ThreadPoolExecutor() as pool:
        return all(pool.map(lambda call: _is_answered(lambda_url, *call), wanted))


def _is_answered(lambda_url: str, name: str, event: dict[str, Any]) -> bool:
    try:
        answer = client("lambda", lambda_url).invoke(FunctionName=name, Payload=json.dumps(event).encode())
    except (BotoCoreError, ClientError):
        return False
    return "FunctionError" not in answer


def _event(message: Message) -> dict[str, Any]:
    """A batch of one, as Lambda takes it from a queue."""
    record = {
        "messageId": "warm",
        "receiptHandle": "warm",
        "body": message.body(trace_id="", at=datetime.now(UTC)),
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{message.destination}",
        "awsRegion": REGION,
    }
    return {"Records": [record]}
