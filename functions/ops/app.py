"""Operations: lanes, texts, models, workers, scheduler, dead letters, audit log, series, settings, cache, health."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

from artiway import bootstrap
from artiway.audit.model import AuditEntry, AuditFilter
from artiway.circuits.model import StoppedSteps
from artiway.errors import NotFound
from artiway.ids import from_wire, to_wire
from artiway.jobs.definitions.model import RunFilter, RunOfTenant
from artiway.jobs.guard.model import NO_TENANT, CircuitState, RunHealth
from artiway.jobs.model import RunKind, RunState, TaskType
from artiway.platform import http
from artiway.recovery.model import DeadLetter
from artiway.scheduling.model import Choice, LaneChange, LaneState, ModelState, TenantPolicy, Waits, WorkerState
from artiway.series.model import OTHER, SERIES, Point
from artiway.settings.model import SettingState

if TYPE_CHECKING:
    from artiway.generations.margins.model import Margin, MarginLine
    from artiway.generations.model import Generation, Handled, TextModel

api = http.Api("operations", origin=bootstrap.origin, access_check=bootstrap.access_check, warm_up=bootstrap.warm_up)
handler = api.handler

PoolName = Literal["gpu", "enterprise"]
GenerationStatus = Literal["PENDING_OCR", "QUEUED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]


def _node_type(name: str) -> str:
    known = bootstrap.catalogue().types
    if name not in known:
        raise ValueError(f"unknown; known are {', '.join(known)}")
    return name


NodeType = Annotated[str, AfterValidator(_node_type)]
SECOND_US = 1_000_000
DIFFERENCES_LIMIT = 10_000
# The dead letters of runs are rows, beside the queues of SQS.
DEAD_RUNS = "runs"
TEXT_POOL = "text"
RUN_ID = re.compile(r"run_[0-9a-f]{32}")
Window = Annotated[int, Query(alias="windowSeconds", ge=60, le=7_200)]


class LaneBody(http.Wire):
    lane: str
    pool: str
    depth: int = Field(description="nodes or texts that wait; in a lane of runs, runs that are due")
    running: int = Field(description="nodes that hold a slot; runs and texts that run")
    parallelism: int | None
    share_percent: int | None = Field(description="of the pool's slots")
    paused: bool
    limit: int = Field(description="depth beyond which submissions are refused")


class LanesBody(http.Wire):
    items: list[LaneBody]
    next_cursor: str | None


class LaneChangeBody(http.Wire):
    """A field that is left out does not change. A null restores the lane's default."""

    parallelism: int | None = Field(default=None, ge=0, le=1_000_000, description="0: nothing runs; null: no limit")
    share_percent: int | None = Field(default=None, ge=1, le=100, description="of the pool's slots")
    limit: int | None = Field(default=None, ge=0, le=1_000_000, description="depth")
    paused: bool | None = Field(default=None, description="null does not change it")


class PauseBody(http.Wire):
    reason: str | None = Field(default=None, max_length=500)


class ModelLoadBody(http.Wire):
    pool: str
    running: int
    waiting: int


class ModelBody(http.Wire):
    model: str = Field(description="of texts: the provider and its model, joined by a colon")
    steps: list[str] = Field(description="steps of the catalogue that use it")
    services: list[str] = Field(description="services of texts that use it")
    limit: int | None = Field(description="nodes at once in each pool, or texts at once; null: no limit")
    running: int
    waiting: int
    pools: list[ModelLoadBody]


class ModelsBody(http.Wire):
    items: list[ModelBody]
    next_cursor: str | None


class OpsGenerationBody(http.Wire):
    generation_id: str
    tenant_id: str
    user_id: str
    service: str
    status: GenerationStatus
    queue_id: str
    is_free: bool
    provider: str
    model_id: str
    attempt: int
    characters: int
    charged_points: int
    trace_id: str
    created_at: datetime
    started_at: datetime | None
    first_token_at: datetime | None
    ended_at: datetime | None
    error_code: str | None


class OpsGenerationsBody(http.Wire):
    items: list[OpsGenerationBody]
    next_cursor: str | None


class GenerationIdsBody(http.Wire):
    ids: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=100)


class HandledGenerationBody(http.Wire):
    id: str
    generation_id: str | None = Field(description="a retry is a new generation")
    status: GenerationStatus | None
    error_code: str | None


class HandledGenerationsBody(http.Wire):
    results: list[HandledGenerationBody]


class ModelLimitBody(http.Wire):
    limit: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        description="nodes at once in each pool; 0: nothing runs; null: no limit"
    )


class RunnerUpBody(http.Wire):
    tenant_id: str
    tag: float = Field(description="virtual time in seconds")


class DecisionBody(http.Wire):
    at: datetime
    pool: str
    task_id: str | None
    node: str | None = Field(description="its name in the task")
    tenant_id: str
    user_id: str
    type: str
    lane: str
    model: str | None
    charged_seconds: float
    tag: float = Field(description="virtual time in seconds")
    runner_up: RunnerUpBody | None = Field(description="the next tenant whose node could have run")
    reason: Literal["only_candidate", "smallest_tag", "tie_earlier_arrival"]
    detail: str


class DecisionsBody(http.Wire):
    items: list[DecisionBody]
    next_cursor: str | None


class TenantClockBody(http.Wire):
    tenant_id: str
    weight: int
    last_vft: float = Field(description="virtual time in seconds")
    queued: int
    running: int
    cap: int | None


class PoolBody(http.Wire):
    pool: str
    gvt: float = Field(description="virtual time in seconds")
    slots: int = Field(description="of all node types, a little prefetch included")
    slots_by_type: dict[str, int]
    running: int
    tenants: list[TenantClockBody]


class SchedulerBody(http.Wire):
    pools: list[PoolBody]


class ShareBody(http.Wire):
    tenant_id: str
    weight: int
    service: float = Field(description="GPU seconds")
    share: float
    ideal_share: float
    is_contending: bool = Field(description="had waiting work during the whole window; only these are compared")


class PairBody(http.Wire):
    tenants: list[str]
    gap: float = Field(description="difference of GPU seconds per weight")
    bound: float


