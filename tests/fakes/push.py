"""Sockets and connections in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from artiway.outbox.model import Message
from artiway.push.model import Connection, ConnectionGone


class FakeSockets:
    def __init__(self) -> None:
        self.open: dict[str, list[Mapping[str, Any]]] = {}

    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        if connection_id not in self.open:
            raise ConnectionGone
        self.open[connection_id].append(payload)


class FakeConnections:
    def __init__(self) -> None:
        self.stored: dict[str, Connection] = {}
        self.greetings: list[Message] = []

    def remember(self, connection: Connection, greeting: Message) -> None:
        if connection.connection_id not in self.stored:
            self.stored[connection.connection_id] = connection
            self.greetings.append(greeting)

    def forget(self, connection_id: str) -> None:
        self.stored.pop(connection_id, None)

    def of_user(self, tenant_id: UUID, user_id: UUID) -> Sequence[str]:
        now = datetime.now(UTC)
        return [
            connection.connection_id
            for connection in self.stored.values()
            if (connection.tenant_id, connection.user_id) == (tenant_id, user_id) and connection.expires_at > now
        ]

    def forget_expired(self) -> int:
        now = datetime.now(UTC)
        expired = [name for name, connection in self.stored.items() if connection.expires_at <= now]
        for name in expired:
            del self.stored[name]
        return len(expired)
