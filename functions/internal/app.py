"""The workers' only door: what needs an answer at once. Called by the workers' role and nobody else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform import logs, tracing
from artiway.tasks.model import WorkerCard


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    with tracing.traced(None), logs.context(action=event["action"], worker_id=event["workerId"]):
        match event["action"]:
            case "register":
                return _register(event)
            case "claim":
                return _claim(event)
            case "beat":
                return _beat(event)
            case "release":
                held = _held(event)
                return {"released": bootstrap.nodes().release(worker_id=event["workerId"], held=held)}
            case action:
                raise ValueError(f"unknown action {action!r}: register, claim, beat or release")


def _register(event: dict[str, Any]) -> dict[str, Any]:
    nodes = bootstrap.nodes()
    nodes.register(_card(event), engine=str(event.get("engine", "")))
    return {"leaseSeconds": nodes.rules.lease_s, "beatSeconds": nodes.rules.beat_s}


def _claim(event: dict[str, Any]) -> dict[str, Any]:
    order = bootstrap.nodes().claim(
        node_id=UUID(event["nodeId"]), attempt=int(event["attempt"]), worker_id=event["workerId"]
    )
    return {"outcome": "gone"} if order is None else {"outcome": "claimed", "node": order}


def _beat(event: dict[str, Any]) -> dict[str, Any]:
    verdicts = bootstrap.nodes().beat(_card(event), _held(event))
    return {"nodes": [{"nodeId": str(node_id), "verdict": verdict} for node_id, verdict in verdicts.items()]}


def _card(event: dict[str, Any]) -> WorkerCard:
    return WorkerCard(event["workerId"], event["pool"], tuple(event["types"]), int(event["slots"]))


def _held(event: dict[str, Any]) -> list[tuple[UUID, int]]:
    return [(UUID(node["nodeId"]), int(node["attempt"])) for node in event["nodes"]]
