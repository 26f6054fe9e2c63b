"""Who listens, what they were told, and what is left to tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.errors import NotAllowed, TooMany, Unauthenticated

PROGRESS = "task.progress"
_CURSOR = re.compile(r"[0-9]{1,18}")


class ConnectionGone(Exception):
    """The other side has closed."""


class NotPosted(Exception):
    """Refused for now: the other side has surely not heard it. Any other failure leaves that open."""


class MoreToTell(Exception):
    """A socket took less than there is. The message comes again and goes on where this one stopped."""


class SessionEnded(Unauthenticated):
    """Logged out, disabled or suspended, also if the token has not expired."""

    def __init__(self) -> None:
        super().__init__("log in first")


class TenantEventsNotAllowed(NotAllowed):
    def __init__(self) -> None:
        super().__init__("events of the whole tenant need the permission task.manage")


class TooManySockets(TooMany):
    """A socket that was lost without being closed counts until API Gateway notices, so waiting helps."""

    def __init__(self, limit: int) -> None:
        super().__init__("close a WebSocket first", retry_after_s=60, limit=limit)


class Scope(StrEnum):
    """Whose events a socket receives: those of its own user, or those of all users of the tenant."""

    USER = "user"
    TENANT = "tenant"


@dataclass(frozen=True)
class SocketLimits:
    """How many sockets may be open at once. The next one is refused; none of the open ones is closed for it."""

    per_user: int
    per_tenant: int


@dataclass(frozen=True)
class Admission:
    """What decides whether a socket may open: its session, and the sockets that are open beside it."""

    is_session_open: bool
    is_tenant_wide_allowed: bool
    user_sockets: int
    tenant_sockets: int

    def check(self, scope: Scope, limits: SocketLimits) -> None:
        if not self.is_session_open:
            raise SessionEnded
        if scope is Scope.TENANT and not self.is_tenant_wide_allowed:
            raise TenantEventsNotAllowed
        if self.user_sockets >= limits.per_user:
            raise TooManySockets(limits.per_user)
        if self.tenant_sockets >= limits.per_tenant:
            raise TooManySockets(limits.per_tenant)


@dataclass(frozen=True)
class Connection:
    """An open WebSocket of one user, in one session of theirs."""

    connection_id: str
    tenant_id: UUID
    user_id: UUID
    session_id: UUID
    expires_at: datetime
    scope: Scope = Scope.USER


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
    user_id: UUID


@dataclass(frozen=True)
class Socket:
    """A connection in hand. `told` is the number of the last change that it heard of."""

    connection_id: str
    told: int
    is_greeted: bool


@dataclass(frozen=True)
class Look:
    """What there is to send to the sockets of one scope, and which of them take it."""

    scope: Scope = Scope.USER
    claimed: Sequence[Socket] = ()
    news: Sequence[News] = ()
    until: int = 0
    up_to_date: Sequence[str] = ()
    doubtful: Sequence[str] = ()
    is_busy: bool = False


@dataclass(frozen=True)
class Claim:
    """One look for each scope that has sockets, and the sockets that may receive nothing any more."""

    looks: Sequence[Look] = ()
    ended: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not any(look.claimed for look in self.looks)


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
