"""Reports of workers and of the caller: a batch is reduced to the newest of each attempt, then pushed and stored.

HTTP nodes that were dispatched are claimed here, for the caller has no database, and their calls are sent to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch

if TYPE_CHECKING:
    from artiway.tasks.calls.model import DueCall
    from artiway.tasks.model import Report

CALL_DUE = "call_due"


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _handle, decode=_decode)


def _decode(message: Received) -> Report | DueCall:
    from artiway.tasks.calls.model import DueCall
    from artiway.tasks.reports import report_from  # imported with the services, at the first message

    try:
        if message.type == CALL_DUE:
            return DueCall.from_data(message.data)
        return report_from(message.type, message.data, trace_id=message.trace_id)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PoisonMessage(f"not a report: {error}") from error


def _handle(batch: list[Report | DueCall]) -> None:
    from artiway.tasks.model import Report

    for one in batch:
        if not isinstance(one, Report):
            bootstrap.call_hand_over().hand_over(one)
    reports = [one for one in batch if isinstance(one, Report)]
    if reports and (failed := bootstrap.progress().handle(reports)):
        raise RuntimeError(f"{len(failed)} of {len(reports)} reports failed")