class FairnessBody(http.Wire):
    tenants: list[ShareBody]
    bound: float = Field(description="the largest difference that any pair may show, in GPU seconds per weight")
    worst: float = Field(description="the largest difference of a pair; 0 if no pair is compared")
    worst_pair: PairBody | None
    jain: float = Field(description="Jain's index; 1 is perfectly fair")


class WhatIfTenantBody(http.Wire):
    """A field that is not given does not change."""

    tenant_id: str = Field(max_length=64)
    weight: int | None = Field(default=None, ge=1, le=1_000)
    concurrency: int | None = Field(default=None, ge=0, le=100_000)


class WhatIfPoolBody(http.Wire):
    slots: dict[NodeType, Annotated[int, Field(ge=0, le=100_000)]] = Field(description="workers' slots by node type")


class WhatIfBody(http.Wire):
    tenants: list[WhatIfTenantBody] = Field(default_factory=list, max_length=100)
    pools: dict[PoolName, WhatIfPoolBody] = Field(default_factory=dict)


class SimulateBody(http.Wire):
    changes: WhatIfBody
    window_seconds: int = Field(default=3_600, ge=60, le=7_200)


class WaitsBody(http.Wire):
    started: int
    unstarted: int
    mean_seconds: float
    worst_seconds: float


class TenantComparisonBody(http.Wire):
    tenant_id: str
    pool: str
    before: WaitsBody
    after: WaitsBody


class SimulationBody(http.Wire):
    tenants: list[TenantComparisonBody]


class WorkerNodeBody(http.Wire):
    task_id: str
    tenant_id: str
    node: str
    type: str
    attempt: int
    started_at: datetime


class WorkerBody(http.Wire):
    worker_id: str
    pool: str
    types: list[str]
    slots: int
    engine: str
    draining: bool = Field(description="takes no new node; its slots do not count")
    nodes: list[WorkerNodeBody] = Field(description="that it runs now")
    registered_at: datetime
    last_beat_at: datetime


class WorkersBody(http.Wire):
    items: list[WorkerBody]
    next_cursor: str | None


@api.get("/ops/lanes", permission="ops.read")
def list_lanes(cursor: http.Cursor = None, limit: http.Limit = 50) -> LanesBody:
    """Every lane: waiting nodes or runs, running ones, its settings."""
    lanes, next_cursor = http.page_of(bootstrap.operations().lanes(), cursor, limit)
    return LanesBody(items=[_lane(lane) for lane in lanes], next_cursor=next_cursor)


@api.patch("/ops/lanes/<lane>", permission="ops.write")
def change_lane(lane: str, body: LaneChangeBody) -> LaneBody:
    """Change parallelism, share or limit at once, without a deployment. A null restores the default."""
    given = body.model_fields_set
    change: LaneChange = {}
    if body.paused is not None:
        change["is_paused"] = body.paused
    if "parallelism" in given:
        change["parallelism"] = body.parallelism
    if "share_percent" in given:
        change["share_percent"] = body.share_percent
    if "limit" in given:
        change["depth_limit"] = body.limit
    return _changed(lane, change)


@api.post("/ops/lanes/<lane>/pause", permission="ops.write")
def pause_lane(lane: str, body: PauseBody | None = None) -> LaneBody:
    """Pause dispatch from this lane. It accepts nodes up to its limit. The audit log keeps the reason."""
    return _changed(lane, LaneChange(is_paused=True), reason=body.reason if body else None)


@api.post("/ops/lanes/<lane>/resume", permission="ops.write")
def resume_lane(lane: str) -> LaneBody:
    """Resume dispatch from this lane."""
    return _changed(lane, LaneChange(is_paused=False))


