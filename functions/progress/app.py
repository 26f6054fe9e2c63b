"""Reports of workers: a batch is reduced to the newest report of each attempt, then pushed and stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch

if TYPE_CHECKING:
    from artiway.tasks.model import Report


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _handle, decode=_report)


def _report(message: Received) -> Report:
    from artiway.tasks.reports import report_from  # imported with the services, at the first message

    try:
        return report_from(message.type, message.data, trace_id=message.trace_id)
    except ValueError as error:
        raise PoisonMessage(f"not a report: {error}") from error


def _handle(reports: list[Report]) -> None:
    if failed := bootstrap.progress().handle(reports):
        raise RuntimeError(f"{len(failed)} of {len(reports)} reports failed")
