"""WebSocket connections, the events that they receive, and how far each of them has come."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.errors import NotAllowed, TooMany, Unauthenticated
from artiway.events import Event

_CURSOR = re.compile(r"[0-9]{1,18}")


class ConnectionGone(Exception):
    """The client has closed the socket."""


class NotPosted(Exception):
    """API Gateway refused the message, so the client did not receive it. After any other failure it may have."""


class MoreToSend(Exception):
    """A socket accepted only some of its events. SQS delivers the message again, and the rest is sent then."""


class SessionEnded(Unauthenticated):
    """The user logged out, was disabled, or the tenant was suspended; the token may still be valid."""

    def __init__(self) -> None:
        super().__init__("log in first")


class TenantEventsNotAllowed(NotAllowed):
    def __init__(self) -> None:
        super().__init__("events of the whole tenant need the permission task.manage")


class TooManySockets(TooMany):
    """A socket that broke without a close counts until API Gateway notices, so a retry later can succeed."""

    def __init__(self, limit: int) -> None:
        super().__init__("close a WebSocket first", retry_after_s=60, limit=limit)


class Scope(StrEnum):
    """Whose events a socket receives: those of its own user, or those of all users of the tenant."""

    USER = "user"
    TENANT = "tenant"


@dataclass(frozen=True)
class SocketLimits:
    """How many sockets may be open at once. The next one is refused; the open ones stay."""

    per_user: int
    per_tenant: int


@dataclass(frozen=True)
class Admission:
    """The facts that decide whether a socket may open: its session, and the number of open sockets."""

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
    """A message for the sockets of one user. Without a payload it asks only to send the stored events."""

    tenant_id: UUID
    user_id: UUID
    payload: Mapping[str, Any] | None = None

    @property
    def is_transient(self) -> bool:
        """Sent to the sockets that are open now and not stored: the next one replaces it."""
        return self.payload is not None and self.payload.get("type") == Event.TASK_PROGRESS

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Notice:
        """Read a queue's message. Raises ValueError, KeyError or TypeError for one that is not a notice."""
        payload = data.get("payload")
        if payload is not None and not isinstance(payload, dict):
            raise TypeError("payload is not an object")
        return Notice(tenant_id=UUID(data["tenantId"]), user_id=UUID(data["userId"]), payload=payload)


@dataclass(frozen=True)
class UserEvent:
    """A stored event of a user. `number` is its outbox id; numbers rise in the order of commits."""

    number: int
    payload: Mapping[str, Any]
    user_id: UUID


@dataclass(frozen=True)
class Socket:
    """A claimed connection. `last_sent` is the number of the last event that was sent to it."""

    connection_id: str
    last_sent: int
    is_greeted: bool


@dataclass(frozen=True)
class Batch:
    """The events to send to the sockets of one scope, and the sockets that this call claimed.

    `up_to_date` have received every event. The lease of `uncertain` ones ran out, so their last event may have arrived
    or not. `is_busy`: another call has claimed some of the sockets."""

    scope: Scope = Scope.USER
    claimed: Sequence[Socket] = ()
    events: Sequence[UserEvent] = ()
    until: int = 0
    up_to_date: Sequence[str] = ()
    uncertain: Sequence[str] = ()
    is_busy: bool = False


@dataclass(frozen=True)
class Claim:
    """One batch for each scope that has sockets, and the sockets whose access has ended."""

    batches: Sequence[Batch] = ()
    ended: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return not any(batch.claimed for batch in self.batches)


@dataclass(frozen=True)
class Outcome:
    """What happened to a claimed socket. `last_sent` is the number of the last event that it received."""

    connection_id: str
    last_sent: int
    is_greeted: bool
    is_closed: bool = False
    is_refused: bool = False


def aggregate_of(user_id: UUID) -> str:
    """The aggregate of a user's events in the outbox; messages of one aggregate are written one after the other."""
    return f"user:{user_id}"


def user_of(aggregate: str) -> UUID:
    return UUID(aggregate.removeprefix("user:"))


def parse_cursor(text: str | None) -> int | None:
    """The last number that a client received. None for a text that is not a cursor."""
    return int(text) if text and _CURSOR.fullmatch(text) else None
