"""The synchronous calls of workers: register, claim, beat, release, asset. Only the workers' roles may invoke it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform import logs, tracing
from artiway.tasks import contract
from artiway.tasks.model import WorkerCard


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    request = contract.REQUEST.validate_python(event)
    with tracing.traced(None), logs.context(action=request.action, worker_id=request.worker_id):
        return _answer(request, _pool_of(context)).as_wire()


def _answer(request: contract.Call, pool: str | None) -> contract.Wire:
    workers = bootstrap.workers()
    match request:
        case contract.Register():
            settings = contract.Settings(**asdict(workers.register(_card(request), engine=request.engine, pool=pool)))
            return contract.Terms(
                lease_seconds=settings.lease_seconds, beat_seconds=settings.beat_seconds, settings=settings
            )
        case contract.Claim():
            place = (UUID(request.tenant_id), UUID(request.task_id)) if request.tenant_id and request.task_id else None
            order = workers.claim(
                node_id=UUID(request.node_id),
                attempt=request.attempt,
                worker_id=request.worker_id,
                place=place,
                pool=pool,
            )
            if order is None:
                return contract.ClaimAnswer(outcome=contract.ClaimOutcome.GONE)
            node = contract.Node.model_validate(order)
            return contract.ClaimAnswer(outcome=contract.ClaimOutcome.CLAIMED, node=node)
        case contract.Beat():
            beat = workers.beat(_card(request), _held(request.nodes), pool=pool)
            return contract.BeatAnswer(
                drain=beat.is_draining,
                settings=contract.Settings(**asdict(beat.settings)),
                nodes=[
                    contract.NodeVerdict(
                        node_id=str(node_id),
                        verdict=contract.Verdict(verdict),
                        urls=dict(beat.urls.get(node_id, {})),
                    )
                    for node_id, verdict in beat.verdicts.items()
                ],
            )
        case contract.Release():
            released = workers.release(worker_id=request.worker_id, held=_held(request.nodes))
            return contract.ReleaseAnswer(released=released)
        case contract.AssetCheck():
            access = workers.asset(
                worker_id=request.worker_id,
                node_id=UUID(request.node_id),
                attempt=request.attempt,
                asset_id=UUID(request.asset_id),
                pool=pool,
            )
            return contract.AssetAnswer.model_validate(asdict(access))


def _pool_of(context: Any) -> str | None:
    """The role of a pool's workers may invoke the alias of that pool only, so the alias proves the pool."""
    parts = str(getattr(context, "invoked_function_arn", "")).split(":")
    return parts[7] if len(parts) > 7 and parts[7] != "$LATEST" else None


def _card(facts: contract.WorkerFacts) -> WorkerCard:
    return WorkerCard(facts.worker_id, facts.pool, tuple(facts.types), facts.slots, tuple(facts.neural))


def _held(nodes: list[contract.HeldNode]) -> list[tuple[UUID, int]]:
    return [(UUID(node.node_id), node.attempt) for node in nodes]
