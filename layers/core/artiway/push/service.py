"""Tells people what happened, over the WebSockets that they have open."""

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
    Claim,
    Connection,
    ConnectionGone,
    Look,
    MoreToTell,
    Notice,
    NotPosted,
    Outcome,
    Scope,
    Socket,
    aggregate_of,
)

logger = Logger("push")
DESTINATION = "push"
# API Gateway accepts a message for a connection only once its $connect has been answered.
GREETING_DELAY_S = 1
# Who wrote before the connection was there, and commits after it, saw nobody to send a hint to. By then they are done.
LATE_LOOK_S = 60
# One call ends well before the function's time; a hint to itself goes on.
PASSES = 20
POSTS_PER_CALL = 300
ENDED_BATCH = 200


class Sockets(Protocol):
    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        """Send to an open socket. Raises ConnectionGone for one that is closed, NotPosted if it surely did not go."""

    def close(self, connection_id: str) -> None: ...


class Connections(Protocol):
    def remember(self, connection: Connection, hints: Sequence[Message], *, after: int | None) -> None:
        """Store the connection and the hints in one transaction. It hears what came after `after`, or after the socket
        of its session that closed lately; otherwise, what comes from now on. Raises SessionEnded,
        TenantEventsNotAllowed or TooManySockets, by what the database knows now."""

    def close(self, connection_ids: Sequence[str]) -> None: ...

    def claim(self, tenant_id: UUID, user_id: UUID) -> Claim:
        """Take in hand the sockets that have something to hear and that nobody has in hand."""

    def ended(self, *, limit: int) -> Sequence[str]:
        """Open sockets whose session, user or tenant was ended, or whose user lost the permission for their scope."""

    def settle(self, outcomes: Sequence[Outcome], *, until: int) -> None:
        """Write down how far they came, and let go of them."""

    def newest_news_at(self, tenant_id: UUID, user_id: UUID) -> datetime | None: ...

    def hint(self, message: Message) -> None: ...

    def forget_expired(self) -> int: ...


