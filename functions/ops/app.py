"""Operations: lanes and their switches, the scheduler's clocks, fairness, what-if, workers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import Field

from artiway import bootstrap
from artiway.ids import from_wire, to_wire
from artiway.platform import http
from artiway.scheduling.model import LaneChange, LaneState, TenantPolicy, Waits

api = http.Api("operations", gate=bootstrap.gate)
handler = api.handler

PoolName = Literal["gpu", "enterprise"]
NodeType = Literal["cutout", "model", "compose", "extend", "hd_fix"]
SECOND_US = 1_000_000
Window = Annotated[int, Query(alias="windowSeconds", ge=60, le=7_200)]


class LaneBody(http.Wire):
    lane: str
    pool: str
    depth: int = Field(description="nodes that wait")
    running: int = Field(description="nodes that hold a slot")
    parallelism: int | None
    share_percent: int | None = Field(description="of the pool's slots")
    paused: bool
    limit: int = Field(description="depth beyond which submissions are refused")


class LanesBody(http.Wire):
    items: list[LaneBody]
    next_cursor: None = None


class LaneChangeBody(http.Wire):
    parallelism: int | None = Field(default=None, ge=0, le=1_000_000)
    share_percent: int | None = Field(default=None, ge=1, le=100)
    limit: int | None = Field(default=None, ge=0, le=1_000_000)
    paused: bool | None = None


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
    slots: dict[str, int] = Field(description="by node type, a little prefetch included")
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
    is_contending: bool = Field(description="had work waiting through the whole window; only these are compared")


class PairBody(http.Wire):
    tenants: list[str]
    gap: float = Field(description="difference of GPU seconds per weight")
    bound: float


class FairnessBody(http.Wire):
    tenants: list[ShareBody]
    bound: float = Field(description="the largest difference that any pair may show, in GPU seconds per weight")
    worst: PairBody | None
    jain: float = Field(description="1 is perfectly fair")


class WhatIfTenantBody(http.Wire):
    tenant_id: str = Field(max_length=64)
    weight: int = Field(ge=1, le=1_000)
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


class WorkerBody(http.Wire):
    worker_id: str
    pool: str
    types: list[str]
    slots: int
    engine: str
    registered_at: datetime
    last_beat_at: datetime


class WorkersBody(http.Wire):
    items: list[WorkerBody]
    next_cursor: None = None


@api.get("/ops/lanes", permission="ops.read")
def list_lanes() -> LanesBody:
    """Every lane: what waits, what runs, its switches."""
    return LanesBody(items=[_lane(lane) for lane in bootstrap.operations().lanes()])


@api.patch("/ops/lanes/<lane>", permission="ops.write")
def change_lane(lane: str, body: LaneChangeBody) -> LaneBody:
    """Another parallelism, share or limit, at once and without a deployment. What is not named stays."""
    change = LaneChange(
        is_paused=body.paused,
        parallelism=body.parallelism,
        share_percent=body.share_percent,
        depth_limit=body.limit,
    )
    return _changed(lane, change)


@api.post("/ops/lanes/<lane>/pause", permission="ops.write")
def pause_lane(lane: str) -> LaneBody:
    """Start nothing more from this lane. It keeps accepting up to its limit."""
    return _changed(lane, LaneChange(is_paused=True))


@api.post("/ops/lanes/<lane>/resume", permission="ops.write")
def resume_lane(lane: str) -> LaneBody:
    """Start again what waits."""
    return _changed(lane, LaneChange(is_paused=False))


@api.get("/ops/scheduler", permission="ops.read")
def get_scheduler() -> SchedulerBody:
    """The virtual clocks of the pools and their tenants."""
    return SchedulerBody(
        pools=[
            PoolBody(
                pool=state.pool,
                gvt=state.clock_us / SECOND_US,
                slots=dict(state.slots),
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


@api.get("/ops/fairness", permission="ops.read")
def get_fairness(window_seconds: Window = 3_600, pool: PoolName = "gpu") -> FairnessBody:
    """Share of the GPUs against weight, and how near the worst pair came to the bound."""
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
        worst=PairBody(
            tenants=[_tenant_word(found.worst.first), _tenant_word(found.worst.second)],
            gap=found.worst.gap_us / SECOND_US,
            bound=found.worst.bound_us / SECOND_US,
        )
        if found.worst
        else None,
        jain=found.jain,
    )


@api.post("/ops/simulate", permission="ops.read")
def simulate(body: SimulateBody) -> SimulationBody:
    """Replay the last arrivals under other weights, caps or workers. Production is not touched."""
    outcomes = bootstrap.operations().simulate(
        tenants=[
            TenantPolicy(str(from_wire("tnt", change.tenant_id)), weight=change.weight, cap=change.concurrency)
            for change in body.changes.tenants
        ],
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


@api.get("/ops/workers", permission="ops.read")
def list_workers() -> WorkersBody:
    """Workers that are alive."""
    return WorkersBody(
        items=[
            WorkerBody(
                worker_id=worker.worker_id,
                pool=worker.pool,
                types=list(worker.types),
                slots=worker.slots,
                engine=worker.engine,
                registered_at=worker.registered_at,
                last_beat_at=worker.beat_at,
            )
            for worker in bootstrap.operations().workers()
        ]
    )


def _changed(lane: str, change: LaneChange) -> LaneBody:
    return _lane(bootstrap.operations().change_lane(lane, change, actor_id=api.identity.user_id))


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
    violations: list[dict[str, Any]] = Field(description="the first rows that break it")


class InvariantsBody(http.Wire):
    ok: bool
    checks: list[CheckBody]


@api.get("/ops/invariants", permission="ops.read")
def get_invariants() -> InvariantsBody:
    """What must hold at any moment, checked now over all tenants."""
    health = bootstrap.invariants().check()
    return InvariantsBody(
        ok=health.is_ok,
        checks=[
            CheckBody(
                name=check.name,
                ok=check.is_ok,
                checked=check.checked,
                violations=[{key: str(value) for key, value in row.items()} for row in check.violations],
            )
            for check in health.checks
        ],
    )


class DeadQueueBody(http.Wire):
    queue: str
    depth: int


class DeadQueuesBody(http.Wire):
    items: list[DeadQueueBody]
    next_cursor: None = None


class DeadLetterBody(http.Wire):
    message_id: str
    body: str
    sent_at: datetime
    receive_count: int


class DeadLettersBody(http.Wire):
    items: list[DeadLetterBody] = Field(description="at most 100")
    next_cursor: None = None


class ReplayBody(http.Wire):
    message_ids: list[str] | None = Field(default=None, max_length=100, description="all, at most 100, if left out")


class DiscardBody(ReplayBody):
    reason: str = Field(min_length=1, max_length=500)


class MovedBody(http.Wire):
    count: int


@api.get("/ops/dlq", permission="ops.read")
def list_dead_queues() -> DeadQueuesBody:
    """How many messages each dead-letter queue holds."""
    depths = bootstrap.dead_letters().depths()
    return DeadQueuesBody(items=[DeadQueueBody(queue=name, depth=depth) for name, depth in depths.items()])


@api.get("/ops/dlq/<queue>", permission="ops.read")
def list_dead_letters(queue: str) -> DeadLettersBody:
    """What could not be handled."""
    return DeadLettersBody(
        items=[
            DeadLetterBody(
                message_id=letter.message_id,
                body=letter.body,
                sent_at=datetime.fromtimestamp(letter.sent_at_ms / 1_000, UTC),
                receive_count=letter.receive_count,
            )
            for letter in bootstrap.dead_letters().letters(queue)
        ]
    )


@api.post("/ops/dlq/<queue>/replay", permission="ops.write", errors=[409])
def replay_dead_letters(queue: str, body: ReplayBody) -> MovedBody:
    """Send messages back to where they failed."""
    count = bootstrap.dead_letters().replay(queue, body.message_ids, actor_id=api.identity.user_id)
    return MovedBody(count=count)


@api.post("/ops/dlq/<queue>/discard", permission="ops.write", errors=[409])
def discard_dead_letters(queue: str, body: DiscardBody) -> MovedBody:
    """Throw messages away, for a reason that is kept."""
    count = bootstrap.dead_letters().discard(queue, body.message_ids, reason=body.reason, actor_id=api.identity.user_id)
    return MovedBody(count=count)
