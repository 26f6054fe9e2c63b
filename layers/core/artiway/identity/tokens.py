"""Access tokens: ES256 JWTs. The authorizer imports this module at every cold start, so it imports little."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

from artiway.errors import Unauthenticated

ALGORITHM = "ES256"
AUDIENCE = "artiway-api"
TOKEN_TYPE = "at+jwt"  # noqa: S105 (RFC 9068: no other JWT of ours passes for an access token)
LIFETIME_S = 900


class TokenExpired(Unauthenticated):
    code = "AUTH_401_TOKEN_EXPIRED"


@dataclass(frozen=True)
class Claims:
    """The claims of an access token: user, tenant and permissions."""

    tenant_id: UUID
    user_id: UUID
    permissions: tuple[str, ...]
    token_id: str
    family_id: str
    issued_at: int
    expires_at: int


class Signer(Protocol):
    """Signs with a key that never leaves KMS."""

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
    """Make a signed access token that expires after `lifetime_s`."""
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
    signature = _encoded(signer.sign(message))
    return f"{message.decode()}.{signature}"


def _segment(part: Mapping[str, Any]) -> str:
    return _encoded(json.dumps(part, separators=(",", ":")).encode())


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
