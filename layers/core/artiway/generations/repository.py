"""Generations in PostgreSQL: one tenant's as `artiway_app`, claims and sweeps of all tenants as `artiway_service`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from artiway.generations import messages
from artiway.generations.feed.model import Usage, UsageSource
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
    Price,
    Refusal,
    Scope,
    Status,
    TextModel,
    tier_of,
)
from artiway.generations.ports import Decision
from artiway.identity.model import TenantSuspended
from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import sql, tracing
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.generations")


class PostgresGenerationTransaction:
    """The open transaction of one tenant."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)

    def check_active(self) -> int:
        row = self._tx.one(SQL["tenant_limits"])
        if row is None or row["status"] != "ACTIVE":
            raise TenantSuspended  # the access check may have cached the older status for a minute
        return int(row["queue_depth"])

    def lock_submissions(self) -> None:
        self._tx.run(SQL["lock_submissions"])

    def count_live(self) -> int:
        return self._number("count_live", "live", {})

    def recent_ends(self, *, window_s: int) -> int:
        return self._number("tenant_ends", "ended", {"window_s": window_s})

    def reserve_allowance(self, user_id: UUID, day: date, tokens: int, *, allowance: int) -> bool:
        parameters = {"user_id": user_id, "day": day, "tokens": tokens, "allowance": allowance}
        return self._tx.one(SQL["reserve_allowance"], parameters) is not None

    def used_allowance(self, user_id: UUID, day: date) -> int:
        row = self._tx.one(SQL["used_allowance"], {"user_id": user_id, "day": day})
        return int(row["tokens"]) if row else 0

    def return_allowance(self, user_id: UUID, day: date, tokens: int) -> None:
        self._tx.run(SQL["return_allowance"], {"user_id": user_id, "day": day, "tokens": tokens})

    def add(self, new: NewGeneration) -> Generation:
        row = self._tx.one(
            SQL["insert"],
            {
                "generation_id": new.generation_id,
                "user_id": new.user_id,
                "service": new.service,
                "lane": new.lane,
                "is_free": new.is_free,
                "input": Jsonb(new.input),
                "params": Jsonb(new.params),
                "max_tokens": new.max_tokens,
                "input_tokens": new.input_tokens,
                "input_price": new.price.input,
                "output_price": new.price.output,
                "hold_id": None if new.is_free else new.generation_id,
                "price_points": new.price_points,
                "allowance_day": new.allowance_day,
                "trace_id": tracing.current(),
                "chain": None if new.chain is None else Jsonb(new.chain.as_json()),
            },
        )
        assert row is not None
        return _generation(row)

    def get(self, generation_id: UUID) -> Generation | None:
        return _found(self._tx.one(SQL["generation"], {"generation_id": generation_id}))

    def lock(self, generation_id: UUID) -> Generation | None:
        """To the end of the transaction, lines are logged under the generation's trace id."""
        found = _found(self._tx.one(SQL["lock"], {"generation_id": generation_id}))
        if found is not None:
            tracing.follow(found.trace_id)
        return found

    def page(self, wanted: GenerationFilter, *, before: UUID | None, limit: int) -> list[Generation]:
        rows = self._tx.all(SQL["page"], {**asdict(wanted), "before": before, "limit": limit})
        return [_generation(row) for row in rows]

    def request_cancel(self, generation_id: UUID) -> None:
        self._tx.run(SQL["request_cancel"], {"generation_id": generation_id})

    def end(
        self, generation: Generation, outcome: Outcome, *, charged_points: int, is_by_worker: bool
    ) -> Generation | None:
        usage = outcome.usage
        parameters = {
            "generation_id": generation.generation_id,
            "attempt": generation.attempt,
            "new_attempt": generation.attempt + (0 if is_by_worker else 1),
            "from": [Status.RUNNING] if is_by_worker else [Status.QUEUED, Status.RUNNING],
            "status": outcome.status,
            "text": outcome.text,
            "result": _jsonb(outcome.result),
            "used_input": None if usage is None else usage.input_tokens,
            "used_output": None if usage is None else usage.output_tokens,
            "usage_source": None if usage is None else outcome.usage_source,
            "finish_reason": outcome.finish_reason,
            "error": None if outcome.failure is None else Jsonb(outcome.failure.as_json()),
            "charged_points": charged_points,
            "first_token_at": outcome.first_token_at,
        }
        return _found(self._tx.one(SQL["end"], parameters))

    def requeue(
        self, generation: Generation, failure: Failure, *, delay_s: float, is_counted: bool
    ) -> Generation | None:
        parameters = {
            "generation_id": generation.generation_id,
            "attempt": generation.attempt,
            "counted": int(is_counted),
            "delay_s": delay_s,
            "error": Jsonb(failure.as_json()),
        }
        return _found(self._tx.one(SQL["requeue"], parameters))

    def advance(self, generation: Generation, chain: Chain, *, input_tokens: int) -> Generation | None:
        parameters = {
            "generation_id": generation.generation_id,
            "attempt": generation.attempt,
            "lane": chain.lane,
            "input_tokens": input_tokens,
            "max_tokens": chain.max_tokens,
            "chain": Jsonb(chain.as_json()),
        }
        return _found(self._tx.one(SQL["advance"], parameters))

    def correct_share(self, generation: Generation, *, used_tokens: int) -> None:
        parameters = {
            "lane": generation.lane,
            "used_tokens": used_tokens,
            "estimated_tokens": generation.input_tokens + generation.max_tokens,
        }
        self._tx.run(SQL["correct_share"], parameters)

    def add_usage(self, generation: Generation, lines: Sequence[UsedModel]) -> None:
        if not lines:
            return
        parameters: dict[str, Any] = {"user_id": generation.user_id, "service": generation.service}
        for column in fields(UsedModel):
            parameters[column.name] = [getattr(line, column.name) for line in lines]
        parameters |= {"providers": parameters.pop("provider"), "models": parameters.pop("model_id")}
        self._tx.run(SQL["add_usage"], parameters)

    def _number(self, query: str, name: str, parameters: Mapping[str, Any]) -> int:
        row = self._tx.one(SQL[query], parameters)
        assert row is not None
        return int(row[name])


