"""What operators do with texts of all tenants: search, cancel and retry in bulk, each recorded in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from artiway.errors import ArtiwayError, Unavailable
from artiway.generations.model import Generation, GenerationFilter, Handled, NoSuchGeneration, Requester
from artiway.generations.ports import WorkerStore
from artiway.generations.service import GenerationService


class Journal(Protocol):
    def record(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None: ...


class GenerationOperations:
    def __init__(self, service: GenerationService, workers: WorkerStore, journal: Journal) -> None:
        self._service, self._workers, self._journal = service, workers, journal

    def search(self, wanted: GenerationFilter, *, before: UUID | None, limit: int) -> Sequence[Generation]:
        """Newest first."""
        return self._workers.search(wanted, before=before, limit=limit)

    def cancel(self, generation_ids: Sequence[UUID], *, actor_id: UUID) -> list[Handled]:
        return self._each(generation_ids, "generation.cancelled", actor_id, self._service.cancel)

    def retry(self, generation_ids: Sequence[UUID], *, actor_id: UUID) -> list[Handled]:
        """Each retry is a new generation of the same user, with a hold of its own."""
        return self._each(generation_ids, "generation.retried", actor_id, self._service.retry)

    def _each(
        self,
        generation_ids: Sequence[UUID],
        action: str,
        actor_id: UUID,
        change: Callable[..., Generation],
    ) -> list[Handled]:
        """An id that cannot be changed does not stop the others."""
        handled = []
        requester = Requester(actor_id, may_manage=True)
        for generation_id in dict.fromkeys(generation_ids):
            try:
                tenant_id = self._workers.tenant_of(generation_id)
                if tenant_id is None:
                    raise NoSuchGeneration
                changed = change(tenant_id=tenant_id, generation_id=generation_id, requester=requester)
                details = {"tenantId": str(tenant_id), "generationId": changed.wire_id}
                self._journal.record(actor_id=actor_id, action=action, target=str(generation_id), details=details)
                handled.append(Handled(generation_id, changed))
            except Unavailable:
                raise  # all others would fail as well; the request can be repeated
            except ArtiwayError as error:
                handled.append(Handled(generation_id, error=error))
        return handled
