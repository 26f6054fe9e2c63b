"""The last steps of an execution: check that the task has ended and is settled, or end it if the execution failed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform import tracing


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    place = {"tenant_id": UUID(event["tenantId"]), "task_id": UUID(event["taskId"])}
    with tracing.traced(None):
        match event["action"]:
            case "settle":
                status = bootstrap.nodes().settle(**place)
            case "compensate":
                status = bootstrap.nodes().compensate(**place)
            case action:
                raise ValueError(f"unknown action {action!r}: settle or compensate")
    return {"status": status or "GONE"}