class PostgresGenerations:
    """The rows of one tenant at a time."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    @contextlib.contextmanager
    def open(self, tenant_id: UUID) -> Iterator[PostgresGenerationTransaction]:
        """Begin a transaction. Messages are sent after its commit."""
        with tracing.restored(), self._database.tenant_transaction(tenant_id) as tx:
            generation_tx = PostgresGenerationTransaction(tx)
            yield generation_tx
            self._outbox.publish(tx, generation_tx.messages)


class PostgresWorkerStore:
    """Claims, leases and sweeps over all tenants."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def claim(self, decision: Decision, *, worker_id: str, lease_s: int) -> Generation | Refusal | None:
        parameters = {
            "lane": decision.lane,
            "services": [route.service for route in decision.routes],
            "providers": [route.provider for route in decision.routes],
            "models": [route.model_id for route in decision.routes],
            "input_costs": [route.cost.input for route in decision.routes],
            "output_costs": [route.cost.output for route in decision.routes],
            "parallelism": decision.limits.parallelism,
            "user_limit": decision.limits.user,
            "model_limit": decision.limits.model[tier_of(decision.lane)],
            "worker_id": worker_id,
            "lease_s": lease_s,
        }
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_claims"])
            if row := tx.one(SQL["claim"], parameters):
                return _generation(row)
            refusal = tx.one(SQL["refusal"], parameters)
        return None if refusal is None or not refusal["has_waiting"] else Refusal(_scope(refusal))

    def note_routes(self, decision: Decision) -> None:
        rows = [
            (service, position, model)
            for service, models in decision.models.items()
            for position, model in enumerate(models)
        ]
        parameters = {
            "lane": decision.lane,
            "services": [service for service, _, _ in rows],
            "positions": [position for _, position, _ in rows],
            "models": [model for _, _, model in rows],
        }
        with self._database.service_transaction() as tx:
            tx.run(SQL["note_routes"], parameters)

    def models(self) -> Sequence[TextModel]:
        return [TextModel(**{**row, "services": tuple(row["services"])}) for row in self._all("text_models")]

    def waiting_attempt(self, generation_id: UUID) -> int | None:
        rows = self._all("waiting_attempt", generation_id=generation_id)
        return int(rows[0]["attempt"]) if rows else None

    def renew(
        self, generation: Generation, *, lease_s: int, text: str | None, first_token_at: datetime | None
    ) -> bool | None:
        rows = self._all(
            "renew",
            generation_id=generation.generation_id,
            attempt=generation.attempt,
            lease_s=lease_s,
            text=text,
            first_token_at=first_token_at,
        )
        return bool(rows[0]["is_cancelled"]) if rows else None

    def is_cancelled(self, generation: Generation) -> bool:
        rows = self._all("is_cancelled", generation_id=generation.generation_id, attempt=generation.attempt)
        return not rows or bool(rows[0]["is_cancelled"])

    def move_model(
        self, generation: Generation, *, provider: str, model_id: str, cost: Cost, limits: GuardLimits
    ) -> bool:
        parameters = {
            "generation_id": generation.generation_id,
            "attempt": generation.attempt,
            "provider": provider,
            "model_id": model_id,
            "input_cost": cost.input,
            "output_cost": cost.output,
            "model_limit": limits.model[tier_of(generation.lane)],
        }
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_claims"])
            return tx.run(SQL["move_model"], parameters) == 1

    def wake(self, *, lane: str | None, age_s: float, parallelism: int, limit: int) -> int:
        parameters = {"lane": lane, "age_s": age_s, "parallelism": parallelism, "limit": limit}
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["wake_lane"], parameters)
            self._outbox.publish(tx, [messages.wake_up(**row) for row in rows])
        return len(rows)

    def lane_load(self, lane: str, *, window_s: int) -> LaneLoad:
        return LaneLoad(**self._all("lane_load", lane=lane, window_s=window_s)[0])

    def expired_leases(self, *, limit: int) -> Sequence[Overdue]:
        return [Overdue(**row) for row in self._all("expired_leases", limit=limit)]

    def unfinished_cancels(self, *, limit: int) -> Sequence[Overdue]:
        return [Overdue(**row) for row in self._all("unfinished_cancels", limit=limit)]

    def orphan_holds(self, *, limit: int) -> Sequence[tuple[UUID, UUID, UUID]]:
        rows = self._all("orphan_holds", limit=limit)
        return [(row["tenant_id"], row["user_id"], row["hold_id"]) for row in rows]

    def search(self, wanted: GenerationFilter, *, before: UUID | None, limit: int) -> Sequence[Generation]:
        return [_generation(row) for row in self._all("page", **asdict(wanted), before=before, limit=limit)]

    def tenant_of(self, generation_id: UUID) -> UUID | None:
        rows = self._all("generation", generation_id=generation_id)
        return rows[0]["tenant_id"] if rows else None

    def _all(self, query: str, **parameters: Any) -> list[Row]:
        with self._database.service_transaction() as tx:
            return tx.all(SQL[query], parameters)


