"""Open sockets in PostgreSQL, and the client of API Gateway that posts to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import aws, sql
from artiway.platform.database import Database, Row, Transaction
from artiway.push.model import (
    Admission,
    Batch,
    Claim,
    Connection,
    ConnectionGone,
    NotPosted,
    Outcome,
    Scope,
    Socket,
    SocketLimits,
    UserEvent,
    aggregate_of,
    user_of,
)

if TYPE_CHECKING:
    from mypy_boto3_apigatewaymanagementapi import ApiGatewayManagementApiClient

SQL = sql.load("artiway.push")
EVENTS_LIMIT = 50
# One pass posts at most 10 x 20 or 4 x 50 messages in a few seconds. A lease lasts as long as the function may run.
SOCKETS_PER_PASS = 10
POSTS_PER_PASS = 200
GONE = frozenset({"GoneException", "BadRequestException"})  # a malformed id names no socket either
REFUSED = frozenset({"LimitExceededException", "ThrottlingException", "TooManyRequestsException", "ForbiddenException"})


class PostgresConnections:
    """Works across tenants: a $disconnect event carries the connection's id and no tenant.

    The events of a user are the messages of the user's aggregate in the outbox, in the order of commits."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        *,
        settling_s: float,
        lease_s: float,
        resume_s: int,
        limits: SocketLimits,
    ) -> None:
        self._database, self._outbox, self._limits = database, outbox, limits
        self._settling_s, self._lease_s, self._resume_s = settling_s, lease_s, resume_s

    def add(self, connection: Connection, messages: Sequence[Message], *, after: int | None) -> None:
        person = _person(connection.tenant_id, connection.user_id)
        facts = {**asdict(connection), **person}
        is_tenant_wide = connection.scope is Scope.TENANT
        with self._database.service_transaction() as tx:
            tx.run(SQL["lock_sockets_of_tenant"], facts)
            admission = tx.one(SQL["admission"], facts)
            assert admission is not None
            Admission(**admission).check(connection.scope, self._limits)
            # A transaction that writes events of this user or tenant has committed, or will see the socket.
            if is_tenant_wide:
                tx.run(SQL["wait_for_writers_of_tenant"], facts)
            else:
                self._outbox.serialise(tx, [person["aggregate"]])
            closed = tx.one(SQL["take_over"], {**facts, "resume_s": self._resume_s})
            if after is None and closed is not None:
                after = int(closed["last_sent"])
            newest = tx.one(SQL["newest_event_of_tenant" if is_tenant_wide else "newest_event_of_user"], facts)
            assert newest is not None
            if tx.one(SQL["insert_connection"], {**facts, "after": after, "newest": newest["number"]}):
                self._outbox.publish(tx, messages)

    def close(self, connection_ids: Sequence[str]) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["close_connection"], {"connection_ids": list(connection_ids)})

    def claim(self, tenant_id: UUID, user_id: UUID) -> Claim:
        person = _person(tenant_id, user_id)
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["sockets_of_user"], {**person, "settling_s": self._settling_s})
            allowed = [row for row in rows if row["is_allowed"]]
            groups = {scope: [row for row in allowed if row["scope"] == scope] for scope in Scope}
            return Claim(
                [self._batch(tx, person, scope, group) for scope, group in groups.items() if group],
                ended=[row["connection_id"] for row in rows if not row["is_allowed"]],
            )

    def _batch(self, tx: Transaction, person: Mapping[str, Any], scope: Scope, rows: Sequence[Row]) -> Batch:
        idle = [row for row in rows if not row["is_busy"]]
        uncertain = [row["connection_id"] for row in rows if row["is_uncertain"]]
        is_busy = len(rows) > len(idle) + len(uncertain)
        if not idle:
            return Batch(scope, uncertain=uncertain, is_busy=is_busy)
        # The sockets that are furthest behind. If there is no event for them, there is none for the others.
        chosen = sorted(idle, key=lambda row: (row["is_greeted"], row["last_sent"]))[:SOCKETS_PER_PASS]
        after = min(row["last_sent"] for row in chosen)
        events = self._events(tx, person, scope, after, limit=min(EVENTS_LIMIT, POSTS_PER_PASS // len(chosen)))
        if not events and all(row["is_greeted"] for row in chosen):
            names = [row["connection_id"] for row in idle]
            return Batch(scope, up_to_date=names, uncertain=uncertain, is_busy=is_busy)
        until = events[-1].number if events else max(row["last_sent"] for row in chosen)
        claimed = tx.all(
            SQL["claim_sockets"],
            {
                "connection_ids": [row["connection_id"] for row in chosen],
                "after": after,
                "until": until,
                "lease_s": self._lease_s,
            },
        )
        return Batch(scope, [Socket(**row) for row in claimed], events, until, uncertain=uncertain, is_busy=is_busy)

    def ended(self, *, limit: int) -> list[str]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["ended_sockets"], {"limit": limit, "settling_s": self._settling_s})
        return [row["connection_id"] for row in rows]

    def settle(self, outcomes: Sequence[Outcome], *, until: int) -> None:
        with self._database.service_transaction() as tx:
            tx.run_many(SQL["settle_socket"], [{**asdict(outcome), "until": until} for outcome in outcomes])

    def newest_event_at(self, tenant_id: UUID, user_id: UUID) -> datetime | None:
        with self._database.service_transaction() as tx:
            row = tx.one(SQL["newest_event_at"], _person(tenant_id, user_id))
        return row["created_at"] if row else None

    def publish(self, message: Message) -> None:
        with self._database.service_transaction() as tx:
            self._outbox.publish(tx, [message])

    def forget_expired(self) -> int:
        with self._database.service_transaction() as tx:
            return tx.run(SQL["forget_expired"], {"resume_s": self._resume_s})

    @staticmethod
    def _events(tx: Transaction, person: Mapping[str, Any], scope: Scope, after: int, *, limit: int) -> list[UserEvent]:
        query = SQL["events_of_tenant" if scope is Scope.TENANT else "events_of_user"]
        rows = tx.all(query, {**person, "after": after, "limit": limit})
        return [_event(row) for row in rows]


def _event(row: Row) -> UserEvent:
    """The event of a task is stored with the task."""
    payload = row["event"] or json.loads(row["body"])["data"]["payload"]
    return UserEvent(row["outbox_id"], payload, user_of(row["aggregate"]))


def _person(tenant_id: UUID, user_id: UUID) -> dict[str, Any]:
    return {"tenant_id": tenant_id, "user_id": user_id, "aggregate": aggregate_of(user_id)}


class ApiGatewaySockets:
    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        from botocore.exceptions import ClientError

        data = json.dumps(payload, ensure_ascii=False, default=str).encode()
        try:
            self._api().post_to_connection(ConnectionId=connection_id, Data=data)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in GONE:
                raise ConnectionGone from error
            if code in REFUSED:
                raise NotPosted from error
            raise

    def close(self, connection_id: str) -> None:
        from botocore.exceptions import ClientError

        try:
            self._api().delete_connection(ConnectionId=connection_id)
        except ClientError as error:
            if error.response["Error"]["Code"] not in GONE:
                raise

    def _api(self) -> ApiGatewayManagementApiClient:
        """Without retries: a retry after a lost answer would send the event twice."""
        api: ApiGatewayManagementApiClient = aws.client("apigatewaymanagementapi", self._endpoint, retries=0)
        return api
