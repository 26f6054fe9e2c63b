"""A message received from a work queue. `artiway.tasks.contract` defines the wire format."""

from __future__ import annotations

from dataclasses import dataclass

from artiway.tasks.contract import WorkHint


@dataclass(frozen=True)
class WorkMessage:
    """`hint` is None when the body is not a work message."""

    receipt: str
    node_type: str
    hint: WorkHint | None
    trace_id: str = ""
