"""Sends mail: the messages name what happened, and the service finds whom it reaches."""

from __future__ import annotations

from typing import Any

from artiway import bootstrap
from artiway.mail.model import MailKind
from artiway.platform.consumer import PoisonMessage, Received, consume


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume(event, _deliver)


def _deliver(message: Received) -> None:
    try:
        kind = MailKind(message.type)
        bootstrap.mail().deliver(kind, message.data)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a mail: {error}") from error
