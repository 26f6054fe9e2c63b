"""Verifies access tokens with PyJWT, without a network call. The authorizer imports this module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import jwt

from artiway.errors import Unauthenticated
from artiway.identity.tokens import ALGORITHM, AUDIENCE, TOKEN_TYPE, Claims, TokenExpired

LENGTH_LIMIT = 8_192
_REQUIRED = ["exp", "iat", "sub", "jti", "iss", "aud"]


class Verifier:
    """Needs only the public keys: no network, no database."""

    def __init__(self, jwks: str, *, issuer: str) -> None:
        keys = json.loads(jwks or '{"keys": []}')["keys"]
        self._keys: Mapping[str, jwt.PyJWK] = {key["kid"]: jwt.PyJWK(key, ALGORITHM) for key in keys}
        self._issuer = issuer

    def verify(self, token: str) -> Claims:
        """The claims of a valid access token. Raises Unauthenticated or TokenExpired."""
        if len(token) > LENGTH_LIMIT:
            raise Unauthenticated("the token is too long")
        try:
            # Only to find the key: decode() reads the header again and checks the signature.
            header = json.loads(jwt.utils.base64url_decode(token.partition(".")[0]))
            key = self._keys.get(str(header.get("kid")))
            if key is None or header.get("typ") != TOKEN_TYPE:
                raise Unauthenticated("the token was not issued here")
            payload = jwt.decode(
                token,
                key=key,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=self._issuer,
                options={"require": _REQUIRED},
            )
            return Claims(
                tenant_id=UUID(payload["tid"]),
                user_id=UUID(payload["sub"]),
                permissions=tuple(str(payload["per"]).split()),
                token_id=str(payload["jti"]),
                family_id=str(payload["fam"]),
                issued_at=int(payload["iat"]),
                expires_at=int(payload["exp"]),
            )
        except jwt.ExpiredSignatureError:
            raise TokenExpired("the token has expired") from None
        except (jwt.PyJWTError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise Unauthenticated("the token is not valid") from error


def authorizer_context(verifier: Verifier, authorization: str) -> dict[str, Any]:
    """The identity in an Authorization header, or an error: the functions' access check answers with its code."""
    scheme, _, token = authorization.partition(" ")
    try:
        if scheme.lower() != "bearer":
            raise Unauthenticated("no bearer token")
        if token.lstrip().startswith("ak_"):
            # An API key needs the database and maybe the body, so the function's access check verifies it.
            return {"apiKey": "1"}
        claims = verifier.verify(token.strip())
    except Unauthenticated as error:
        return {"error": error.code}
    return {
        "tenantId": str(claims.tenant_id),
        "userId": str(claims.user_id),
        "permissions": " ".join(claims.permissions),
        "tokenId": claims.token_id,
        "sessionId": claims.family_id,
    }
