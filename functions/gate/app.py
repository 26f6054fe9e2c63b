"""Step Functions waits here for a node's dependencies: the token is stored, and answered when they have completed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform import tracing


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    with tracing.traced(None):
        bootstrap.nodes().await_dependencies(
            tenant_id=UUID(event["tenantId"]),
            task_id=UUID(event["taskId"]),
            node_id=UUID(event["nodeId"]),
            token=event["taskToken"],
        )
    return {}
