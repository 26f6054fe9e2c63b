"""Sockets and connections in memory, with the behaviour that the push service expects of the real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from artiway.outbox.model import Message
from artiway.push.model import (
    Admission,
    Batch,
    Claim,
    Connection,
    ConnectionGone,
    Outcome,
    Scope,
    Socket,
    SocketLimits,
    UserEvent,
)

ROOMY = SocketLimits(per_user=100, per_tenant=1_000)


class FakeSockets:
    """`before_post` may raise before the client receives the message, `after_post` after it."""

    def __init__(self) -> None:
        self.open: dict[str, list[Mapping[str, Any]]] = {}
        self.closed: list[str] = []
        self.before_post: Callable[[str], object] = lambda _: None
        self.after_post: Callable[[str], object] = lambda _: None
        self.before_close: Callable[[str], object] = lambda _: None

    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        if connection_id not in self.open:
            raise ConnectionGone
        self.before_post(connection_id)
        self.open[connection_id].append(payload)
        self.after_post(connection_id)

    def close(self, connection_id: str) -> None:
        self.before_close(connection_id)
        self.open.pop(connection_id, None)
        self.closed.append(connection_id)


@dataclass
class Row:
    connection: Connection
    last_sent: int
    is_greeted: bool = False
    posting: int | None = None
    posting_until: datetime | None = None
    closed_at: datetime | None = None


class FakeConnections:
    """Every session is open and no user may receive tenant-wide events, until a test changes that."""

    def __init__(self, *, lease_s: float = 60, resume_s: int = 60, limits: SocketLimits = ROOMY) -> None:
        self.rows: dict[str, Row] = {}
        self.events: list[tuple[UUID, UserEvent, datetime]] = []
        self.messages: list[Message] = []
        self.closed_for: set[UUID] = set()  # sessions, users and tenants
        self.managers: set[UUID] = set()
        self._lease, self._resume = timedelta(seconds=lease_s), timedelta(seconds=resume_s)
        self._limits = limits

    def add_event(self, tenant_id: UUID, user_id: UUID, payload: Mapping[str, Any]) -> int:
        number = len(self.events) + 1
        self.events.append((tenant_id, UserEvent(number, payload, user_id), datetime.now(UTC)))
        return number

    def add(self, connection: Connection, messages: Sequence[Message], *, after: int | None) -> None:
        others = [row.connection for row in self._open() if row.connection.connection_id != connection.connection_id]
        of_tenant = [one for one in others if one.tenant_id == connection.tenant_id]
        Admission(
            is_session_open=self._is_session_open(connection),
            is_tenant_wide_allowed=connection.user_id in self.managers,
            user_sockets=sum(one.user_id == connection.user_id for one in of_tenant),
            tenant_sockets=len(of_tenant),
        ).check(connection.scope, self._limits)
        closed = [
            row
            for row in self.rows.values()
            if (row.connection.session_id, row.connection.scope) == (connection.session_id, connection.scope)
            and row.closed_at is not None
            and row.closed_at > datetime.now(UTC) - self._resume
        ]
        if closed:
            last = max(closed, key=lambda row: row.closed_at or datetime.now(UTC))
            del self.rows[last.connection.connection_id]
            after = last.last_sent if after is None else after
        known = self._of(connection.tenant_id, connection.user_id, connection.scope)
        newest = max((event.number for event, _ in known), default=0)
        if connection.connection_id not in self.rows:
            last_sent = newest if after is None else min(after, newest)
            self.rows[connection.connection_id] = Row(connection, last_sent)
            self.messages += messages

    def close(self, connection_ids: Sequence[str]) -> None:
        for connection_id in connection_ids:
            row = self.rows.get(connection_id)
            if row is not None and row.closed_at is None:
                self.rows[connection_id] = replace(row, closed_at=datetime.now(UTC), posting=None, posting_until=None)

    def claim(self, tenant_id: UUID, user_id: UUID) -> Claim:
        rows = [
            row
            for row in self._open()
            if row.connection.tenant_id == tenant_id
            and (row.connection.scope is Scope.TENANT or row.connection.user_id == user_id)
        ]
        allowed = [row for row in rows if self._is_allowed(row.connection)]
        groups = {scope: [row for row in allowed if row.connection.scope is scope] for scope in Scope}
        return Claim(
            [self._batch(tenant_id, user_id, scope, group) for scope, group in groups.items() if group],
            ended=[row.connection.connection_id for row in rows if not self._is_allowed(row.connection)],
        )

    def ended(self, *, limit: int) -> Sequence[str]:
        rows = [row for row in self._open() if not self._is_allowed(row.connection)]
        return [row.connection.connection_id for row in rows[:limit]]

    def settle(self, outcomes: Sequence[Outcome], *, until: int) -> None:
        for outcome in outcomes:
            row = self.rows.get(outcome.connection_id)
            if row is not None and row.posting == until:
                row.last_sent, row.is_greeted = max(row.last_sent, outcome.last_sent), outcome.is_greeted
                row.posting = row.posting_until = None
                if outcome.is_closed:
                    row.closed_at = row.closed_at or datetime.now(UTC)

    def newest_event_at(self, tenant_id: UUID, user_id: UUID) -> datetime | None:
        return max((at for _, at in self._of(tenant_id, user_id, Scope.USER)), default=None)

    def publish(self, message: Message) -> None:
        self.messages.append(message)

    def forget_expired(self) -> int:
        now = datetime.now(UTC)
        expired = [
            name
            for name, row in self.rows.items()
            if row.connection.expires_at <= now or (row.closed_at and row.closed_at <= now - self._resume)
        ]
        for name in expired:
            del self.rows[name]
        return len(expired)

    def _batch(self, tenant_id: UUID, user_id: UUID, scope: Scope, rows: Sequence[Row]) -> Batch:
        now = datetime.now(UTC)
        idle = [row for row in rows if row.posting is None]
        uncertain = [row.connection.connection_id for row in rows if row.posting_until and row.posting_until <= now]
        is_busy = len(rows) > len(idle) + len(uncertain)
        if not idle:
            return Batch(scope, uncertain=uncertain, is_busy=is_busy)
        after = min(row.last_sent for row in idle)
        events = [one for one, _ in self._of(tenant_id, user_id, scope) if one.number > after]
        if not events and all(row.is_greeted for row in idle):
            names = [row.connection.connection_id for row in idle]
            return Batch(scope, up_to_date=names, uncertain=uncertain, is_busy=is_busy)
        until = events[-1].number if events else max(row.last_sent for row in idle)
        claimed = [row for row in idle if row.last_sent < until or not row.is_greeted]
        for row in claimed:
            row.posting, row.posting_until = until, now + self._lease
        sockets = [Socket(row.connection.connection_id, row.last_sent, row.is_greeted) for row in claimed]
        return Batch(scope, sockets, events, until, uncertain=uncertain, is_busy=is_busy)

    def _open(self) -> list[Row]:
        now = datetime.now(UTC)
        return [row for row in self.rows.values() if row.closed_at is None and row.connection.expires_at > now]

    def _is_allowed(self, connection: Connection) -> bool:
        is_scope_allowed = connection.scope is Scope.USER or connection.user_id in self.managers
        return is_scope_allowed and self._is_session_open(connection)

    def _is_session_open(self, connection: Connection) -> bool:
        return not self.closed_for & {connection.session_id, connection.user_id, connection.tenant_id}

    def _of(self, tenant_id: UUID, user_id: UUID, scope: Scope) -> list[tuple[UserEvent, datetime]]:
        return [
            (event, at)
            for tenant, event, at in self.events
            if tenant == tenant_id and (scope is Scope.TENANT or event.user_id == user_id)
        ]
