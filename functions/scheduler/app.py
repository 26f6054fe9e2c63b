"""The four ready lanes end here: a whole batch is admitted to the fair queue and dispatched in one go."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _admit, decode=_hint)


def _hint(message: Received) -> tuple[UUID, str | None]:
    """The node that may be ready, and the token with which Step Functions waits for its end."""
    try:
        return UUID(message.data["nodeId"]), message.data.get("taskToken")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a ready message: {error}") from error


def _admit(hints: list[tuple[UUID, str | None]]) -> None:
    tokens = {node_id: token for node_id, token in hints if token}
    bootstrap.scheduler().ready([node_id for node_id, _ in hints], tokens)
