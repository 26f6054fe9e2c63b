"""Sends the WebSockets of a user the events that they have not received."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume
from artiway.push.model import Notice


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume(event, _deliver)


def _deliver(message: Received) -> None:
    try:
        notice = Notice.from_data(message.data)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a notice: {error}") from error
    bootstrap.push().deliver(notice, is_again=message.receive_count > 1)