def _scope(refusal: Row) -> Scope:
    if refusal["is_paused"]:
        return Scope.PAUSED
    if refusal["is_full"]:
        return Scope.LANE
    return Scope.GUARD if refusal["has_due"] else Scope.DELAY


def _found(row: Row | None) -> Generation | None:
    return _generation(row) if row else None


def _generation(row: Row) -> Generation:
    source = row["usage_source"]
    return Generation(
        tenant_id=row["tenant_id"],
        generation_id=row["generation_id"],
        user_id=row["user_id"],
        service=row["service"],
        lane=row["lane"],
        is_free=row["is_free"],
        status=Status(row["status"]),
        attempt=row["attempt"],
        failures=row["failures"],
        input=row["input"],
        params=row["params"],
        max_tokens=row["max_tokens"],
        input_tokens=row["input_tokens"],
        price=Price(row["input_price"], row["output_price"]),
        price_points=row["price_points"],
        charged_points=row["charged_points"],
        allowance_day=row["allowance_day"],
        provider=row["provider"],
        model_id=row["model_id"],
        text=row["text"],
        result=row["result"],
        usage=None if source is None else Usage(row["used_input"], row["used_output"]),
        usage_source=None if source is None else UsageSource(source),
        finish_reason=row["finish_reason"],
        error=None if row["error"] is None else Failure(**row["error"]),
        trace_id=row["trace_id"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        first_token_at=row["first_token_at"],
        ended_at=row["ended_at"],
        cancel_requested_at=row["cancel_requested_at"],
        chain=None if row["chain"] is None else Chain.parsed(row["chain"]),
        cost=Cost(row["input_cost"], row["output_cost"]),
    )


def _jsonb(value: Mapping[str, Any] | None) -> Jsonb | None:
    return None if value is None else Jsonb(value)
