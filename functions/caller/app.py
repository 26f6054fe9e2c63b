"""Makes the HTTP calls of runs. Outside the VPC, without rights on the database: it knows only what a message holds."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.jobs.messages import Call
from artiway.platform.consumer import PoisonMessage, Received, consume_batch


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    def make(batch: list[list[Call]]) -> None:
        calls = [call for message in batch for call in message]
        if not calls:
            bootstrap.make_ready("sqs", "kms")
        bootstrap.caller().make(calls, time_left_s=context.get_remaining_time_in_millis() / 1_000)

    return consume_batch(event, make, decode=_calls)


def _calls(message: Received) -> list[Call]:
    try:
        return [Call.from_data(one) for one in message.data["calls"]]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        # The reason names no value of the message: it may hold what nobody may read in a log.
        raise PoisonMessage(f"not calls: {type(error).__name__}") from error
