"""The routes of the WebSocket API: $connect with a token, $disconnect, and frames of the client."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from artiway import bootstrap
from artiway.errors import ArtiwayError, Unauthenticated
from artiway.platform import logs, tracing
from artiway.platform.logs import Logger
from artiway.push.model import Scope, parse_cursor

logger = Logger("websocket")
FRAME_LIMIT = 4_096


def handler(event: dict[str, Any], _context: Any) -> dict[str, int]:
    request = event["requestContext"]
    connection_id = request["connectionId"]
    with tracing.traced(None), logs.context(connection_id=connection_id, route=request["routeKey"]):
        match request["routeKey"]:
            case "$connect":
                return {"statusCode": _connect(connection_id, event)}
            case "$disconnect":
                bootstrap.push().disconnect(connection_id)
            case _:
                _answer(connection_id, event.get("body") or "")
    return {"statusCode": 200}


def _connect(connection_id: str, event: dict[str, Any]) -> int:
    """`?token=…`, optionally with `&after=<cursor>` and `&scope=tenant`. A status other than 200 refuses the socket."""
    asked = event.get("queryStringParameters") or {}
    try:
        bootstrap.origin().check(event.get("headers") or {})
        scope = asked.get("scope", Scope.USER)
        if scope not in set(Scope):
            return 400
        claims = bootstrap.token_verifier().verify(asked.get("token", ""))
        # The access check of every route: a token may be valid longer than its session.
        access = bootstrap.access().of_session(
            tenant_id=claims.tenant_id, user_id=claims.user_id, session_id=_session(claims.family_id)
        )
        bootstrap.push().connect(
            connection_id=connection_id,
            tenant_id=access.tenant_id,
            user_id=access.user_id,
            session_id=_session(claims.family_id),
            scope=Scope(scope),
            after=parse_cursor(asked.get("after")),
        )
    except ArtiwayError as refusal:
        logger.info("socket refused", code=refusal.code, reason=refusal.message)
        return refusal.status
    return 200


def _session(family_id: str) -> UUID:
    try:
        return UUID(family_id)
    except ValueError:
        raise Unauthenticated("log in first") from None


def _answer(connection_id: str, frame: str) -> None:
    try:
        action = json.loads(frame)["action"] if len(frame) <= FRAME_LIMIT else None
    except (ValueError, KeyError, TypeError, RecursionError):
        action = None
    kind = "pong" if action == "ping" else "error"
    bootstrap.push().answer(connection_id, {"type": kind, "at": datetime.now(UTC).isoformat()})
