"""The margin of texts: what providers cost, and what users were charged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from uuid import UUID

from artiway.errors import Refused
from artiway.generations.feed.model import UsageSource
from artiway.generations.model import Call, Generation, Status
from artiway.usage.model import day_range

DIMENSIONS = ("day", "model", "service", "tenant", "user")
DEFAULT_GROUPS = "day,model"


@dataclass(frozen=True)
class UsedModel:
    """What one model did for one user: the columns of a row, to be added to those of the day.

    `estimated_calls` and `estimated_tokens` are the part that the provider did not count itself.
    """

    provider: str
    model_id: str
    calls: int = 0
    estimated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0
    cost_points: Decimal = Decimal(0)
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    free_texts: int = 0
    charged_points: int = 0


def used_models(calls: Iterable[Call], ended: Generation | None = None) -> list[UsedModel]:
    """The rows of an attempt's calls and, if the text has ended with it, of what was charged. No model twice."""
    rows: dict[tuple[str, str], UsedModel] = {}

    def row(provider: str, model_id: str) -> UsedModel:
        return rows.get((provider, model_id)) or UsedModel(provider, model_id)

    for call in calls:
        is_estimated = call.usage_source is UsageSource.ESTIMATED
        read, written = call.usage.input_tokens, call.usage.output_tokens
        before = row(call.provider, call.model_id)
        rows[call.provider, call.model_id] = replace(
            before,
            calls=before.calls + 1,
            estimated_calls=before.estimated_calls + is_estimated,
            input_tokens=before.input_tokens + read,
            output_tokens=before.output_tokens + written,
            estimated_tokens=before.estimated_tokens + is_estimated * (read + written),
            cost_points=before.cost_points + call.cost.points(call.usage),
        )
    if ended is None:
        return list(rows.values())
    for (provider, model_id), points in _earned(ended).items():
        before = row(provider, model_id)
        rows[provider, model_id] = replace(before, charged_points=before.charged_points + points)
    last = row(ended.provider, ended.model_id)
    rows[ended.provider, ended.model_id] = replace(
        last,
        completed=int(ended.status is Status.COMPLETED),
        failed=int(ended.status is Status.FAILED),
        cancelled=int(ended.status is Status.CANCELLED),
        free_texts=int(ended.is_free),
    )
    return list(rows.values())


def _earned(ended: Generation) -> dict[tuple[str, str], int]:
    """The charge by model. A chain has one charge, which its stages share by what each of them used of it."""
    points = ended.charged_points
    if not points:
        return {}
    last = (ended.provider, ended.model_id)
    found = None if ended.chain is None else ended.chain.found
    if found is None or ended.usage is None or (found.provider, found.model_id) == last:
        return {last: points}
    first = ended.price.share(points, found.usage, ended.usage)
    return {(found.provider, found.model_id): first, last: points - first}


# --- the report


@dataclass(frozen=True)
class MarginQuery:
    """Days in UTC, the last one included. `model` is `provider/model`."""

    first: date
    last: date
    by: frozenset[str]
    tenant_id: UUID | None = None
    service: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class Margin:
    """Sums of usage."""

    calls: int = 0
    estimated_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0
    cost_points: Decimal = Decimal(0)
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    free_texts: int = 0
    charged_points: int = 0

    @property
    def margin_points(self) -> Decimal:
        return self.charged_points - self.cost_points


@dataclass(frozen=True)
class MarginLine:
    """A field that was not asked for is None, and so is the model of texts that reached none."""

    day: date | None
    model: str | None
    service: str | None
    tenant_id: UUID | None
    tenant_name: str | None
    user_id: UUID | None
    email: str | None
    margin: Margin


@dataclass(frozen=True)
class MarginReport:
    lines: list[MarginLine]
    total: Margin


def margin_query(
    *,
    first: date | None,
    last: date | None,
    today: date,
    by: str,
    tenant_id: UUID | None = None,
    service: str | None = None,
    model: str | None = None,
) -> MarginQuery:
    """Raises Refused for an unknown group, and for a range that is too long or reversed."""
    since, until = day_range(first, last, today)
    groups = frozenset(part.strip() for part in by.split(",") if part.strip())
    if unknown := groups - set(DIMENSIONS):
        reason = f"unknown: {min(unknown)}; known are {', '.join(DIMENSIONS)}"
        raise Refused("the request is not valid", fields=[{"field": "groupBy", "reason": reason}])
    return MarginQuery(since, until, groups, tenant_id, service, model)
