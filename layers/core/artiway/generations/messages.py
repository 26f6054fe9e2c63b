"""The message of a lane: a wake-up. PostgreSQL has the queue, and the worker claims the text whose turn it is."""

from __future__ import annotations

from uuid import UUID

from artiway.outbox.model import Message

TYPE = "generation"


def wake_up(*, tenant_id: UUID, generation_id: UUID, lane: str, trace_id: str = "", delay_s: int = 0) -> Message:
    """It is not stored: the row of the waiting text stands for it, and a sweep sends it again."""
    return Message(
        destination=f"lane:{lane}",
        aggregate=f"generation:{generation_id}",
        type=TYPE,
        data={"generationId": str(generation_id), "lane": lane},
        tenant_id=tenant_id,
        trace_id=trace_id,
        delay_s=delay_s,
        is_stored=False,
    )
