"""Says who is asking. Runs before every request, so it imports a JWT library and nothing heavier."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from artiway.errors import Unauthenticated
from artiway.identity.token_verifier import Verifier


@cache
def _verifier() -> Verifier:
    # No pydantic here: reading two variables is not worth 0.2 s of cold start.
    return Verifier(os.environ["ARTIWAY_TOKEN_JWKS"], issuer=os.environ["ARTIWAY_TOKEN_ISSUER"])


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Always lets the request through, with an identity or an error: API Gateway's own refusal has no code in it."""
    scheme, _, token = event.get("headers", {}).get("authorization", "").partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise Unauthenticated("no bearer token")
        if token.lstrip().startswith("ak_"):
            # A key needs the database and perhaps the body: the function's own gate looks it up.
            return {"isAuthorized": True, "context": {"apiKey": "1"}}
        claims = _verifier().verify(token.strip())
    except Unauthenticated as error:
        return {"isAuthorized": True, "context": {"error": error.code}}
    return {
        "isAuthorized": True,
        "context": {
            "tenantId": str(claims.tenant_id),
            "userId": str(claims.user_id),
            "permissions": " ".join(claims.permissions),
            "tokenId": claims.token_id,
            "sessionId": claims.family_id,
        },
    }
