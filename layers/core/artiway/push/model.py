"""Who listens, what they were told, and what is left to tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

PROGRESS = "task.progress"
_CURSOR = re.compile(r"[0-9]{1,18}")


class ConnectionGone(Exception):
    """The other side has closed."""


class NotPosted(Exception):
    """Refused for now: the other side has surely not heard it. Any other failure leaves that open."""


class MoreToTell(Exception):
    """A socket took less than there is. The message comes again and goes on where this one stopped."""


@dataclass(frozen=True)
class Connection:
    """An open WebSocket of one user, in one session of theirs."""

    connection_id: str
    tenant_id: UUID
    user_id: UUID
    session_id: UUID
    expires_at: datetime


@dataclass(frozen=True)
class Notice:
    """Something for one user's sockets. Without a payload: look what there is to tell."""

    tenant_id: UUID
    user_id: UUID
    payload: Mapping[str, Any] | None = None

    @property
    def is_passing(self) -> bool:
        """Told to who listens now and kept nowhere: the next one says more."""
        return self.payload is not None and self.payload.get("type") == PROGRESS

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Notice:
        """Read a queue's message. Raises ValueError, KeyError or TypeError for one that is not a notice."""
        payload = data.get("payload")
        if payload is not None and not isinstance(payload, dict):
            raise TypeError("payload is not an object")
        return Notice(tenant_id=UUID(data["tenantId"]), user_id=UUID(data["userId"]), payload=payload)


@dataclass(frozen=True)
class News:
    """A change that a user's sockets are to hear of. Numbers rise in the order of commits."""

    number: int
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Socket:
    """A connection in hand. `told` is the number of the last change that it heard of."""

    connection_id: str
    told: int
    is_greeted: bool


@dataclass(frozen=True)
class Look:
    """What there is to tell, and who is there to hear it."""

    claimed: Sequence[Socket] = ()
    news: Sequence[News] = ()
    until: int = 0
    up_to_date: Sequence[str] = ()
    doubtful: Sequence[str] = ()
    is_busy: bool = False


@dataclass(frozen=True)
class Outcome:
    """How far a claimed socket came."""

    connection_id: str
    told: int
    is_greeted: bool
    is_closed: bool = False
    is_refused: bool = False


def aggregate_of(user_id: UUID) -> str:
    """The aggregate in the outbox under which a user's news are written, one after the other."""
    return f"user:{user_id}"


def parse_cursor(text: str | None) -> int | None:
    """Where a client says that it left off. What we did not write is nothing."""
    return int(text) if text and _CURSOR.fullmatch(text) else None
