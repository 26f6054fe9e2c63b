"""Open sockets in PostgreSQL, and the way to post to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import UUID

from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform import aws, sql
from artiway.platform.database import Database
from artiway.push.model import Connection, ConnectionGone

if TYPE_CHECKING:
    from mypy_boto3_apigatewaymanagementapi import ApiGatewayManagementApiClient

SQL = sql.load("artiway.push")


class PostgresConnections:
    """Works across tenants: a socket that closes names its connection and no tenant."""

    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database, self._outbox = database, outbox

    def remember(self, connection: Connection, greeting: Message) -> None:
        with self._database.service_transaction() as tx:
            if tx.run(SQL["remember_connection"], asdict(connection)):
                self._outbox.publish(tx, [greeting])

    def forget(self, connection_id: str) -> None:
        with self._database.service_transaction() as tx:
            tx.run(SQL["forget_connection"], {"connection_id": connection_id})

    def of_user(self, tenant_id: UUID, user_id: UUID) -> Sequence[str]:
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["connections_of_user"], {"tenant_id": tenant_id, "user_id": user_id})
        return [row["connection_id"] for row in rows]

    def forget_expired(self) -> int:
        with self._database.service_transaction() as tx:
            return tx.run(SQL["forget_expired"])


class ApiGatewaySockets:
    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def post(self, connection_id: str, payload: Mapping[str, Any]) -> None:
        from botocore.exceptions import ClientError

        api: ApiGatewayManagementApiClient = aws.client("apigatewaymanagementapi", self._endpoint)
        try:
            api.post_to_connection(
                ConnectionId=connection_id, Data=json.dumps(payload, ensure_ascii=False, default=str).encode()
            )
        except ClientError as error:
            # A malformed id names no socket either.
            if error.response["Error"]["Code"] in {"GoneException", "BadRequestException"}:
                raise ConnectionGone from error
            raise
