"""Tells people what happened, over the WebSockets that they have open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway.outbox.model import Message
from artiway.platform.clock import Clock
from artiway.push.model import Connection, ConnectionGone, Notice

DESTINATION = "push"
# API Gateway accepts a message for a connection only once its $connect has been answered.
GREETING_DELAY_S = 1


class Sockets(Protocol):
    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        """Send to an open socket. Raises ConnectionGone for one that is closed."""


class Connections(Protocol):
    def remember(self, connection: Connection, greeting: Message) -> None:
        """Store the connection and its greeting in one transaction."""

    def forget(self, connection_id: str) -> None: ...

    def of_user(self, tenant_id: UUID, user_id: UUID) -> Sequence[str]: ...

    def forget_expired(self) -> int: ...


class PushService:
    """Delivery is at least once; a client knows a repetition by `at` and `type`."""

    def __init__(self, connections: Connections, sockets: Sockets, clock: Clock, *, connection_ttl_s: int) -> None:
        self._connections, self._sockets, self._clock = connections, sockets, clock
        self._ttl = timedelta(seconds=connection_ttl_s)

    def connect(self, *, connection_id: str, tenant_id: UUID, user_id: UUID) -> None:
        now = self._clock.now()
        greeting = notice_message(
            Notice(tenant_id, user_id, {"type": "connected", "at": now.isoformat()}, connection_id),
            delay_s=GREETING_DELAY_S,
        )
        self._connections.remember(Connection(connection_id, tenant_id, user_id, now + self._ttl), greeting)

    def disconnect(self, connection_id: str) -> None:
        self._connections.forget(connection_id)

    def answer(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        """Say something back to a socket that has just spoken."""
        self._post(connection_id, payload)

    def deliver(self, notice: Notice) -> int:
        """Post to each open socket of the user. Returns how many heard it."""
        if notice.connection_id is not None:
            targets: Sequence[str] = [notice.connection_id]
        else:
            targets = self._connections.of_user(notice.tenant_id, notice.user_id)
        return sum(self._post(connection_id, notice.payload) for connection_id in targets)

    def forget_expired(self) -> int:
        return self._connections.forget_expired()

    def _post(self, connection_id: str, payload: Mapping[str, Any]) -> bool:
        try:
            self._sockets.post(connection_id, payload)
        except ConnectionGone:
            self._connections.forget(connection_id)
            return False
        return True


def notice_message(notice: Notice, *, delay_s: int = 0) -> Message:
    """The notice as a message of the outbox. One user's notices are sent in order."""
    data: dict[str, Any] = {
        "tenantId": str(notice.tenant_id),
        "userId": str(notice.user_id),
        "payload": dict(notice.payload),
    }
    if notice.connection_id is not None:
        data["connectionId"] = notice.connection_id
    return Message(DESTINATION, f"user:{notice.user_id}", "notice", data, delay_s, notice.tenant_id)
