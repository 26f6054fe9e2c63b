"""Consumer of the lanes of runs and of submissions: starts due runs, and submits or cancels the tasks of runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform.consumer import PoisonMessage, Received, consume_batch


@dataclass(frozen=True)
class Hint:
    """Runs that may be due, the first of them at `at`. Without any: a place may be free."""

    run_ids: tuple[UUID, ...]
    at: datetime | None


@dataclass(frozen=True)
class Submission:
    tenant_id: UUID
    run_id: UUID
    generation: int
    attempt: int


@dataclass(frozen=True)
class Cancellation:
    tenant_id: UUID
    task_id: UUID


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return consume_batch(event, _handle, decode=_decode)


def _decode(message: Received) -> Hint | Submission | Cancellation:
    data = message.data
    try:
        match message.type:
            case "runs_due":
                at = data.get("at")
                run_ids = tuple(UUID(run_id) for run_id in data["runIds"])
                return Hint(run_ids, None if at is None else datetime.fromisoformat(at))
            case "submit":
                return Submission(
                    UUID(data["tenantId"]), UUID(data["runId"]), int(data["generation"]), int(data["attempt"])
                )
            case "cancel":
                return Cancellation(UUID(data["tenantId"]), UUID(data["taskId"]))
            case other:
                raise PoisonMessage(f"not a message about runs: {other}")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise PoisonMessage(f"not a message about runs: {error}") from error


def _handle(batch: list[Hint | Submission | Cancellation]) -> None:
    hints = [one for one in batch if isinstance(one, Hint)]
    if run_ids := [run_id for hint in hints for run_id in hint.run_ids]:
        bootstrap.dispatch().admit(run_ids, due_at=min((hint.at for hint in hints if hint.at), default=None))
    if any(not hint.run_ids for hint in hints):
        bootstrap.make_ready("sqs")
        bootstrap.dispatch().wake()
    for one in batch:
        match one:
            case Submission():
                bootstrap.submissions().submit(
                    tenant_id=one.tenant_id, run_id=one.run_id, generation=one.generation, attempt=one.attempt
                )
            case Cancellation():
                bootstrap.submissions().cancel(tenant_id=one.tenant_id, task_id=one.task_id)
