"""Sends a user's events to the WebSockets that receive them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway import ids
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.push.model import (
    Batch,
    Claim,
    Connection,
    ConnectionGone,
    MoreToSend,
    Notice,
    NotPosted,
    Outcome,
    Scope,
    Socket,
    aggregate_of,
)

logger = Logger("push")
DESTINATION = "push"
# API Gateway accepts a message for a connection only after the answer to its $connect.
GREETING_DELAY_S = 1
# A transaction that wrote before the connection existed saw no socket and published no message, yet it may commit after
# the connection opened. After this time it has ended, and a second check finds its events.
LATE_CHECK_S = 60
# One call ends well before the function's time-out; it publishes a message to continue.
PASSES = 20
POSTS_PER_CALL = 300
ENDED_BATCH = 200


class Sockets(Protocol):
    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        """Send to an open socket. Raises ConnectionGone if it is closed, NotPosted if the message was not sent."""

    def close(self, connection_id: str) -> None: ...


class Connections(Protocol):
    def add(self, connection: Connection, messages: Sequence[Message], *, after: int | None) -> None:
        """Store the connection and the messages in one transaction. The socket receives the events after `after`;
        without it, those after the last one of its session's socket that closed recently; else new events only.
        Raises SessionEnded, TenantEventsNotAllowed or TooManySockets."""

    def close(self, connection_ids: Sequence[str]) -> None: ...

    def claim(self, tenant_id: UUID, user_id: UUID) -> Claim:
        """Claim the sockets that have events to receive and that no other call has claimed."""

    def ended(self, *, limit: int) -> Sequence[str]:
        """Open sockets whose session ended, whose user was disabled, whose tenant was suspended, or that lost the
        permission for their scope."""

    def settle(self, outcomes: Sequence[Outcome], *, until: int) -> None:
        """Store the number of the last event of each socket and release the claim."""

    def newest_event_at(self, tenant_id: UUID, user_id: UUID) -> datetime | None: ...

    def publish(self, message: Message) -> None: ...

    def forget_expired(self) -> int: ...


class PushService:
    """A socket receives every event once and in order. A queue message only starts a delivery: the events are in the
    outbox, in the order of commits, and each socket's row holds the number of the last event sent to it.

    A socket is claimed with a lease before anything is sent to it. If the sender crashes, it is unknown what the client
    received: the socket is closed, and the client connects again with the cursor of the last event that it received.

    A socket receives nothing after its session ended, its user was disabled or its tenant was suspended. It is closed
    at the next event, or by a sweep."""

    def __init__(self, connections: Connections, sockets: Sockets, clock: Clock, *, ttl_s: int, lease_s: int) -> None:
        self._connections, self._sockets, self._clock = connections, sockets, clock
        self._ttl, self._lease_s = timedelta(seconds=ttl_s), lease_s

    def connect(
        self,
        *,
        connection_id: str,
        tenant_id: UUID,
        user_id: UUID,
        session_id: UUID,
        scope: Scope = Scope.USER,
        after: int | None = None,
    ) -> None:
        expires_at = self._clock.now() + self._ttl
        connection = Connection(connection_id, tenant_id, user_id, session_id, expires_at, scope)
        about = f"connection:{connection_id}"
        messages = [
            _wake_message(about, tenant_id, user_id, delay_s=delay) for delay in (GREETING_DELAY_S, LATE_CHECK_S)
        ]
        self._connections.add(connection, messages, after=after)

    def disconnect(self, connection_id: str) -> None:
        self._connections.close([connection_id])

    def answer(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        """Answer a frame that the client sent."""
        try:
            self._sockets.post(connection_id, payload)
        except ConnectionGone:
            self._connections.close([connection_id])

    def deliver(self, notice: Notice, *, is_again: bool = False) -> int:
        """Send each socket of the user the events that it has not received. Returns how many were sent."""
        sent = 0
        for _ in range(PASSES):
            claim = self._connections.claim(notice.tenant_id, notice.user_id)
            self._end(claim.ended)
            for batch in claim.batches:
                self._close(batch.uncertain)
            if claim.is_empty:
                return sent + self._finish(notice, claim, is_again=is_again)
            sent += self._send_batches(claim)
            if sent >= POSTS_PER_CALL:
                break
        self._wake(notice, delay_s=0)
        return sent

    def close_ended(self) -> int:
        """Close the sockets whose access has ended, also where there is nothing to send. The watchdog calls it."""
        closed = 0
        while True:
            ended = self._connections.ended(limit=ENDED_BATCH)
            done = self._end(ended)
            closed += done
            if done < len(ended):
                metrics.emit("SocketSweepFailures", 1)  # the next sweep finds them again
            if done < ENDED_BATCH:
                return closed

    def forget_expired(self) -> int:
        return self._connections.forget_expired()

    def _finish(self, notice: Notice, claim: Claim, *, is_again: bool) -> int:
        # The call that claimed a socket checks for new events before it returns. If SQS delivers this message again,
        # that call may have crashed: check again after its lease.
        if is_again and any(batch.is_busy for batch in claim.batches):
            self._wake(notice, delay_s=self._lease_s)
        if notice.is_transient and any(batch.up_to_date for batch in claim.batches):
            return self._send_transient(notice, claim)
        return 0

    def _wake(self, notice: Notice, *, delay_s: int) -> None:
        about = f"wake:{notice.user_id}"
        self._connections.publish(_wake_message(about, notice.tenant_id, notice.user_id, delay_s=delay_s))

    def _send_batches(self, claim: Claim) -> int:
        sent, is_refused = 0, False
        for batch in claim.batches:
            outcomes = [self._bring_up_to_date(socket, batch) for socket in batch.claimed]
            self._connections.settle(outcomes, until=batch.until)
            is_refused = is_refused or any(outcome.is_refused for outcome in outcomes)
            sent += sum(
                sum(socket.last_sent < event.number <= outcome.last_sent for event in batch.events)
                for socket, outcome in zip(batch.claimed, outcomes, strict=True)
            )
        if is_refused:
            raise MoreToSend("a socket accepts no message now")
        return sent

    def _bring_up_to_date(self, socket: Socket, batch: Batch) -> Outcome:
        last_sent, is_greeted = socket.last_sent, socket.is_greeted
        try:
            if not is_greeted:
                self._post(socket.connection_id, {"type": "connected", "at": self._clock.now().isoformat()}, last_sent)
                is_greeted = True
            for event in batch.events:
                if event.number > last_sent:
                    payload = _payload(event.payload, batch.scope, event.user_id)
                    self._post(socket.connection_id, payload, event.number)
                    last_sent = event.number
        except ConnectionGone:
            return Outcome(socket.connection_id, last_sent, is_greeted, is_closed=True)
        except NotPosted:
            return Outcome(socket.connection_id, last_sent, is_greeted, is_refused=True)
        except Exception:
            logger.exception("socket in unknown state", connection_id=socket.connection_id)
            self._close([socket.connection_id])
            return Outcome(socket.connection_id, last_sent, is_greeted, is_closed=True)
        return Outcome(socket.connection_id, max(last_sent, batch.until), is_greeted)

    def _post(self, connection_id: str, payload: Mapping[str, Any], number: int) -> None:
        self._sockets.post(connection_id, {**payload, "cursor": str(number)})

    def _send_transient(self, notice: Notice, claim: Claim) -> int:
        """Send progress to the sockets that received every stored event. Drop it if a newer event exists."""
        assert notice.payload is not None
        newest_at = self._connections.newest_event_at(notice.tenant_id, notice.user_id)
        if newest_at is not None and newest_at > datetime.fromisoformat(notice.payload["at"]):
            return 0
        sent = 0
        for batch in claim.batches:
            payload = _payload(notice.payload, batch.scope, notice.user_id)
            for connection_id in batch.up_to_date:
                try:
                    self._sockets.post(connection_id, payload)
                except ConnectionGone:
                    self._connections.close([connection_id])
                except NotPosted:
                    metrics.emit("ProgressNotPushed", 1)
                else:
                    sent += 1
        return sent

    def _end(self, connection_ids: Sequence[str]) -> int:
        """Close sockets whose access has ended. The sweep closes those that API Gateway failed to close."""
        closed = []
        for connection_id in connection_ids:
            try:
                self._sockets.close(connection_id)
            except Exception:
                logger.exception("socket not closed", connection_id=connection_id)
            else:
                closed.append(connection_id)
        if closed:
            metrics.emit("SocketsEnded", len(closed))
            self._connections.close(closed)
        return len(closed)

    def _close(self, connection_ids: Sequence[str]) -> None:
        for connection_id in connection_ids:
            self._sockets.close(connection_id)
        if connection_ids:
            metrics.emit("SocketsInDoubt", len(connection_ids))
            self._connections.close(connection_ids)


def _payload(payload: Mapping[str, Any], scope: Scope, user_id: UUID) -> Mapping[str, Any]:
    """A tenant-wide socket receives events of many users, so each event names its user."""
    return {**payload, "userId": ids.to_wire("usr", user_id)} if scope is Scope.TENANT else payload


def _wake_message(aggregate: str, tenant_id: UUID, user_id: UUID, *, delay_s: int) -> Message:
    """Starts a delivery. Its aggregate is not the user's, so it is not one of the user's events."""
    data = {"tenantId": str(tenant_id), "userId": str(user_id)}
    return Message(DESTINATION, aggregate, "wake", data, delay_s, tenant_id)


def notice_message(notice: Notice) -> Message:
    """The notice as a message of the outbox. One user's notices are written and sent one after the other."""
    data: dict[str, Any] = {
        "tenantId": str(notice.tenant_id),
        "userId": str(notice.user_id),
        "payload": dict(notice.payload or {}),
    }
    return Message(DESTINATION, aggregate_of(notice.user_id), "notice", data, tenant_id=notice.tenant_id)
