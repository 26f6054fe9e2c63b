"""A generation: one request for a text, the attempts at it and how it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.errors import ArtiwayError, Conflict, NotAllowed, NotFound, Refused, TooMany
from artiway.generations.feed.model import Cancelled, Done, End, Failed, Usage, UsageSource, sha256_of
from artiway.ids import to_wire

PREFIX = "gen"
PRICED_TOKENS = 1_000
ASCII_PER_TOKEN = 4


class Status(StrEnum):
    """`PENDING_OCR` is shown for a chain whose first stage has not ended. Its row is QUEUED or RUNNING."""

    PENDING_OCR = "PENDING_OCR"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDS = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class Mode(StrEnum):
    """How a service answers. It decides the lane and the function that serves it."""

    STREAM = "stream"
    BATCH = "batch"
    VISION = "vision"


@dataclass(frozen=True)
class Price:
    """Points per 1,000 tokens."""

    input: int = 0
    output: int = 0

    def points(self, usage: Usage) -> int:
        """At least one point, and rounded up: points are integers."""
        cost = usage.input_tokens * self.input + usage.output_tokens * self.output
        return max(1, math.ceil(cost / PRICED_TOKENS))

    def share(self, charged_points: int, part: Usage, total: Usage) -> int:
        """Of a charge for several stages, the points that one of them earned, rounded down."""
        whole = total.input_tokens * self.input + total.output_tokens * self.output
        cost = part.input_tokens * self.input + part.output_tokens * self.output
        return charged_points * cost // whole if whole else 0


@dataclass(frozen=True)
class Cost:
    """What a model costs us, in points per 1,000 tokens."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)

    def points(self, usage: Usage) -> Decimal:
        """Exact: a cost is never charged, only reported."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / PRICED_TOKENS


@dataclass(frozen=True)
class Call:
    """One request to a model, and the tokens that its provider charges for, also where no user is charged."""

    provider: str
    model_id: str
    cost: Cost
    usage: Usage
    usage_source: UsageSource


@dataclass(frozen=True)
class Failure:
    """Why a generation failed. The message is shown to the tenant."""

    code: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True)
class Found:
    """What the first stage of a chain delivered. Its tokens are part of the one bill."""

    result: Mapping[str, Any]
    usage: Usage
    usage_source: UsageSource
    provider: str
    model_id: str
    attempt: int

    def as_json(self) -> dict[str, Any]:
        return {
            "result": dict(self.result),
            "usage": [self.usage.input_tokens, self.usage.output_tokens],
            "usageSource": self.usage_source,
            "provider": self.provider,
            "modelId": self.model_id,
            "attempt": self.attempt,
        }

    @classmethod
    def parsed(cls, row: Mapping[str, Any]) -> Found:
        source = UsageSource(row["usageSource"])
        return cls(row["result"], Usage(*row["usage"]), source, row["provider"], row["modelId"], row["attempt"])


@dataclass(frozen=True)
class Chain:
    """The two stages of a chained text, which share one row: one hold, one stream, one end.

    `dependency` is the service of the first stage. The row has the lane and the tokens of the stage that it is in;
    `lane`, `input_tokens` (the worst case) and `max_tokens` are those of the second. `reserved_tokens` are of both.
    """

    dependency: str
    reserved_tokens: int
    lane: str
    input_tokens: int
    max_tokens: int
    found: Found | None = None

    def as_json(self) -> dict[str, Any]:
        row = {
            "dependency": self.dependency,
            "reservedTokens": self.reserved_tokens,
            "lane": self.lane,
            "inputTokens": self.input_tokens,
            "maxTokens": self.max_tokens,
        }
        return row if self.found is None else {**row, "found": self.found.as_json()}

    @classmethod
    def parsed(cls, row: Mapping[str, Any]) -> Chain:
        return cls(
            dependency=row["dependency"],
            reserved_tokens=row["reservedTokens"],
            lane=row["lane"],
            input_tokens=row["inputTokens"],
            max_tokens=row["maxTokens"],
            found=Found.parsed(row["found"]) if "found" in row else None,
        )


@dataclass(frozen=True)
class StageState:
    """A stage of a chain as its owner sees it."""

    service: str
    status: Status
    found: Found | None = None
    error: Failure | None = None


@dataclass(frozen=True)
class Generation:
    """A row. `attempt` is the fence: it rises with each claim, and messages of an older attempt change nothing.

    `failures` counts attempts that failed. `price_points` is the hold, none for a free text, whose tokens count against
    the allowance of `allowance_day`. `input_tokens` is the estimate by which the points were held. `cost` is that of
    the model of the last attempt.
    """

    tenant_id: UUID
    generation_id: UUID
    user_id: UUID
    service: str
    lane: str
    is_free: bool
    status: Status
    attempt: int
    failures: int
    input: Mapping[str, Any]
    params: Mapping[str, Any]
    max_tokens: int
    input_tokens: int
    price: Price
    price_points: int
    charged_points: int
    allowance_day: date | None
    provider: str
    model_id: str
    text: str
    result: Mapping[str, Any] | None
    usage: Usage | None
    usage_source: UsageSource | None
    finish_reason: str | None
    error: Failure | None
    trace_id: str
    created_at: datetime
    started_at: datetime | None
    first_token_at: datetime | None
    ended_at: datetime | None
    cancel_requested_at: datetime | None
    chain: Chain | None = None
    cost: Cost = Cost()

    @property
    def wire_id(self) -> str:
        return to_wire(PREFIX, self.generation_id)

    @property
    def is_ended(self) -> bool:
        return self.status in ENDS

    @property
    def is_in_first_stage(self) -> bool:
        """Of a chain, and its first stage has not delivered. An ended one failed or was cancelled there."""
        return self.chain is not None and self.chain.found is None

    @property
    def first_attempt(self) -> int:
        """The first attempt that can have text: none of a chain's first stage has."""
        if self.chain is None:
            return 1
        return self.attempt if self.chain.found is None else self.chain.found.attempt + 1

    @property
    def shown_status(self) -> Status:
        return Status.PENDING_OCR if self.is_in_first_stage and not self.is_ended else self.status

    @property
    def reserved_tokens(self) -> int:
        """The worst case of all stages, which is held or reserved in the allowance."""
        return self.input_tokens + self.max_tokens if self.chain is None else self.chain.reserved_tokens

    @property
    def wanted_tokens(self) -> int:
        """The longest text that the caller asked for."""
        return self.max_tokens if self.chain is None else self.chain.max_tokens

    @property
    def stages(self) -> tuple[StageState, ...]:
        """Both stages of a chain; the second ends with the first."""
        if self.chain is None:
            return ()
        is_failed_first = self.is_in_first_stage and self.is_ended
        first = Status.COMPLETED if self.chain.found else self.status
        return (
            StageState(self.chain.dependency, first, self.chain.found, self.error if is_failed_first else None),
            StageState(self.service, self.shown_status, error=self.error if self.is_ended else None),
        )


