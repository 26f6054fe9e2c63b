"""What the worker is told and what it tells: nodes, work messages, verdicts, progress."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Wire(BaseModel):
    """camelCase outside, snake_case inside; a field that we do not know is the sender's business."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class Verdict(StrEnum):
    GO = "go"
    CANCELLED = "cancelled"
    FENCED = "fenced"


class InputRef(Wire):
    name: str
    key: str
    content_type: str = ""


class Node(Wire):
    """One claimed attempt at one node. `attempt` is the fence: it goes with everything said about it."""

    node_id: str
    task_id: str
    tenant_id: str
    attempt: int
    name: str = ""
    type: str
    tool: str = ""
    model: str | None = None
    params: dict[str, Any] = {}
    inputs: list[InputRef] = []
    output_prefix: str = Field(min_length=1)
    time_limit_seconds: float = Field(default=300, gt=0)
    lease_seconds: float = Field(default=30, gt=0)


class Terms(Wire):
    """What registering answers."""

    lease_seconds: float = Field(default=30, gt=0)
    beat_seconds: float = Field(default=10, gt=0)


class WorkHint(Wire):
    """The data of a work message: never more than a hint that a node may be claimed."""

    node_id: str = Field(min_length=1)
    attempt: int = Field(ge=0)


@dataclass(frozen=True)
class WorkMessage:
    """A message as received. `hint` is None when the body is not one of ours."""

    receipt: str
    node_type: str
    hint: WorkHint | None
    trace_id: str = ""


@dataclass(frozen=True)
class Output:
    name: str
    key: str
    content_type: str
    width: int
    height: int
    bytes: int

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "key": self.key,
            "contentType": self.content_type,
            "width": self.width,
            "height": self.height,
            "bytes": self.bytes,
        }
