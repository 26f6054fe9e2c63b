"""The synchronous calls of workers: register, claim, beat, release. Only the workers' role may invoke it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform import logs, tracing
from artiway.tasks import contract
from artiway.tasks.model import WorkerCard


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    request = contract.REQUEST.validate_python(event)
    with tracing.traced(None), logs.context(action=request.action, worker_id=request.worker_id):
        return _answer(request).as_wire()


def _answer(request: contract.Register | contract.Claim | contract.Beat | contract.Release) -> contract.Wire:
    nodes = bootstrap.nodes()
    match request:
        case contract.Register():
            nodes.register(_card(request), engine=request.engine)
            return contract.Terms(lease_seconds=nodes.rules.lease_s, beat_seconds=nodes.rules.beat_s)
        case contract.Claim():
            order = nodes.claim(node_id=UUID(request.node_id), attempt=request.attempt, worker_id=request.worker_id)
            if order is None:
                return contract.ClaimAnswer(outcome=contract.ClaimOutcome.GONE)
            node = contract.Node.model_validate(order)
            return contract.ClaimAnswer(outcome=contract.ClaimOutcome.CLAIMED, node=node)
        case contract.Beat():
            verdicts, is_draining = nodes.beat(_card(request), _held(request.nodes))
            return contract.BeatAnswer(
                drain=is_draining,
                nodes=[
                    contract.NodeVerdict(node_id=str(node_id), verdict=contract.Verdict(verdict))
                    for node_id, verdict in verdicts.items()
                ],
            )
        case contract.Release():
            released = nodes.release(worker_id=request.worker_id, held=_held(request.nodes))
            return contract.ReleaseAnswer(released=released)


def _card(facts: contract.WorkerFacts) -> WorkerCard:
    return WorkerCard(facts.worker_id, facts.pool, tuple(facts.types), facts.slots)


def _held(nodes: list[contract.HeldNode]) -> list[tuple[UUID, int]]:
    return [(UUID(node.node_id), node.attempt) for node in nodes]
