"""What operators do with texts of all tenants: search, cancel and retry in bulk, each recorded in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from artiway.errors import ArtiwayError, NotFound, Unavailable
from artiway.generations.model import Generation, GenerationFilter, Handled, NoSuchGeneration, Requester, TextModel
from artiway.generations.ports import WorkerStore
from artiway.generations.service import GenerationService


class Journal(Protocol):
    def record(self, *, actor_id: UUID, action: str, target: str, details: Mapping[str, object]) -> None: ...


class ModelLimits(Protocol):
    def set_model_limit(self, model: str, limit: int | None, *, actor_id: UUID | None) -> None:
        """Store the limit of a model, or with None remove it, and record who did."""


class TextModels:
    """The models that texts may use. Workers make them known with their first text."""

    def __init__(self, workers: WorkerStore, limits: ModelLimits, *, wake: Callable[[], object]) -> None:
        """`wake` sends messages for the free slots of all lanes."""
        self._workers, self._limits, self._wake = workers, limits, wake

    def all(self) -> Sequence[TextModel]:
        return self._workers.models()

    def limit(self, name: str, limit: int | None, *, actor_id: UUID | None) -> TextModel:
        """Set how many texts of a model may run at once. The next claim counts by it; running texts are not stopped."""
        found = self._named(name)
        self._limits.set_model_limit(found.model, limit, actor_id=actor_id)
        self._wake()
        return self._named(name)

    def _named(self, name: str) -> TextModel:
        for model in self._workers.models():
            if model.wire_name == name:
                return model
        raise NotFound("there is no such model")


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
