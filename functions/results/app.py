"""Consumer of results: a whole batch moves its runs in one transaction."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.jobs.messages import Result
from artiway.platform.consumer import PoisonMessage, Received, consume_batch


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _handle, decode=_decode)


def _decode(message: Received) -> list[Result]:
    try:
        return [Result.from_data(data) for data in message.data["results"]]
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not results of runs: {type(error).__name__}") from error


def _handle(batch: list[list[Result]]) -> None:
    bootstrap.results().apply([result for results in batch for result in results])
    bootstrap.backfill_release().release()  # the next runs of a backfill follow those that have ended