@dataclass(frozen=True)
class Rules:
    """How long and how often a text is tried. `provider_wait_s` bounds the wait for busy or absent providers."""

    attempts: int
    provider_wait_s: int
    lease_s: int
    snapshot_s: int
    backoff_s: int


@dataclass(frozen=True)
class GuardLimits:
    """Texts at once: in a lane without a parallelism of its own, of a user, and of a model by tier (paid, free)."""

    parallelism: int
    user: int
    model: Mapping[str, int]


@dataclass(frozen=True)
class TextModel:
    """A model that texts may use, as `provider/model`. `limit` counts texts of both tiers at once; None: no limit."""

    model: str
    services: tuple[str, ...]
    limit: int | None
    running: int
    waiting: int

    @property
    def wire_name(self) -> str:
        """A slash would end the name inside a path."""
        return self.model.replace("/", ":")


def tier_of(lane: str) -> str:
    """`paid` or `free`."""
    return lane.partition("_")[0]


def estimated_tokens(text: str) -> int:
    """About as many tokens as common models count: four ASCII characters are one, every other character is one."""
    ascii_count = sum(character.isascii() for character in text)
    return math.ceil(ascii_count / ASCII_PER_TOKEN) + len(text) - ascii_count


def end_of(generation: Generation) -> End:
    """The last event of an ended generation. The row has all of it, so a reader needs no Redis."""
    facts: dict[str, Any] = {
        "characters": len(generation.text),
        "sha256": sha256_of(generation.text),
        "points": generation.charged_points,
        "usage": generation.usage,
        "usage_source": generation.usage_source,
    }
    if generation.status is Status.COMPLETED:
        return Done(**facts, finish_reason=generation.finish_reason or "stop")
    if generation.status is Status.CANCELLED:
        return Cancelled(**facts)
    error = generation.error or Failure(FailureCode.INTERNAL, "the generation failed")
    return Failed(**facts, code=error.code, message=error.message)