@api.get("/ops/generations", permission="ops.read")
def list_generations(
    tenant_id: Annotated[str | None, Query(alias="tenantId", max_length=64)] = None,
    user_id: Annotated[str | None, Query(alias="userId", max_length=64)] = None,
    status: GenerationStatus | None = None,
    service: Annotated[str | None, Query(max_length=64)] = None,
    lane: Annotated[str | None, Query(max_length=64)] = None,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> OpsGenerationsBody:
    """Texts of all tenants, newest first. The texts themselves are not shown."""
    from artiway.generations.model import GenerationFilter, Status

    try:
        wanted = GenerationFilter(
            tenant_id=None if tenant_id is None else from_wire("tnt", tenant_id),
            user_id=None if user_id is None else from_wire("usr", user_id),
            status=None if status is None else Status(status),
            service=service,
            lane=lane,
            since=since,
            until=until,
        )
    except NotFound:  # nobody has such an id
        return OpsGenerationsBody(items=[], next_cursor=None)
    found = bootstrap.generation_operations().search(wanted, before=http.place_of(cursor), limit=limit + 1)
    following = found[limit - 1].generation_id if len(found) > limit else None
    items = [_ops_generation(one) for one in found[:limit]]
    return OpsGenerationsBody(items=items, next_cursor=http.cursor_of(following))


@api.post("/ops/generations/retry", permission="ops.write", status=202)
def retry_generations(body: GenerationIdsBody) -> tuple[HandledGenerationsBody, int]:
    """Submit failed texts again, each as a new generation of its user. One that cannot be retried has an error code."""
    found = bootstrap.generation_operations().retry(_generation_ids(body.ids), actor_id=api.identity.user_id)
    return HandledGenerationsBody(results=[_handled(one) for one in found]), 202


@api.post("/ops/generations/cancel", permission="ops.write", status=202)
def cancel_generations(body: GenerationIdsBody) -> tuple[HandledGenerationsBody, int]:
    """Stop texts of any tenant. What was delivered is charged."""
    found = bootstrap.generation_operations().cancel(_generation_ids(body.ids), actor_id=api.identity.user_id)
    return HandledGenerationsBody(results=[_handled(one) for one in found]), 202


def _generation_ids(texts: Sequence[str]) -> list[UUID]:
    """An id that cannot exist is refused as a whole: it is a mistake of the caller."""
    from artiway.generations.model import PREFIX

    return [from_wire(PREFIX, text) for text in texts]


def _handled(handled: Handled) -> HandledGenerationBody:
    changed = handled.generation
    return HandledGenerationBody(
        id=to_wire("gen", handled.generation_id),
        generation_id=None if changed is None else changed.wire_id,
        status=None if changed is None else changed.shown_status.value,
        error_code=None if handled.error is None else handled.error.code,
    )


def _ops_generation(generation: Generation) -> OpsGenerationBody:
    return OpsGenerationBody(
        generation_id=generation.wire_id,
        tenant_id=to_wire("tnt", generation.tenant_id),
        user_id=to_wire("usr", generation.user_id),
        service=generation.service,
        status=generation.shown_status.value,
        queue_id=generation.lane,
        is_free=generation.is_free,
        provider=generation.provider,
        model_id=generation.model_id,
        attempt=generation.attempt,
        characters=len(generation.text),
        charged_points=generation.charged_points,
        trace_id=generation.trace_id,
        created_at=generation.created_at,
        started_at=generation.started_at,
        first_token_at=generation.first_token_at,
        ended_at=generation.ended_at,
        error_code=None if generation.error is None else generation.error.code,
    )


class MarginSumBody(http.Wire):
    texts: int = Field(description="that ended: completed, failed and cancelled ones")
    completed: int
    failed: int
    cancelled: int
    free_texts: int = Field(description="of those, texts of the free allowance")
    calls: int = Field(description="requests to providers, repeated and failed ones too")
    estimated_calls: int = Field(description="of those, calls whose tokens the provider did not count")
    input_tokens: int
    output_tokens: int
    estimated_tokens: int = Field(description="of both, tokens that were estimated")
    cost_points: float = Field(description="tokens at the provider's prices, rounded to six places")
    charged_points: int = Field(description="as in the ledger")
    margin_points: float = Field(description="charged points less cost")


class MarginLineBody(MarginSumBody):
    day: date | None = Field(description="in UTC; null unless grouped by day, as the others")
    model: str | None = Field(description="`provider/model`; null for texts that reached no model")
    service: str | None
    tenant_id: str | None
    tenant_name: str | None
    user_id: str | None
    email: str | None


class MarginsBody(http.Wire):
    items: list[MarginLineBody]
    next_cursor: str | None
    since: date = Field(alias="from")
    until: date = Field(alias="to", description="inclusive")
    total: MarginSumBody


@api.get("/ops/margins", permission="ops.read", errors=[404], slow=True)
def list_margins(
    since: Annotated[date | None, Query(alias="from", description="30 days if left out")] = None,
    until: Annotated[date | None, Query(alias="to", description="inclusive; today in UTC if left out")] = None,
    group_by: Annotated[
        str, Query(alias="groupBy", max_length=40, description="of day, model, service, tenant, user")
    ] = "day,model",
    tenant_id: Annotated[str | None, Query(alias="tenantId", max_length=64)] = None,
    service: Annotated[str | None, Query(max_length=64)] = None,
    model: Annotated[str | None, Query(max_length=301, description="`provider/model`")] = None,
    cursor: http.Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 1_000,
) -> MarginsBody:
    """Cost of providers against points charged for texts, at most 92 days. `total` is of all lines."""
    from artiway.generations.margins.model import margin_query

    query = margin_query(
        first=since,
        last=until,
        today=bootstrap.clock().now().date(),
        by=group_by,
        tenant_id=None if tenant_id is None else from_wire("tnt", tenant_id),
        service=service,
        model=model,
    )
    report = bootstrap.margins().report(query)
    page, next_cursor = http.page_of(report.lines, cursor, limit)
    return MarginsBody(
        items=[_margin_line(line) for line in page],
        next_cursor=next_cursor,
        since=query.first,
        until=query.last,
        total=MarginSumBody(**_margin(report.total)),
    )


def _margin_line(line: MarginLine) -> MarginLineBody:
    return MarginLineBody(
        day=line.day,
        model=line.model,
        service=line.service,
        tenant_id=None if line.tenant_id is None else to_wire("tnt", line.tenant_id),
        tenant_name=line.tenant_name,
        user_id=None if line.user_id is None else to_wire("usr", line.user_id),
        email=line.email,
        **_margin(line.margin),
    )


def _margin(margin: Margin) -> dict[str, Any]:
    return {
        "texts": margin.completed + margin.failed + margin.cancelled,
        "completed": margin.completed,
        "failed": margin.failed,
        "cancelled": margin.cancelled,
        "free_texts": margin.free_texts,
        "calls": margin.calls,
        "estimated_calls": margin.estimated_calls,
        "input_tokens": margin.input_tokens,
        "output_tokens": margin.output_tokens,
        "estimated_tokens": margin.estimated_tokens,
        "cost_points": float(round(margin.cost_points, 6)),
        "charged_points": margin.charged_points,
        "margin_points": float(round(margin.margin_points, 6)),
    }


@api.get("/ops/models", permission="ops.read")
def list_models(cursor: http.Cursor = None, limit: http.Limit = 50) -> ModelsBody:
    """The models of the catalogue and of texts: limits, running and waiting nodes or texts."""
    texts = [_text_model(model) for model in bootstrap.text_models().all()]
    every = [*(_model(model) for model in bootstrap.operations().models()), *texts]
    models, next_cursor = http.page_of(every, cursor, limit)
    return ModelsBody(items=list(models), next_cursor=next_cursor)


@api.put("/ops/models/<model>", permission="ops.write")
def limit_model(model: str, body: ModelLimitBody) -> ModelBody:
    """Set how many nodes in each pool, or texts, of a model may run at once. Those that run are not stopped."""
    if ":" in model:
        return _text_model(bootstrap.text_models().limit(model, body.limit, actor_id=api.identity.user_id))
    return _model(bootstrap.operations().limit_model(model, body.limit, actor_id=api.identity.user_id))


@api.get("/ops/decisions", permission="ops.read")
def list_decisions(
    pool: PoolName | None = None,
    tenant_id: Annotated[str | None, Query(alias="tenantId", max_length=64)] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> DecisionsBody:
    """The last 1,000 choices of the fair queue, newest first: the chosen tenant, the runner-up and the reason."""
    place = http.place_of(cursor)
    try:
        tenant = None if tenant_id is None else str(from_wire("tnt", tenant_id))
    except NotFound:  # no decision is about it
        return DecisionsBody(items=[], next_cursor=None)
    choices, after = bootstrap.operations().decisions(
        pool=pool,
        tenant_id=tenant,
        after=None if place is None else place.int,
        limit=limit,
    )
    next_cursor = None if after is None else http.cursor_of(UUID(int=after))
    return DecisionsBody(items=[_decision(choice) for choice in choices], next_cursor=next_cursor)


@api.get("/ops/scheduler", permission="ops.read")
def get_scheduler() -> SchedulerBody:
    """The virtual clocks of the pools and their tenants."""
    return SchedulerBody(
        pools=[
            PoolBody(
                pool=state.pool,
                gvt=state.clock_us / SECOND_US,
                slots=sum(state.slots.values()),
                slots_by_type=dict(state.slots),
                running=state.running,
                tenants=[
                    TenantClockBody(
                        tenant_id=_tenant_word(tenant.policy.tenant_id),
                        weight=tenant.policy.weight,
                        last_vft=tenant.last_us / SECOND_US,
                        queued=tenant.waiting,
                        running=tenant.running,
                        cap=tenant.policy.cap,
                    )
                    for tenant in state.tenants
                ],
            )
            for state in bootstrap.operations().pools()
        ]
    )


@api.get("/ops/fairness", permission="ops.read", slow=True)
def get_fairness(window_seconds: Window = 3_600, pool: PoolName = "gpu") -> FairnessBody:
    """Share of the GPUs against weight, and the worst pair against the bound."""
    found = bootstrap.operations().fairness(pool=pool, window_s=window_seconds)
    return FairnessBody(
        tenants=[
            ShareBody(
                tenant_id=_tenant_word(share.tenant_id),
                weight=share.weight,
                service=share.service_us / SECOND_US,
                share=share.share,
                ideal_share=share.ideal_share,
                is_contending=share.is_contending,
            )
            for share in found.tenants
        ],
        bound=found.bound_us / SECOND_US,
        worst=found.worst.gap_us / SECOND_US if found.worst else 0,
        worst_pair=PairBody(
            tenants=[_tenant_word(found.worst.first), _tenant_word(found.worst.second)],
            gap=found.worst.gap_us / SECOND_US,
            bound=found.worst.bound_us / SECOND_US,
        )
        if found.worst
        else None,
        jain=found.jain,
    )


@api.post("/ops/simulate", permission="ops.read", errors=[404], slow=True)
def simulate(body: SimulateBody) -> SimulationBody:
    """Replay the last arrivals with other weights, caps or workers. Production does not change."""
    outcomes = bootstrap.operations().simulate(
        tenants=_changed_policies(body.changes.tenants),
        slots={pool: {str(kind): n for kind, n in change.slots.items()} for pool, change in body.changes.pools.items()},
        window_s=body.window_seconds,
    )
    return SimulationBody(
        tenants=[
            TenantComparisonBody(
                tenant_id=_tenant_word(outcome.tenant_id),
                pool=outcome.pool,
                before=_waits(outcome.before),
                after=_waits(outcome.after),
            )
            for outcome in outcomes
        ]
    )


def _changed_policies(changes: Sequence[WhatIfTenantBody]) -> list[TenantPolicy]:
    wanted = {from_wire("tnt", change.tenant_id): change for change in changes}
    now = bootstrap.tenants().policies(list(wanted)) if wanted else {}
    if missing := wanted.keys() - now.keys():
        raise NotFound("there is no such tenant", tenant_id=to_wire("tnt", min(missing)))
    return [
        TenantPolicy(
            str(tenant_id),
            weight=change.weight or now[tenant_id].weight,
            cap=now[tenant_id].concurrency if change.concurrency is None else change.concurrency,
            user_cap=now[tenant_id].user_concurrency,
        )
        for tenant_id, change in wanted.items()
    ]


@api.get("/ops/workers", permission="ops.read")
def list_workers(cursor: http.Cursor = None, limit: http.Limit = 100) -> WorkersBody:
    """Workers that are alive."""
    workers, next_cursor = http.page_of(bootstrap.operations().workers(), cursor, limit)
    return WorkersBody(
        items=[_worker(worker) for worker in workers],
        next_cursor=next_cursor,
    )


@api.post("/ops/workers/<worker_id>/drain", permission="ops.write")
def drain_worker(worker_id: str) -> WorkerBody:
    """The worker takes no new node, finishes or releases those that it holds, and ends."""
    return _worker(bootstrap.operations().drain_worker(worker_id, actor_id=api.identity.user_id))


def _worker(worker: WorkerState) -> WorkerBody:
    return WorkerBody(
        worker_id=worker.worker_id,
        pool=worker.pool,
        types=list(worker.types),
        slots=worker.slots,
        engine=worker.engine,
        draining=worker.is_draining,
        nodes=[
            WorkerNodeBody(
                task_id=to_wire("task", UUID(node.task_id)),
                tenant_id=_tenant_word(node.tenant_id),
                node=node.name,
                type=node.type,
                attempt=node.attempt,
                started_at=node.started_at,
            )
            for node in worker.nodes
        ],
        registered_at=worker.registered_at,
        last_beat_at=worker.beat_at,
    )


def _text_model(found: TextModel) -> ModelBody:
    return ModelBody(
        model=found.wire_name,
        steps=[],
        services=list(found.services),
        limit=found.limit,
        running=found.running,
        waiting=found.waiting,
        pools=[ModelLoadBody(pool=TEXT_POOL, running=found.running, waiting=found.waiting)],
    )


def _model(state: ModelState) -> ModelBody:
    return ModelBody(
        model=state.model,
        steps=list(state.steps),
        services=[],
        limit=state.limit,
        running=sum(load.running for load in state.pools),
        waiting=sum(load.waiting for load in state.pools),
        pools=[ModelLoadBody(pool=load.pool, running=load.running, waiting=load.waiting) for load in state.pools],
    )


def _decision(choice: Choice) -> DecisionBody:
    made = choice.decision
    runner_up = None
    if made.runner_up_tenant_id is not None and made.runner_up_tag_us is not None:
        runner_up = RunnerUpBody(
            tenant_id=_tenant_word(made.runner_up_tenant_id), tag=made.runner_up_tag_us / SECOND_US
        )
    return DecisionBody(
        at=datetime.fromtimestamp(made.at_ms / 1_000, UTC),
        pool=choice.pool,
        task_id=None if choice.task_id is None else to_wire("task", UUID(choice.task_id)),
        node=choice.name,
        tenant_id=_tenant_word(made.tenant_id),
        user_id=to_wire("usr", UUID(made.user_id)),
        type=made.track.node_type,
        lane=made.track.lane,
        model=made.track.model or None,
        charged_seconds=made.charged_us / SECOND_US,
        tag=made.tag_us / SECOND_US,
        runner_up=runner_up,
        reason=made.reason.value,
        detail=choice.detail,
    )


def _changed(lane: str, change: LaneChange, *, reason: str | None = None) -> LaneBody:
    actor_id = api.identity.user_id
    return _lane(bootstrap.operations().change_lane(lane, change, actor_id=actor_id, reason=reason))


def _lane(state: LaneState) -> LaneBody:
    return LaneBody(
        lane=state.lane,
        pool=state.pool,
        depth=state.depth,
        running=state.running,
        parallelism=state.parallelism,
        share_percent=state.share_percent,
        paused=state.is_paused,
        limit=state.depth_limit,
    )


def _waits(waits: Waits) -> WaitsBody:
    return WaitsBody(
        started=waits.started,
        unstarted=waits.unstarted,
        mean_seconds=waits.mean_us / SECOND_US,
        worst_seconds=waits.worst_us / SECOND_US,
    )


def _tenant_word(tenant_id: str) -> str:
    return to_wire("tnt", UUID(tenant_id))


class CheckBody(http.Wire):
    name: str
    ok: bool
    checked: int
    violations: list[dict[str, Any]] = Field(description="the first rows that violate it")
    since: datetime | None = Field(default=None, description="when a check first found such rows")


class InvariantsBody(http.Wire):
    ok: bool
    checks: list[CheckBody]


@api.get("/ops/invariants", permission="ops.read", slow=True)
def get_invariants(
    full: Annotated[bool, Query(description="check every row, in place of the rows that changed")] = False,
) -> InvariantsBody:
    """The invariants over all tenants: of the rows that changed since the last check, or of every row."""
    invariants = bootstrap.invariants()
    health = invariants.check() if full else invariants.check_changes()
    return InvariantsBody(
        ok=health.is_ok,
        checks=[
            CheckBody(
                name=check.name,
                ok=check.is_ok,
                checked=check.checked,
                violations=[{key: str(value) for key, value in row.items()} for row in check.violations],
                since=check.since,
            )
            for check in health.checks
        ],
    )


class DeadQueueBody(http.Wire):
    queue: str
    depth: int


class DeadQueuesBody(http.Wire):
    items: list[DeadQueueBody]
    next_cursor: str | None


class DeadLetterBody(http.Wire):
    message_id: str
    body: str
    sent_at: datetime
    receive_count: int


class DeadLettersBody(http.Wire):
    items: list[DeadLetterBody] = Field(description="the first hundred of the queue")
    next_cursor: str | None


MessageIds = Annotated[list[str] | None, Field(max_length=100, description="all, at most 100, if left out")]


class ReplayBody(http.Wire):
    message_ids: MessageIds = None
    reason: str | None = Field(default=None, max_length=500)


class DiscardBody(http.Wire):
    message_ids: MessageIds = None
    reason: str = Field(min_length=1, max_length=500)


class MovedBody(http.Wire):
    count: int


@api.get("/ops/dlq", permission="ops.read")
def list_dead_queues(cursor: http.Cursor = None, limit: http.Limit = 50) -> DeadQueuesBody:
    """How many messages each dead-letter queue holds, and in `runs` how many runs failed for good."""
    counted = {**bootstrap.dead_letters().depths(), DEAD_RUNS: bootstrap.run_operations().dead_count()}
    depths, next_cursor = http.page_of(list(counted.items()), cursor, limit)
    items = [DeadQueueBody(queue=name, depth=depth) for name, depth in depths]
    return DeadQueuesBody(items=items, next_cursor=next_cursor)


@api.get("/ops/dlq/<queue>", permission="ops.read")
def list_dead_letters(queue: str, cursor: http.Cursor = None, limit: http.Limit = 100) -> DeadLettersBody:
    """The messages of a dead-letter queue; of `runs` the runs, whose ids are the messages' ids."""
    if queue == DEAD_RUNS:
        found = [_dead_run(one) for one in bootstrap.run_operations().dead()]
    else:
        found = [_dead_letter(message) for message in bootstrap.dead_letters().messages(queue)]
    items, next_cursor = http.page_of(found, cursor, limit)
    return DeadLettersBody(items=list(items), next_cursor=next_cursor)


@api.post("/ops/dlq/<queue>/replay", permission="ops.write", errors=[409])
def replay_dead_letters(queue: str, body: ReplayBody) -> MovedBody:
    """Send messages back to the queue where they failed; start runs again."""
    actor_id = api.identity.user_id
    if queue == DEAD_RUNS:
        return MovedBody(count=bootstrap.run_operations().replay_dead(_run_ids(body.message_ids), actor_id=actor_id))
    return MovedBody(count=bootstrap.dead_letters().replay(queue, body.message_ids, actor_id=actor_id))


@api.post("/ops/dlq/<queue>/discard", permission="ops.write", errors=[409])
def discard_dead_letters(queue: str, body: DiscardBody) -> MovedBody:
    """Delete messages. A run stays FAILED, and leaves the dead letters. The reason is stored in the audit log."""
    reason, actor_id = body.reason, api.identity.user_id
    if queue == DEAD_RUNS:
        run_ids = _run_ids(body.message_ids)
        return MovedBody(count=bootstrap.run_operations().discard_dead(run_ids, reason=reason, actor_id=actor_id))
    count = bootstrap.dead_letters().discard(queue, body.message_ids, reason=reason, actor_id=actor_id)
    return MovedBody(count=count)


def _dead_letter(message: DeadLetter) -> DeadLetterBody:
    return DeadLetterBody(
        message_id=message.message_id,
        body=message.body,
        sent_at=datetime.fromtimestamp(message.sent_at_ms / 1_000, UTC),
        receive_count=message.receive_count,
    )


def _dead_run(one: RunOfTenant) -> DeadLetterBody:
    return DeadLetterBody(
        message_id=to_wire("run", one.run.run_id),
        body=_ops_run(one).model_dump_json(by_alias=True),
        sent_at=one.run.dead_at or one.run.created_at,
        receive_count=one.run.attempt,
    )


def _run_ids(given: Sequence[str] | None) -> list[UUID] | None:
    """Ids of runs. One that cannot be an id names no run."""
    return None if given is None else [UUID(one[4:]) for one in given if RUN_ID.fullmatch(one)]


class OpsRunBody(http.Wire):
    run_id: str
    job_id: str
    job_name: str
    tenant_id: str
    scheduled_time: datetime
    kind: RunKind
    state: RunState
    task_type: TaskType
    lane: str
    generation: int
    attempt: int
    waiting_for: str | None
    last_error: str | None
    http_status: int | None
    next_retry_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    task_id: str | None
    dead_letter_at: datetime | None


class OpsRunsBody(http.Wire):
    items: list[OpsRunBody]
    next_cursor: str | None


class IdsBody(http.Wire):
    ids: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=100)


class ChangedBody(http.Wire):
    ids: list[str] = Field(description="those that were changed; others are unknown, or their state does not allow it")
    count: int


@api.get("/ops/runs", permission="ops.read", slow=True)
def search_runs(
    tenant_id: Annotated[str | None, Query(alias="tenantId", max_length=64)] = None,
    job_id: Annotated[str | None, Query(alias="jobId", max_length=64)] = None,
    state: RunState | None = None,
    kind: RunKind | None = None,
    dead_letter: Annotated[bool, Query(alias="deadLetter")] = False,
    since: Annotated[AwareDatetime | None, Query(alias="from", description="of the scheduled time")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> OpsRunsBody:
    """Runs of all tenants, the newest scheduled time first."""
    try:
        tenant = None if tenant_id is None else from_wire("tnt", tenant_id)
        job = None if job_id is None else from_wire("job", job_id)
    except NotFound:
        return OpsRunsBody(items=[], next_cursor=None)
    wanted = RunFilter(job, state, kind, dead_letter, since, until)
    found = bootstrap.run_operations().search(tenant, wanted, before=http.place_of(cursor), limit=limit + 1)
    next_place = found[limit - 1].run.run_id if len(found) > limit else None
    return OpsRunsBody(items=[_ops_run(one) for one in found[:limit]], next_cursor=http.cursor_of(next_place))


@api.post("/ops/runs/retry", permission="ops.write")
def retry_runs(body: IdsBody) -> ChangedBody:
    """Replay runs that have ended."""
    return _changed_runs(bootstrap.run_operations().retry(_run_ids(body.ids) or [], actor_id=api.identity.user_id))


@api.post("/ops/runs/cancel", permission="ops.write")
def cancel_runs(body: IdsBody) -> ChangedBody:
    """Terminate runs that have not ended."""
    return _changed_runs(bootstrap.run_operations().cancel(_run_ids(body.ids) or [], actor_id=api.identity.user_id))


def _changed_runs(run_ids: set[UUID]) -> ChangedBody:
    return ChangedBody(ids=[to_wire("run", run_id) for run_id in sorted(run_ids)], count=len(run_ids))


def _ops_run(one: RunOfTenant) -> OpsRunBody:
    run = one.run
    return OpsRunBody(
        run_id=to_wire("run", run.run_id),
        job_id=to_wire("job", run.job_id),
        job_name=one.job_name,
        tenant_id=to_wire("tnt", run.tenant_id),
        scheduled_time=run.scheduled_at,
        kind=run.kind,
        state=run.state,
        task_type=run.task_type,
        lane=run.lane,
        generation=run.generation,
        attempt=run.attempt,
        waiting_for=run.defer_reason if run.is_deferred else None,
        last_error=run.last_error,
        http_status=run.http_status,
        next_retry_at=run.next_retry_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        task_id=None if run.task_id is None else to_wire("task", run.task_id),
        dead_letter_at=run.dead_at,
    )


class BillDayBody(http.Wire):
    day: date = Field(description="in Shanghai")
    status: Literal["WAITING", "FAILED", "COMPARED", "DONE"]
    tries: int
    payments: int | None
    refunds: int | None
    total_fen: int | None
    differences: int | None = Field(description="found when the bill was last compared")
    last_error: str | None
    updated_at: datetime


class BillDaysBody(http.Wire):
    items: list[BillDayBody]
    next_cursor: str | None


class DifferenceBody(http.Wire):
    kind: str
    reference: str = Field(description="WeChat's or our number of the payment or refund")
    tenant_id: str | None
    order_id: str | None
    ours_fen: int | None
    theirs_fen: int | None
    resolution: Literal["OPEN", "REPAIRED"]
    found_at: datetime
    resolved_at: datetime | None


class BillDayViewBody(BillDayBody):
    items: list[DifferenceBody]
    next_cursor: str | None


@api.get("/ops/reconciliations", permission="ops.read")
def list_reconciliations(cursor: http.Cursor = None, limit: http.Limit = 50) -> BillDaysBody:
    """Days whose bill was compared with our orders, newest first."""
    place = http.place_of(cursor)
    before = date.max if place is None else date.fromordinal(max(1, min(place.int, date.max.toordinal())))
    found = bootstrap.bills().days(before=before, limit=limit + 1)
    last = found[limit - 1]["day"] if len(found) > limit else None
    return BillDaysBody(
        items=[BillDayBody(**row) for row in found[:limit]],
        next_cursor=http.cursor_of(None if last is None else UUID(int=last.toordinal())),
    )


@api.get("/ops/reconciliations/<day>", permission="ops.read", slow=True)
def get_reconciliation(day: str, cursor: http.Cursor = None, limit: http.Limit = 100) -> BillDayViewBody:
    """One day: the differences that were found, and their resolution."""
    wanted = _day(day)
    found = bootstrap.bills().days(before=wanted + timedelta(days=1), limit=1)
    if not found or found[0]["day"] != wanted:
        raise NotFound("the bill of this day was not requested")
    rows, next_cursor = http.page_of(bootstrap.bills().differences(wanted, limit=DIFFERENCES_LIMIT), cursor, limit)
    items = [
        DifferenceBody(
            **{
                **row,
                "tenant_id": row["tenant_id"] and to_wire("tnt", row["tenant_id"]),
                "order_id": row["order_id"] and to_wire("ord", row["order_id"]),
            }
        )
        for row in rows
    ]
    return BillDayViewBody(**found[0], items=items, next_cursor=next_cursor)


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
        if day.isoformat() != text or day == date.max:
            raise ValueError(text)
    except ValueError:
        raise NotFound("there is no such day") from None
    return day


class AuditBody(http.Wire):
    audit_id: str
    tenant_id: str | None
    actor_id: str | None
    action: str
    target: str
    details: dict[str, Any]
    trace_id: str
    at: datetime
    actor_email: str | None
    actor_name: str | None
    tenant_name: str | None


class AuditsBody(http.Wire):
    items: list[AuditBody]
    next_cursor: str | None


@api.get("/ops/audit", permission="ops.read", slow=True)
def list_audit(
    actor: Annotated[str | None, Query(max_length=254, description="a user's id or e-mail address")] = None,
    action: Annotated[str | None, Query(max_length=100)] = None,
    target: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to")] = None,
    cursor: http.Cursor = None,
    limit: http.Limit = 50,
) -> AuditsBody:
    """The audit log of all tenants, newest first. Entries are kept for 180 days."""
    try:
        actor_id = None if actor is None else _actor_id(actor)
    except NotFound:
        return AuditsBody(items=[], next_cursor=None)
    wanted = AuditFilter(actor_id, action, target, since, until)
    page = bootstrap.audit_trail().find(wanted, cursor=cursor, limit=limit)
    return AuditsBody(items=[_audit(entry) for entry in page.items], next_cursor=page.next_cursor)


def _actor_id(text: str) -> UUID:
    if "@" not in text:
        return from_wire("usr", text)
    found = bootstrap.audit_trail().user_of_email(text)
    if found is None:
        raise NotFound("there is no such user")
    return found


def _audit(entry: AuditEntry) -> AuditBody:
    return AuditBody(
        audit_id=to_wire("aud", entry.audit_id),
        tenant_id=None if entry.tenant_id is None else to_wire("tnt", entry.tenant_id),
        actor_id=None if entry.actor_id is None else to_wire("usr", entry.actor_id),
        action=entry.action,
        target=entry.target,
        details=dict(entry.details),
        trace_id=entry.trace_id,
        at=entry.at,
        actor_email=entry.actor_email,
        actor_name=entry.actor_name,
        tenant_name=entry.tenant_name,
    )


def _series_name(name: str) -> str:
    if name not in SERIES:
        raise ValueError(f"unknown; known are {', '.join(SERIES)}")
    return name


SeriesName = Annotated[str, AfterValidator(_series_name)]


class PointBody(http.Wire):
    """The other fields are the series' labels."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str]

    at: datetime = Field(description="start of the step")
    value: float


class SeriesBody(http.Wire):
    name: str
    unit: str
    description: str
    merge: Literal["sum", "maximum", "minimum", "ratio", "share", "quantile"] = Field(
        description="how the minutes of a step become one value"
    )
    step_seconds: int
    is_measured: bool = Field(description="false: nothing writes this series yet")
    points: list[PointBody]


@api.get("/ops/series", permission="ops.read", slow=True)
def get_series(
    name: Annotated[SeriesName, Query(json_schema_extra={"enum": list(SERIES)})],
    since: Annotated[AwareDatetime | None, Query(alias="from", description="an hour before `to` if left out")] = None,
    until: Annotated[AwareDatetime | None, Query(alias="to", description="now if left out")] = None,
    step: Annotated[int | None, Query(ge=60, le=86_400, description="seconds, whole minutes")] = None,
) -> SeriesBody:
    """Minute aggregates of a series, merged over steps. A range has at most 720 steps."""
    series = SERIES[name]
    wanted, points = bootstrap.series().read(series, since, until, step)
    return SeriesBody(
        name=name,
        unit=series.unit,
        description=series.description,
        merge=series.merge.value,
        step_seconds=int(wanted.step.total_seconds()),
        is_measured=series.is_measured,
        points=[PointBody(at=point.at, value=point.value, **_labels(point)) for point in points],
    )


def _labels(point: Point) -> dict[str, str]:
    labels = dict(point.labels)
    if labels.get("tenantId", OTHER) != OTHER:
        labels["tenantId"] = _tenant_word(labels["tenantId"])
    return labels


@api.get("/ops/metrics", permission="ops.read", media="application/openmetrics-text")
def get_metrics() -> Response[str]:
    """The newest closed minute of all series as OpenMetrics text, for Prometheus."""
    page = bootstrap.series().page()
    return Response(status_code=200, content_type=page.content_type, body=page.text)


class ReadingBody(http.Wire):
    name: str
    ok: bool
    value: float | None = Field(description="null if it could not be measured")
    limit: float
    unit: str


class CircuitBody(http.Wire):
    pool: str
    step: str
    state: Literal["OPEN", "HALF_OPEN"]
    failures: int = Field(description="of its engine in a row, before it opened")
    probes_failed: int
    last_error: str
    opened_at: datetime
    next_probe_at: datetime = Field(description="from then on one node at a time may run")


class RunCircuitBody(http.Wire):
    tenant_id: str | None = Field(description="null for a circuit of a task type")
    target: str = Field(description="host of the targets, or the task type")
    state: CircuitState
    failures: int
    runs: int
    changed_at: datetime
    next_probe_at: datetime


class RunGuardBody(http.Wire):
    state: Literal["NORMAL", "DEGRADED"]
    paused_lanes: list[str] = Field(description="by the guard; run_low first, then run_normal")
    changed_at: datetime | None
    latency_p95_seconds: float | None = Field(description="start delay in the last minute")
    backlog: int | None = Field(description="due runs, without those of lanes that the guard has paused")
    read_at: datetime | None
    circuits: list[RunCircuitBody] = Field(description="targets that are not called")


class GuardBody(http.Wire):
    state: Literal["NORMAL", "DEGRADED"]
    checks: dict[str, str] = Field(description="PostgreSQL, its reader and Redis: ok or away")
    readings: list[ReadingBody]
    circuits: list[CircuitBody] | None = Field(description="steps that are stopped; null if they could not be read")
    runs: RunGuardBody | None = Field(description="the guard of scheduled runs; null if it could not be read")


@api.get("/ops/health", permission="ops.read")
def get_guard() -> GuardBody:
    """Whether the platform is degraded, and the readings behind that."""
    report = bootstrap.guard().report()
    return GuardBody(
        state=report.state,
        checks=dict(report.health.checks),
        readings=[
            ReadingBody(
                name=reading.name,
                ok=reading.is_ok,
                value=reading.value,
                limit=reading.limit,
                unit=reading.unit,
            )
            for reading in report.readings
        ],
        circuits=None if report.stopped is None else _circuit_bodies(report.stopped),
        runs=None if report.runs is None else _run_guard(report.runs),
    )


def _run_guard(health: RunHealth) -> RunGuardBody:
    return RunGuardBody(
        state="DEGRADED" if health.state.is_degraded else "NORMAL",
        paused_lanes=list(health.state.lanes),
        changed_at=health.state.changed_at,
        latency_p95_seconds=None if health.reading is None else health.reading.latency_s,
        backlog=None if health.reading is None else health.reading.backlog,
        read_at=health.read_at,
        circuits=[
            RunCircuitBody(
                tenant_id=None if one.key.tenant_id == NO_TENANT else to_wire("tnt", one.key.tenant_id),
                target=one.key.target,
                state=one.state,
                failures=one.failures,
                runs=one.runs,
                changed_at=one.changed_at,
                next_probe_at=one.until,
            )
            for one in health.circuits
        ],
    )


def _circuit_bodies(stopped: StoppedSteps) -> list[CircuitBody]:
    return [
        CircuitBody(
            pool=circuit.pool,
            step=circuit.step,
            state=circuit.state(stopped.now),
            failures=circuit.failures,
            probes_failed=circuit.probes_failed,
            last_error=circuit.last_error,
            opened_at=circuit.opened_at,
            next_probe_at=circuit.probe_at,
        )
        for circuit in stopped.circuits
    ]


class SettingBody(http.Wire):
    key: str
    value: Any = Field(description="in force")
    default: Any
    type: Literal["boolean", "integer", "number", "string", "array", "object"]
    minimum: float | None = Field(description="of a number; of the length of a text, list or object")
    maximum: float | None
    description: str
    updated_at: datetime | None = Field(description="null while the default is in force")
    updated_by: str | None
    fault: str | None = Field(description="why the stored value is not in force, if it does not fit this release")


class SettingsBody(http.Wire):
    items: list[SettingBody]
    next_cursor: str | None


class SettingChangeBody(http.Wire):
    value: Any = Field(description="of the setting's type, within its bounds")


@api.get("/ops/settings", permission="ops.read")
def list_settings(cursor: http.Cursor = None, limit: http.Limit = 100) -> SettingsBody:
    """Every setting by key: its value, default and bounds."""
    states, next_cursor = http.page_of(bootstrap.live_settings().states(), cursor, limit)
    return SettingsBody(items=[_setting(state) for state in states], next_cursor=next_cursor)


@api.put("/ops/settings/<key>", permission="ops.write")
def change_setting(key: str, body: SettingChangeBody) -> SettingBody:
    """Change a setting. All processes use the new value within a minute, usually within two seconds."""
    return _setting(bootstrap.live_settings().put(key, body.value, actor_id=api.identity.user_id))


@api.delete("/ops/settings/<key>", permission="ops.write")
def restore_setting(key: str) -> SettingBody:
    """Restore the default of a setting."""
    return _setting(bootstrap.live_settings().restore(key, actor_id=api.identity.user_id))


def _setting(state: SettingState) -> SettingBody:
    setting, override = state.setting, state.override
    updated_by = override.updated_by if override is not None else None
    return SettingBody(
        key=setting.key,
        value=state.value,
        default=setting.default,
        type=setting.type,
        minimum=setting.minimum,
        maximum=setting.maximum,
        description=setting.description,
        updated_at=None if override is None else override.updated_at,
        updated_by=None if updated_by is None else to_wire("usr", updated_by),
        fault=state.fault,
    )


class NamedCacheBody(http.Wire):
    name: str
    entries: int = Field(description="values in Redis")
    hits: int = Field(description="of all processes in the last hour")
    misses: int
    hit_rate: float
    read_p95_milliseconds: int = Field(alias="readP95Milliseconds", description="of reads from Redis, rounded up")
    refreshable: bool


class CachesBody(http.Wire):
    items: list[NamedCacheBody]
    next_cursor: str | None
    complete: bool = Field(description="false if Redis has more values than were counted")


class CacheRefreshBody(http.Wire):
    name: str = Field(min_length=1, max_length=100)


class CacheRefreshedBody(http.Wire):
    name: str
    refreshed: int = Field(description="values that were loaded again")


class CacheDeletedBody(http.Wire):
    deleted: int


@api.get("/ops/cache", permission="ops.read")
def list_caches(cursor: http.Cursor = None, limit: http.Limit = 50) -> CachesBody:
    """Hit rate, size and latency of each cache, over all processes."""
    report = bootstrap.caches().report()
    caches, next_cursor = http.page_of(report.caches, cursor, limit)
    return CachesBody(
        items=[
            NamedCacheBody(
                name=named.name,
                entries=named.entries,
                hits=named.hits,
                misses=named.misses,
                hit_rate=named.hit_rate,
                read_p95_milliseconds=named.read_p95_ms,
                refreshable=named.is_refreshable,
            )
            for named in caches
        ],
        next_cursor=next_cursor,
        complete=report.is_complete,
    )


@api.post("/ops/cache/refresh", permission="ops.write", errors=[404])
def refresh_cache(body: CacheRefreshBody) -> CacheRefreshedBody:
    """Load the values of a cache again from their source."""
    refreshed = bootstrap.caches().refresh(body.name, actor_id=api.identity.user_id)
    return CacheRefreshedBody(name=body.name, refreshed=refreshed)


@api.delete("/ops/cache", permission="ops.write")
def delete_cached(prefix: Annotated[str, Query(min_length=1, max_length=200)]) -> CacheDeletedBody:
    """Drop the cached values whose key begins so, at most 100,000. They are loaded again when they are read."""
    return CacheDeletedBody(deleted=bootstrap.caches().delete(prefix, actor_id=api.identity.user_id))
