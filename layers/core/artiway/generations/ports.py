"""The ports between the rules of texts and the database: a tenant's open transaction, and the claims of all tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from artiway.generations.margins.model import UsedModel
from artiway.generations.model import (
    Chain,
    Cost,
    Failure,
    Generation,
    GenerationFilter,
    GuardLimits,
    LaneLoad,
    NewGeneration,
    Outcome,
    Overdue,
    Refusal,
    Status,
    TextModel,
)
from artiway.outbox.model import Message


class PictureUnreadable(Exception):
    """No model can be shown the picture. The message may be shown to the tenant."""


class Pictures(Protocol):
    """The pictures of requests."""

    def check(self, tenant_id: UUID, input_id: str) -> None:
        """Raises if the upload is of another tenant, expired, absent, or not the declared picture within its limits."""

    def data_url(self, tenant_id: UUID, input_id: str) -> str:
        """The picture for a model, small enough to be sent. Raises PictureUnreadable; Unavailable for now."""


class GenerationTransaction(Protocol):
    """One tenant's open transaction. A guarded UPDATE that changed no row returns None."""

    def send(self, message: Message) -> None: ...

    def check_active(self) -> int:
        """The tenant's queue depth. Raises TenantSuspended."""

    def lock_submissions(self) -> None: ...
    def count_live(self) -> int: ...
    def recent_ends(self, *, window_s: int) -> int: ...

    def reserve_allowance(self, user_id: UUID, day: date, tokens: int, *, allowance: int) -> bool:
        """False if the tokens would exceed the allowance of the day."""

    def used_allowance(self, user_id: UUID, day: date) -> int: ...
    def return_allowance(self, user_id: UUID, day: date, tokens: int) -> None: ...
    def add(self, new: NewGeneration) -> Generation: ...
    def get(self, generation_id: UUID) -> Generation | None: ...
    def lock(self, generation_id: UUID) -> Generation | None: ...
    def page(self, wanted: GenerationFilter, *, before: UUID | None, limit: int) -> Sequence[Generation]: ...
    def request_cancel(self, generation_id: UUID) -> None: ...

    def end(
        self, generation: Generation, outcome: Outcome, *, charged_points: int, is_by_worker: bool
    ) -> Generation | None:
        """End the attempt, if it is the newest. Without its worker the end gets an attempt number of its own."""

    def requeue(
        self, generation: Generation, failure: Failure, *, delay_s: float, is_counted: bool
    ) -> Generation | None: ...

    def advance(self, generation: Generation, chain: Chain, *, input_tokens: int) -> Generation | None:
        """End the first stage of a chain, if the attempt is the newest: the row waits in the lane of the second."""

    def correct_share(self, generation: Generation, *, used_tokens: int) -> None: ...

    def add_usage(self, generation: Generation, lines: Sequence[UsedModel]) -> None:
        """Add to today's usage of the models. No model is in the lines twice."""


class GenerationStore(Protocol):
    def open(self, tenant_id: UUID) -> AbstractContextManager[GenerationTransaction]: ...


@dataclass(frozen=True)
class Route:
    """The model that a service's text would use now."""

    service: str
    provider: str
    model_id: str
    cost: Cost


@dataclass(frozen=True)
class Decision:
    """What a claim in a lane needs to know: the model of each service, and the limits that are in force."""

    lane: str
    routes: Sequence[Route]
    limits: GuardLimits
    # All models of each service in the order in which they are asked, as `provider/model`.
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)


class WorkerStore(Protocol):
    """Claims and leases over all tenants."""

    def claim(self, decision: Decision, *, worker_id: str, lease_s: int) -> Generation | Refusal | None:
        """The text of the lane whose turn it is, with all of its guards; or why there is none; None if none waits."""

    def note_routes(self, decision: Decision) -> None:
        """Store which models the lane's texts would use, for operators."""

    def models(self) -> Sequence[TextModel]: ...

    def waiting_attempt(self, generation_id: UUID) -> int | None:
        """The last attempt of a text that waits; None if it does not wait."""

    def renew(
        self, generation: Generation, *, lease_s: int, text: str | None, first_token_at: datetime | None
    ) -> bool | None:
        """Renew the lease and store a snapshot. Whether a cancel was requested; None if the lease is lost."""

    def is_cancelled(self, generation: Generation) -> bool:
        """Whether to stop: a cancel was requested, or another attempt is newer."""

    def move_model(
        self, generation: Generation, *, provider: str, model_id: str, cost: Cost, limits: GuardLimits
    ) -> bool:
        """Take the guard of another model. False if it is at its limit."""

    def wake(self, *, lane: str | None, age_s: float, parallelism: int, limit: int) -> int:
        """Send a message for each free slot that a waiting text could take."""

    def lane_load(self, lane: str, *, window_s: int) -> LaneLoad: ...
    def expired_leases(self, *, limit: int) -> Sequence[Overdue]: ...
    def unfinished_cancels(self, *, limit: int) -> Sequence[Overdue]: ...
    def orphan_holds(self, *, limit: int) -> Sequence[tuple[UUID, UUID, UUID]]: ...
    def search(self, wanted: GenerationFilter, *, before: UUID | None, limit: int) -> Sequence[Generation]: ...
    def tenant_of(self, generation_id: UUID) -> UUID | None: ...


ACTIVE = (Status.QUEUED, Status.RUNNING)
