"""Consumer of the four lanes: a whole batch is added to the fair queue and dispatched at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch


class Kind(StrEnum):
    WORKER_REGISTERED = "worker_came"


@dataclass(frozen=True)
class Ready:
    """A node that may be ready, with the token of the execution that waits for its end."""

    node_id: UUID
    token: str | None


@dataclass(frozen=True)
class Registered:
    """A pool has a new worker."""

    pool: str


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _handle, decode=_decode)


def _decode(message: Received) -> Ready | Registered:
    try:
        match message.type:
            case Kind.WORKER_REGISTERED:
                return Registered(str(message.data["pool"]))
            case _:
                return Ready(UUID(message.data["nodeId"]), message.data.get("taskToken"))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a message of a lane: {error}") from error


def _handle(batch: list[Ready | Registered]) -> None:
    scheduler = bootstrap.scheduler()
    pools = sorted({one.pool for one in batch if isinstance(one, Registered)})
    for pool in pools:
        scheduler.refresh(pool, is_forced=True)
    if ready := [one for one in batch if isinstance(one, Ready)]:
        scheduler.ready([one.node_id for one in ready], {one.node_id: one.token for one in ready if one.token})
    for pool in pools:
        scheduler.dispatch(pool)
