"""The four ready lanes end here: a whole batch is admitted to the fair queue and dispatched in one go."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch

WORKER_CAME = "worker_came"
Hint = tuple[UUID, str | None] | str


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _admit, decode=_hint)


def _hint(message: Received) -> Hint:
    """The node that may be ready, with the token that Step Functions waits with; or a pool that has more slots."""
    try:
        if message.type == WORKER_CAME:
            return str(message.data["pool"])
        return UUID(message.data["nodeId"]), message.data.get("taskToken")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a ready message: {error}") from error


def _admit(hints: list[Hint]) -> None:
    scheduler = bootstrap.scheduler()
    pools = {hint for hint in hints if isinstance(hint, str)}
    for pool in sorted(pools):
        scheduler.refresh(pool, is_forced=True)
    nodes = [hint for hint in hints if not isinstance(hint, str)]
    scheduler.ready([node_id for node_id, _ in nodes], {node_id: token for node_id, token in nodes if token})
    for pool in sorted(pools):
        scheduler.dispatch(pool)
