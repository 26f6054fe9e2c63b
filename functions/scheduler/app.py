"""Consumer of the four ready queues: a whole batch is added to the fair queue and dispatched at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch

WORKER_REGISTERED = "worker_came"
Ready = tuple[UUID, str | None] | str


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _admit, decode=_ready)


def _ready(message: Received) -> Ready:
    """A node that may be ready, with the token of the waiting execution; or a pool with a new worker."""
    try:
        if message.type == WORKER_REGISTERED:
            return str(message.data["pool"])
        return UUID(message.data["nodeId"]), message.data.get("taskToken")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a ready message: {error}") from error


def _admit(ready: list[Ready]) -> None:
    scheduler = bootstrap.scheduler()
    pools = {one for one in ready if isinstance(one, str)}
    for pool in sorted(pools):
        scheduler.refresh(pool, is_forced=True)
    nodes = [one for one in ready if not isinstance(one, str)]
    scheduler.ready([node_id for node_id, _ in nodes], {node_id: token for node_id, token in nodes if token})
    for pool in sorted(pools):
        scheduler.dispatch(pool)
