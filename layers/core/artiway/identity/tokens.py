"""Access tokens: ES256 JWTs, verified offline. The authorizer imports this module, so it stays light."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

import jwt

from artiway.errors import Unauthenticated

ALGORITHM = "ES256"
AUDIENCE = "artiway-api"
TOKEN_TYPE = "at+jwt"  # noqa: S105 (RFC 9068: an access token, so that no other JWT of ours passes for one)
LIFETIME_S = 900
LENGTH_LIMIT = 8_192
_REQUIRED = ["exp", "iat", "sub", "jti", "iss", "aud"]


class TokenExpired(Unauthenticated):
    code = "AUTH_401_TOKEN_EXPIRED"


@dataclass(frozen=True)
class Claims:
    """What an access token says: who, in which tenant, and what they may."""

    tenant_id: UUID
    user_id: UUID
    permissions: tuple[str, ...]
    token_id: str
    family_id: str
    issued_at: int
    expires_at: int


class Signer(Protocol):
    """Signs with a key that never leaves its keeper."""

    key_id: str

    def sign(self, message: bytes) -> bytes:
        """The ES256 signature in JOSE form: r and s, 32 bytes each."""


def issue(
    signer: Signer,
    *,
    issuer: str,
    tenant_id: UUID,
    user_id: UUID,
    permissions: tuple[str, ...],
    family_id: str,
    now: datetime,
    lifetime_s: int = LIFETIME_S,
) -> str:
    """Make a token that lives from now on for a short time."""
    header = {"alg": ALGORITHM, "typ": TOKEN_TYPE, "kid": signer.key_id}
    payload = {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": str(user_id),
        "tid": str(tenant_id),
        "per": " ".join(permissions),
        "fam": family_id,
        "jti": uuid4().hex,
        "iat": int(now.timestamp()),
        "exp": int((now + timedelta(seconds=lifetime_s)).timestamp()),
    }
    message = f"{_segment(header)}.{_segment(payload)}".encode()
    signature = jwt.utils.base64url_encode(signer.sign(message))
    return (message + b"." + signature).decode()


class Verifier:
    """Knows the public keys by their ids and nothing else: no network, no database."""

    def __init__(self, jwks: str, *, issuer: str) -> None:
        keys = json.loads(jwks or '{"keys": []}')["keys"]
        self._keys: Mapping[str, jwt.PyJWK] = {key["kid"]: jwt.PyJWK(key, ALGORITHM) for key in keys}
        self._issuer = issuer

    def verify(self, token: str) -> Claims:
        """The claims of a genuine, current access token; anything else is refused."""
        if len(token) > LENGTH_LIMIT:
            raise Unauthenticated("the token is too long")
        try:
            # Only to find the key: decoding looks at the header again, with the signature.
            header = json.loads(jwt.utils.base64url_decode(token.partition(".")[0]))
            key = self._keys.get(str(header.get("kid")))
            if key is None or header.get("typ") != TOKEN_TYPE:
                raise Unauthenticated("the token is not one of ours")
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


def _segment(part: Mapping[str, Any]) -> str:
    return jwt.utils.base64url_encode(json.dumps(part, separators=(",", ":")).encode()).decode()