class PushService:
    """A socket hears every change once and in order. A message is only the hint that there is something to tell; what
    there is lies in the outbox, in the order of commits, and each socket's row says how far it has been told.

    A socket is claimed before it is told something. If its teller dies, nobody can know what it heard: it is closed,
    and its client comes again with the cursor of the last message that it saw.

    A socket receives nothing after its session ended, its user was disabled or its tenant suspended. It is closed when
    the next event finds it, or by a sweep."""

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
        hints = [_hint(about, tenant_id, user_id, delay_s=delay_s) for delay_s in (GREETING_DELAY_S, LATE_LOOK_S)]
        self._connections.remember(connection, hints, after=after)

    def disconnect(self, connection_id: str) -> None:
        self._connections.close([connection_id])

    def answer(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        """Say something back to a socket that has just spoken."""
        try:
            self._sockets.post(connection_id, payload)
        except ConnectionGone:
            self._connections.close([connection_id])

    def deliver(self, notice: Notice, *, is_again: bool = False) -> int:
        """Bring each socket that receives the user's events up to date. Returns how many messages were heard."""
        heard = 0
        for _ in range(PASSES):
            claim = self._connections.claim(notice.tenant_id, notice.user_id)
            self._end(claim.ended)
            for look in claim.looks:
                self._close(look.doubtful)
            if claim.is_empty:
                return heard + self._finish(notice, claim, is_again=is_again)
            heard += self._tell(claim)
            if heard >= POSTS_PER_CALL:
                break
        self._wake(notice, delay_s=0)
        return heard

    def close_ended(self) -> int:
        """Close the sockets of who was logged out, disabled or suspended, or lost the permission. For a sweep."""
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
        # Who has a socket in hand looks again before they leave. Only if our first try died, it may have been theirs.
        if is_again and any(look.is_busy for look in claim.looks):
            self._wake(notice, delay_s=self._lease_s)
        if notice.is_passing and any(look.up_to_date for look in claim.looks):
            return self._pass_on(notice, claim)
        return 0

    def _wake(self, notice: Notice, *, delay_s: int) -> None:
        about = f"wake:{notice.user_id}"
        self._connections.hint(_hint(about, notice.tenant_id, notice.user_id, delay_s=delay_s))

    def _tell(self, claim: Claim) -> int:
        heard, is_refused = 0, False
        for look in claim.looks:
            outcomes = [self._bring_up_to_date(socket, look) for socket in look.claimed]
            self._connections.settle(outcomes, until=look.until)
            is_refused = is_refused or any(outcome.is_refused for outcome in outcomes)
            heard += sum(
                sum(socket.told < news.number <= outcome.told for news in look.news)
                for socket, outcome in zip(look.claimed, outcomes, strict=True)
            )
        if is_refused:
            raise MoreToTell("a socket takes nothing for now")
        return heard

    def _bring_up_to_date(self, socket: Socket, look: Look) -> Outcome:
        told, is_greeted = socket.told, socket.is_greeted
        try:
            if not is_greeted:
                self._post(socket.connection_id, {"type": "connected", "at": self._clock.now().isoformat()}, told)
                is_greeted = True
            for news in look.news:
                if news.number > told:
                    payload = _payload(news.payload, look.scope, news.user_id)
                    self._post(socket.connection_id, payload, news.number)
                    told = news.number
        except ConnectionGone:
            return Outcome(socket.connection_id, told, is_greeted, is_closed=True)
        except NotPosted:
            return Outcome(socket.connection_id, told, is_greeted, is_refused=True)
        except Exception:
            logger.exception("a socket may have heard more than we know", connection_id=socket.connection_id)
            self._close([socket.connection_id])
            return Outcome(socket.connection_id, told, is_greeted, is_closed=True)
        return Outcome(socket.connection_id, max(told, look.until), is_greeted)

    def _post(self, connection_id: str, payload: Mapping[str, Any], number: int) -> None:
        self._sockets.post(connection_id, {**payload, "cursor": str(number)})

    def _pass_on(self, notice: Notice, claim: Claim) -> int:
        """To who has heard all that came before. What a change has overtaken on the way is left out."""
        assert notice.payload is not None
        newest_at = self._connections.newest_news_at(notice.tenant_id, notice.user_id)
        if newest_at is not None and newest_at > datetime.fromisoformat(notice.payload["at"]):
            return 0
        heard = 0
        for look in claim.looks:
            payload = _payload(notice.payload, look.scope, notice.user_id)
            for connection_id in look.up_to_date:
                try:
                    self._sockets.post(connection_id, payload)
                except ConnectionGone:
                    self._connections.close([connection_id])
                except NotPosted:
                    metrics.emit("ProgressNotPushed", 1)
                else:
                    heard += 1
        return heard

    def _end(self, connection_ids: Sequence[str]) -> int:
        """Close sockets that may receive nothing any more. What API Gateway does not close now is left to the sweep."""
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
    """A socket of one user knows whose events it receives, one of the tenant does not."""
    return {**payload, "userId": ids.to_wire("usr", user_id)} if scope is Scope.TENANT else payload


def _hint(aggregate: str, tenant_id: UUID, user_id: UUID, *, delay_s: int) -> Message:
    """Not among the user's news: it says nothing itself."""
    data = {"tenantId": str(tenant_id), "userId": str(user_id)}
    return Message(DESTINATION, aggregate, "wake", data, delay_s, tenant_id)


def notice_message(notice: Notice) -> Message:
    """The notice as a message of the outbox. One user's notices are written, and told, one after the other."""
    data: dict[str, Any] = {
        "tenantId": str(notice.tenant_id),
        "userId": str(notice.user_id),
        "payload": dict(notice.payload or {}),
    }
    return Message(DESTINATION, aggregate_of(notice.user_id), "notice", data, tenant_id=notice.tenant_id)
