"""Step Functions waits here for a node's dependencies: its token is kept, and answered when they are done."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.platform import tracing


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    with tracing.traced(None):
        bootstrap.nodes().gate(
            tenant_id=UUID(event["tenantId"]),
            task_id=UUID(event["taskId"]),
            node_id=UUID(event["nodeId"]),
            token=event["taskToken"],
        )
    return {}
