"""Pictures that a worker may read and write, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Asset:
    """An upload or a result, as the node that asks for it sees it. `key` is None where the tenant has no such asset."""

    is_user_active: bool
    key: str | None
    content_type: str | None


@dataclass(frozen=True)
class AssetAccess:
    outcome: str
    reason: str = ""
    content_type: str = ""
    url: str = ""


@dataclass(frozen=True)
class WorkerSettings:
    version: str
    lease_seconds: float
    beat_seconds: float
    progress_interval_ms: int


@dataclass(frozen=True)
class Heartbeat:
    """The answer to a heartbeat, with new addresses for the nodes that go on."""

    verdicts: Mapping[UUID, str]
    urls: Mapping[UUID, Mapping[str, str]]
    is_draining: bool
    settings: WorkerSettings


Order = dict[str, Any]
