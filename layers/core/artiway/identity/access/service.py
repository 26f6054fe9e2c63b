"""The permissions of a session or an API key now. Every request needs them, so they are cached for up to a minute."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import Unauthenticated
from artiway.identity.model import Access, TenantSuspended, TokenNotAccepted, digest, signature_of, text_to_sign
from artiway.identity.tokens import TokenExpired
from artiway.platform.clock import Clock
from artiway.platform.ports import Cache

# Together one minute: a logout or a change of roles acts within it even if the invalidation is lost.
CACHE_S, JITTER_S = 50, 10
WINDOW = timedelta(minutes=5)
TIMESTAMP_HEADER = "x-artiway-timestamp"
NONCE_HEADER = "x-artiway-nonce"
SIGNATURE_HEADER = "x-artiway-signature"
_KEY = re.compile(r"ak_([0-9a-f]{32})([0-9a-f]{32})(?:_([A-Za-z0-9_-]{43}))?")
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,128}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


class SignatureInvalid(Unauthenticated):
    code = "AUTH_401_SIGNATURE_INVALID"


class Store(Protocol):
    """Rows as JSON types, because the cache stores JSON. None if there is no such row."""

    def session_access(self, tenant_id: UUID, session_id: UUID) -> dict[str, Any] | None: ...

    def key_access(self, tenant_id: UUID, key_id: UUID) -> dict[str, Any] | None: ...


class Nonces(Protocol):
    def spend(self, tenant_id: UUID, key_id: UUID, nonce: str, *, for_: timedelta) -> bool:
        """Store the nonce. False if it was used before."""


class Revocations(Protocol):
    """Drops cached permissions, so that a revocation acts at once."""

    def forget_session(self, tenant_id: UUID, session_id: UUID) -> None: ...

    def forget_key(self, tenant_id: UUID, key_id: UUID) -> None: ...

    def forget_tenant(self, tenant_id: UUID) -> None: ...


class CachedAccess:
    """The cache keys of permissions. A dropped key reaches every process; at worst after a minute."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    @staticmethod
    def session_key(tenant_id: UUID, session_id: UUID) -> str:
        return f"access:{tenant_id.hex}:session:{session_id.hex}"

    @staticmethod
    def key_key(tenant_id: UUID, key_id: UUID) -> str:
        return f"access:{tenant_id.hex}:key:{key_id.hex}"

    def forget_session(self, tenant_id: UUID, session_id: UUID) -> None:
        self.cache.invalidate(self.session_key(tenant_id, session_id))

    def forget_key(self, tenant_id: UUID, key_id: UUID) -> None:
        self.cache.invalidate(self.key_key(tenant_id, key_id))

    def forget_tenant(self, tenant_id: UUID) -> None:
        self.cache.invalidate_prefix(f"access:{tenant_id.hex}:")


class AccessService:
    def __init__(self, store: Store, cached: CachedAccess, nonces: Nonces, clock: Clock) -> None:
        self._store, self._cached, self._nonces, self._clock = store, cached, nonces, clock

    def of_session(self, *, tenant_id: UUID, user_id: UUID, session_id: UUID) -> Access:
        """The access of a session. Raises TokenNotAccepted if the session was ended or does not exist."""
        facts = self._cached.cache.get(
            self._cached.session_key(tenant_id, session_id),
            lambda: self._store.session_access(tenant_id, session_id),
            ttl_s=CACHE_S,
            jitter_s=JITTER_S,
        )
        if facts is None or not facts["is_open"] or UUID(facts["user_id"]) != user_id:
            raise TokenNotAccepted
        return _access(tenant_id, facts, session_id=session_id)

    def of_key(self, key: str, *, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Access:
        """The access of an API key. A key for signed requests may be sent without its secret."""
        match = _KEY.fullmatch(key)
        if match is None:
            raise TokenNotAccepted
        tenant_id, key_id, secret = UUID(match[1]), UUID(match[2]), match[3]
        facts = self._cached.cache.get(
            self._cached.key_key(tenant_id, key_id),
            lambda: self._store.key_access(tenant_id, key_id),
            ttl_s=CACHE_S,
            jitter_s=JITTER_S,
        )
        if facts is None or not facts["is_open"]:
            raise TokenNotAccepted
        secret_hash = bytes.fromhex(facts["secret_hash"])
        if secret is None and not facts["is_signed"]:
            raise TokenNotAccepted
        if secret is not None and not hmac.compare_digest(digest(secret), secret_hash):
            raise TokenNotAccepted
        if facts["expires_at"] is not None and self._clock.now().timestamp() >= facts["expires_at"]:
            raise TokenExpired("the API key has expired")
        if facts["is_signed"]:
            self._check_signature(
                tenant_id, key_id, secret_hash, method=method, target=target, headers=headers, body=body
            )
        return _access(tenant_id, facts, key_id=key_id)

    def _check_signature(
        self,
        tenant_id: UUID,
        key_id: UUID,
        secret_hash: bytes,
        *,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        timestamp, nonce = headers.get(TIMESTAMP_HEADER, ""), headers.get(NONCE_HEADER, "")
        if not _TIMESTAMP.fullmatch(timestamp) or not _NONCE.fullmatch(nonce):
            raise SignatureInvalid(f"send {TIMESTAMP_HEADER}, {NONCE_HEADER} and {SIGNATURE_HEADER}")
        if abs(self._clock.now().timestamp() - int(timestamp)) > WINDOW.total_seconds():
            raise SignatureInvalid("the timestamp differs from the server's by more than five minutes")
        message = text_to_sign(method=method, target=target, timestamp=timestamp, nonce=nonce, body=body)
        expected = signature_of(secret_hash, message).encode()
        if not hmac.compare_digest(expected, headers.get(SIGNATURE_HEADER, "").encode("utf-8", "replace")):
            raise SignatureInvalid("the signature does not match the request")
        # Last, so that a caller without the secret cannot use up nonces. Kept for both sides of the window.
        if not self._nonces.spend(tenant_id, key_id, nonce, for_=2 * WINDOW):
            raise SignatureInvalid("this nonce was used before")


def _access(
    tenant_id: UUID, facts: Mapping[str, Any], *, session_id: UUID | None = None, key_id: UUID | None = None
) -> Access:
    # The last check. A cached entry of the previous release has no such field, for a minute.
    if facts.get("is_suspended"):
        raise TenantSuspended
    return Access(
        tenant_id=tenant_id,
        user_id=UUID(facts["user_id"]),
        permissions=frozenset(facts["permissions"]),
        rate_per_second=facts["rate_per_second"],
        burst=facts["burst"],
        session_id=session_id,
        key_id=key_id,
    )