@dataclass(frozen=True)
class NewGeneration:
    """A free text has no hold; its tokens count against the allowance of a day."""

    generation_id: UUID
    user_id: UUID
    service: str
    lane: str
    input: Mapping[str, Any]
    params: Mapping[str, Any]
    max_tokens: int
    input_tokens: int
    price: Price
    price_points: int
    allowance_day: date | None
    chain: Chain | None = None

    @property
    def is_free(self) -> bool:
        return self.allowance_day is not None

    @property
    def worst_case(self) -> Usage:
        """Of all stages."""
        if self.chain is None:
            return Usage(self.input_tokens, self.max_tokens)
        return Usage(self.input_tokens + self.chain.input_tokens, self.max_tokens + self.chain.max_tokens)

    @property
    def reserved_tokens(self) -> int:
        return self.worst_case.input_tokens + self.worst_case.output_tokens

    @property
    def lanes(self) -> tuple[str, ...]:
        """In the order in which the text waits in them."""
        return (self.lane,) if self.chain is None else (self.lane, self.chain.lane)


@dataclass(frozen=True)
class GenerationFilter:
    user_id: UUID | None = None
    status: Status | None = None
    service: str | None = None
    lane: str | None = None
    tenant_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class LaneLoad:
    """The waiting texts of a lane. `depth` is counted up to one more than the limit."""

    depth: int
    depth_limit: int
    ended_lately: int


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended the generation."""

    status: Status
    text: str = ""
    usage: Usage | None = None
    usage_source: UsageSource | None = None
    finish_reason: str | None = None
    failure: Failure | None = None
    result: Mapping[str, Any] | None = None
    first_token_at: datetime | None = None

    @property
    def used_tokens(self) -> int:
        """Tokens that count against points and allowance: none of a text that failed or has nothing."""
        if self.status is Status.FAILED or self.usage is None or not (self.text or self.usage.output_tokens):
            return 0
        return self.usage.input_tokens + self.usage.output_tokens

    def after(self, chain: Chain | None) -> Outcome:
        """The outcome of the whole chain: the tokens of a first stage that delivered are part of it."""
        if chain is None:
            return self
        if chain.found is None:
            if self.failure is None:
                return self
            message = f"{chain.dependency} failed: {self.failure.message}"
            return replace(self, failure=Failure(self.failure.code, message))
        first = chain.found
        if self.usage is None or self.usage_source is None:
            return replace(self, usage=first.usage, usage_source=first.usage_source)
        is_counted = {self.usage_source, first.usage_source} == {UsageSource.PROVIDER}
        total = Usage(
            first.usage.input_tokens + self.usage.input_tokens, first.usage.output_tokens + self.usage.output_tokens
        )
        return replace(self, usage=total, usage_source=UsageSource.PROVIDER if is_counted else UsageSource.ESTIMATED)

    def charge(self, price: Price, *, hold_points: int) -> int:
        """Never more than the hold, and nothing where nothing was delivered."""
        if self.usage is None or not self.used_tokens:
            return 0
        return min(hold_points, price.points(self.usage))


@dataclass(frozen=True)
class Wishes:
    """What a caller asks for. `is_paid` simulates the choice of quota: True needs points, False the free allowance.

    A higher lane than the caller's own needs `may_raise`.
    """

    service: str
    input: Mapping[str, Any]
    params: Mapping[str, Any]
    max_tokens: int | None = None
    lane: str | None = None
    is_paid: bool | None = None
    may_raise: bool = False


@dataclass(frozen=True)
class Handled:
    """What became of one id: the generation after the change, or the error."""

    generation_id: UUID
    generation: Generation | None = None
    error: ArtiwayError | None = None


class Scope(StrEnum):
    """What refused a text for now. Readers see it in the event `backpressure`."""

    PAUSED = "lane_paused"
    LANE = "lane"
    GUARD = "user_or_model"
    DELAY = "delay"
    PROVIDER = "provider"


@dataclass(frozen=True)
class Refusal:
    scope: Scope


@dataclass(frozen=True)
class Overdue:
    """An attempt whose lease has ended, or a waiting text whose cancel was requested."""

    tenant_id: UUID
    generation_id: UUID
    attempt: int


# --- errors


class NoSuchGeneration(NotFound):
    code = "GEN_404_UNKNOWN"

    def __init__(self) -> None:
        super().__init__("there is no such generation")


class NoSuchService(NotFound):
    code = "GEN_404_SERVICE"

    def __init__(self, service: str) -> None:
        super().__init__("there is no such service", service=service[:64])


class PromptTooLarge(Refused):
    code = "GEN_422_PROMPT_TOO_LARGE"

    def __init__(self, *, tokens: int, limit: int) -> None:
        super().__init__("the input is too long", tokens=tokens, limit=limit)


class InvalidGeneration(Refused):
    """A field of the request, and the reason why it is not valid."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__("the request is not valid", fields=[{"field": name, "reason": reason}])


