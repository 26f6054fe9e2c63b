"""HTTP nodes on their way: what a tenant may start, and an attempt that was dispatched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class DueCall:
    tenant_id: UUID
    task_id: UUID
    node_id: UUID
    attempt: int

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> DueCall:
        return cls(UUID(data["tenantId"]), UUID(data["taskId"]), UUID(data["nodeId"]), int(data["attempt"]))


@dataclass(frozen=True)
class Share:
    """What a tenant may start now: `room` more than the `running` ones."""

    tenant_id: UUID
    running: int
    room: int
    weight: int
