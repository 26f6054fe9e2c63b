"""Texts: the services, submissions, their status and text, and cancels."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AwareDatetime, Field

from artiway import bootstrap
from artiway.errors import NotFound
from artiway.ids import from_wire, to_wire
from artiway.platform import http

if TYPE_CHECKING:
    from uuid import UUID

    from artiway.generations.feed.model import Usage
    from artiway.generations.model import Failure, Generation, StageState, Status
else:
    # The values on the wire. The enum is imported with the services, at the first request.
    Status = Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]

api = http.Api("generations", origin=bootstrap.origin, access_check=bootstrap.access_check, warm_up=bootstrap.warm_up)
handler = api.handler

Lane = Literal["paid_stream", "free_stream", "paid_batch", "free_batch", "paid_vision", "free_vision"]


class TokenPriceBody(http.Wire):
    input: int
    output: int


class ServiceBody(http.Wire):
    service: str
    mode: Literal["stream", "batch", "vision"]
    title: dict[str, str] = Field(description="by language: en, zh")
    price_points: TokenPriceBody = Field(description="for 1,000 tokens")
    input: dict[str, Any] = Field(description="JSON Schema")
    params: dict[str, Any] = Field(description="JSON Schema")
    max_tokens: int = Field(description="tokens of a text whose caller asks for no length")
    most_tokens: int = Field(description="tokens that a caller can ask for")


class ServicesBody(http.Wire):
    items: list[ServiceBody]
    next_cursor: str | None


class GenerationInputBody(http.Wire):
    text: str | None = Field(default=None, max_length=200_000)
    input_id: str | None = Field(default=None, max_length=64)


class GenerationRequestBody(http.Wire):
    service: str = Field(min_length=1, max_length=64)
    input: GenerationInputBody
    params: dict[Annotated[str, Field(max_length=64)], Any] = Field(default_factory=dict, max_length=32)
    lane: Lane | None = Field(default=None, description="a lower lane for anyone, a higher one with ops.write")
    max_tokens: int | None = Field(default=None, ge=1, le=128_000, strict=True)
    paid: bool | None = Field(
        default=None, description="simulates the quota: true needs points, false uses the free allowance"
    )


class HintBody(http.Wire):
    dependency: str = Field(description="the service that runs first")
    next: list[Literal["STREAMING", "COMPLETED"]]


class AcceptedGenerationBody(http.Wire):
    generation_id: str
    status: Status
    hint: HintBody | None = Field(default=None, description="of a chained service")
    queue_id: str = Field(description="the lane")
    is_free: bool
    price_points: int = Field(description="held for the longest text; what is not used is released")
    events_url: str


class FaultBody(http.Wire):
    code: str
    message: str


class TokenUsageBody(http.Wire):
    input_tokens: int
    output_tokens: int


class StageBody(http.Wire):
    service: str
    status: Status
    provider: str | None
    model_id: str | None
    result: dict[str, Any] | None
    usage: TokenUsageBody | None
    error: FaultBody | None


class GenerationBody(http.Wire):
    generation_id: str
    user_id: str
    service: str
    status: Status
    queue_id: str
    is_free: bool
    provider: str
    model_id: str
    attempt: int
    text: str = Field(description="so far; of a running text some seconds old")
    result: dict[str, Any] | None
    usage: TokenUsageBody | None
    usage_source: Literal["provider", "estimated"] | None
    price_points: int
    charged_points: int
    trace_id: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error: FaultBody | None = Field(description="why it failed; of a waiting text why its last attempt did")
    stages: list[StageBody] = Field(description="of a chained service, in order; the second fails with the first")


class GenerationsBody(http.Wire):
    items: list[GenerationBody]
    next_cursor: str | None


class GenerationStatusBody(http.Wire):
    generation_id: str
    status: Status


@api.get("/services")
def list_services(cursor: http.Cursor = None, limit: http.Limit = 50) -> ServicesBody:
    """The services that write texts, with the prices and limits in force."""
    services, following = http.page_of(bootstrap.generations().services(), cursor, limit)
    return ServicesBody(
        items=[
            ServiceBody(
                service=service.name,
                mode=service.mode.value,
                title=dict(service.title),
                price_points=TokenPriceBody(input=service.price.input, output=service.price.output),
                input=service.input_schema,
                params=service.params_schema,
                max_tokens=service.usual_tokens,
                most_tokens=service.most_tokens,
            )
            for service in services
        ],
        next_cursor=following,
    )


@api.post("/generations", permission="task.submit", status=202, errors=[402, 404], idempotent=True)
def submit_generation(body: GenerationRequestBody) -> tuple[AcceptedGenerationBody, int]:
    """Submit a text. Points for the longest text are held now, and those that it used are charged at its end."""
    from artiway.generations.model import Wishes

    wishes = Wishes(
        service=body.service,
        input=body.input.model_dump(by_alias=True, exclude_none=True),
        params=body.params,
        max_tokens=body.max_tokens,
        lane=body.lane,
        is_paid=body.paid,
        may_raise="ops.write" in api.identity.permissions,
    )
    accepted = bootstrap.generations().submit(
        tenant_id=api.identity.tenant_id, user_id=api.identity.user_id, wishes=wishes
    )
    return (
        AcceptedGenerationBody(
            generation_id=accepted.wire_id,
            status=accepted.shown_status,
            hint=None
            if accepted.chain is None
            else HintBody(dependency=accepted.chain.dependency, next=["STREAMING", "COMPLETED"]),
            queue_id=accepted.lane,
            is_free=accepted.is_free,
            price_points=accepted.price_points,
            events_url=f"/api/v1/generations/{accepted.wire_id}/events",
        ),
        202,
    )


@api.get("/generations", permission="task.read")
def list_generations(
    user_id: Annotated[str | None, Query(alias="userId", max_length=64)] = None,
    status: Status | None = None,
    service: Annotated[str | None, Query(max_length=64)] = None,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> GenerationsBody:
    """The tenant's generations, newest first."""
    from artiway.generations.model import GenerationFilter
    from artiway.generations.model import Status as Found

    try:
        wanted = GenerationFilter(
            user_id=None if user_id is None else from_wire("usr", user_id),
            status=None if status is None else Found(status),
            service=service,
            since=since,
            until=until,
        )
    except NotFound:  # nobody has such an id
        return GenerationsBody(items=[], next_cursor=None)
    found = bootstrap.generations().list(
        tenant_id=api.identity.tenant_id, wanted=wanted, before=http.place_of(cursor), limit=limit + 1
    )
    following = found[limit - 1].generation_id if len(found) > limit else None
    return GenerationsBody(items=[_body(one) for one in found[:limit]], next_cursor=http.cursor_of(following))


