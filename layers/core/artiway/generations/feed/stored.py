"""The text of a generation as PostgreSQL has it, for readers."""

from __future__ import annotations

from uuid import UUID

from artiway.generations.feed.model import Start, StoredText
from artiway.generations.model import Generation, NoSuchGeneration, end_of
from artiway.generations.ports import GenerationStore


class StoredTexts:
    def __init__(self, store: GenerationStore) -> None:
        self._store = store

    def stored(self, tenant_id: UUID, generation_id: UUID) -> StoredText:
        with self._store.open(tenant_id) as tx:
            generation = tx.get(generation_id)
        if generation is None:
            raise NoSuchGeneration
        end = end_of(generation) if generation.is_ended else None
        return StoredText(generation.attempt, generation.text, _start(generation), end)


def _start(generation: Generation) -> Start | None:
    """The event that began the attempt. A text that no worker claimed has none."""
    if not generation.provider:
        return None
    return Start(
        queue_id=generation.lane,
        provider=generation.provider,
        model_id=generation.model_id,
        request_id=f"{generation.wire_id}-{generation.attempt}",
        trace_id=generation.trace_id,
    )
