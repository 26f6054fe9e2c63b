"""Creates the webhook deliveries of a task that has ended. It calls no receiver, so a slow receiver cannot delay it."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.delivery.webhooks.model import SettledTask
from artiway.platform.consumer import PoisonMessage, Received, consume


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume(event, _fan_out)


def _fan_out(message: Received) -> None:
    try:
        settled = SettledTask.from_data(message.data)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not an ended task: {error}") from error
    bootstrap.webhooks().fan_out(settled)
