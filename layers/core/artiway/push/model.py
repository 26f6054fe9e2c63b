"""Who listens, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


class ConnectionGone(Exception):
    """The other side has closed."""


@dataclass(frozen=True)
class Connection:
    """An open WebSocket of one user."""

    connection_id: str
    tenant_id: UUID
    user_id: UUID
    expires_at: datetime


@dataclass(frozen=True)
class Notice:
    """A message for one user's sockets, or for one socket alone."""

    tenant_id: UUID
    user_id: UUID
    payload: Mapping[str, Any]
    connection_id: str | None = None

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Notice:
        """Read a queue's message. Raises ValueError, KeyError or TypeError for one that is not a notice."""
        payload = data["payload"]
        if not isinstance(payload, dict):
            raise TypeError("payload is not an object")
        return Notice(
            tenant_id=UUID(data["tenantId"]),
            user_id=UUID(data["userId"]),
            payload=payload,
            connection_id=data.get("connectionId"),
        )