class LaneNotAllowed(NotAllowed):
    code = "GEN_403_LANE"

    def __init__(self, lane: str) -> None:
        super().__init__("this lane needs the permission ops.write", lane=lane)


class LaneFull(TooMany):
    """Texts of all tenants wait in the lane, up to its limit."""

    code = "GEN_429_LANE_FULL"


class TenantQueueFull(TooMany):
    """The tenant has as many unfinished texts as its queue depth allows."""

    code = "GEN_429_TENANT_FULL"


class GenerationEnded(Conflict):
    code = "GEN_409_ENDED"

    def __init__(self, status: Status) -> None:
        super().__init__("the generation has ended", status=status)


class NotRetryable(Conflict):
    """A retry is a new generation with the same request, so that each has one end."""

    code = "GEN_409_NOT_RETRYABLE"

    def __init__(self, status: Status) -> None:
        super().__init__("only a failed generation can be retried", status=status)


class ColleaguesGeneration(NotAllowed):
    """Of another user of the tenant, for which `task.manage` is needed."""

    def __init__(self) -> None:
        super().__init__("this is a generation of another user", permission="task.manage")


@dataclass(frozen=True)
class Requester:
    """The user who wants to change a generation. With `may_manage` also those of other users."""

    user_id: UUID
    may_manage: bool

    def must_control(self, generation: Generation) -> None:
        if generation.user_id != self.user_id and not self.may_manage:
            raise ColleaguesGeneration


class FailureCode(StrEnum):
    """Ends that are not the provider's, whose codes are in `providers.model`."""

    WORKER_LOST = "GEN_500_WORKER_LOST"
    INTERNAL = "GEN_500_INTERNAL"
    INVALID = "GEN_422_INVALID"
    PICTURE = "GEN_422_PICTURE"
    WAITED_TOO_LONG = "GEN_504_WAITED_TOO_LONG"