@api.get("/generations/<generation_id>", permission="task.read", errors=[404])
def get_generation(generation_id: str) -> GenerationBody:
    """A generation with its text so far."""
    return _body(bootstrap.generations().get(tenant_id=api.identity.tenant_id, generation_id=_id(generation_id)))


@api.post("/generations/<generation_id>/cancel", permission="task.cancel", status=202, errors=[404, 409])
def cancel_generation(generation_id: str) -> tuple[GenerationStatusBody, int]:
    """Stop a text. What was delivered is charged, the rest of the points is released."""
    from artiway.generations.model import Requester

    requester = Requester(api.identity.user_id, may_manage="task.manage" in api.identity.permissions)
    found = bootstrap.generations().cancel(
        tenant_id=api.identity.tenant_id, generation_id=_id(generation_id), requester=requester
    )
    return GenerationStatusBody(generation_id=found.wire_id, status=found.shown_status), 202


def _id(text: str) -> UUID:
    from artiway.generations.model import PREFIX, NoSuchGeneration

    try:
        return from_wire(PREFIX, text)
    except NotFound:
        raise NoSuchGeneration from None


def _body(generation: Generation) -> GenerationBody:
    usage, error = generation.usage, generation.error
    source = generation.usage_source
    return GenerationBody(
        generation_id=generation.wire_id,
        user_id=to_wire("usr", generation.user_id),
        service=generation.service,
        status=generation.shown_status,
        queue_id=generation.lane,
        is_free=generation.is_free,
        provider=generation.provider,
        model_id=generation.model_id,
        attempt=generation.attempt,
        text=generation.text,
        result=None if generation.result is None else dict(generation.result),
        usage=_usage(usage),
        usage_source=None if source is None else source.value,
        price_points=generation.price_points,
        charged_points=generation.charged_points,
        trace_id=generation.trace_id,
        created_at=generation.created_at,
        started_at=generation.started_at,
        ended_at=generation.ended_at,
        error=_fault(error),
        stages=[_stage(stage) for stage in generation.stages],
    )


def _stage(stage: StageState) -> StageBody:
    found = stage.found
    return StageBody(
        service=stage.service,
        status=stage.status,
        provider=None if found is None else found.provider,
        model_id=None if found is None else found.model_id,
        result=None if found is None else dict(found.result),
        usage=None if found is None else _usage(found.usage),
        error=_fault(stage.error),
    )


def _usage(usage: Usage | None) -> TokenUsageBody | None:
    if usage is None:
        return None
    return TokenUsageBody(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


def _fault(error: Failure | None) -> FaultBody | None:
    return None if error is None else FaultBody(code=error.code, message=error.message)
