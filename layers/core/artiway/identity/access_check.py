"""The access check before every protected route: identity, rate limit, idempotency key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from artiway.errors import Unauthenticated
from artiway.identity.model import Access
from artiway.platform.http import Admission, Identity, Request
from artiway.platform.ratelimit import RateLimiter


class AccessLookup(Protocol):
    """Raises Unauthenticated for a session or key that does not exist or was ended."""

    def of_session(self, *, tenant_id: UUID, user_id: UUID, session_id: UUID) -> Access: ...

    def of_key(self, key: str, *, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Access: ...


class Idempotency(Protocol):
    def run(
        self,
        *,
        tenant_id: UUID,
        user_id: UUID,
        key: str,
        request_hash: str,
        perform: Callable[[], tuple[int, str]],
    ) -> tuple[int, str]: ...


class AccessCheck:
    """A token names the user; the user's permissions are read through the cache, so a revocation acts in a minute."""

    def __init__(self, accesses: AccessLookup, limiter: RateLimiter, idempotency: Callable[[], Idempotency]) -> None:
        self._accesses, self._limiter, self._idempotency = accesses, limiter, idempotency

    def admit(self, request: Request) -> Admission:
        access = self._access(request)
        identity = Identity(
            tenant_id=access.tenant_id,
            user_id=access.user_id,
            permissions=access.permissions,
            token_id=str(request.found.get("tokenId", "")),
            session_id=access.session_id,
            key_id=access.key_id,
        )
        buckets = [
            (f"tenant:{access.tenant_id}", access.rate_per_second, access.burst),
            (f"user:{access.user_id}", access.rate_per_second, access.burst),
        ]
        return Admission(identity, self._limiter.take(buckets))

    def count_failure(self, *, is_counted: bool) -> None:
        self._limiter.count_failure(is_counted=is_counted)

    def once(
        self, identity: Identity, *, key: str, request_hash: str, perform: Callable[[], tuple[int, str]]
    ) -> tuple[int, str]:
        return self._idempotency().run(
            tenant_id=identity.tenant_id,
            user_id=identity.user_id,
            key=key,
            request_hash=request_hash,
            perform=perform,
        )

    def _access(self, request: Request) -> Access:
        found = request.found
        if found.get("apiKey"):
            return self._accesses.of_key(
                _bearer(request),
                method=request.method,
                target=request.target,
                headers=request.headers,
                body=request.body,
            )
        if found.get("error"):
            raise Unauthenticated("the token is not valid", code=str(found["error"]))
        try:
            tenant_id, user_id = UUID(found["tenantId"]), UUID(found["userId"])
            session_id = UUID(found["sessionId"])
        except (KeyError, ValueError):
            raise Unauthenticated("log in first") from None
        return self._accesses.of_session(tenant_id=tenant_id, user_id=user_id, session_id=session_id)


def _bearer(request: Request) -> str:
    return str(request.headers.get("authorization", "")).partition(" ")[2].strip()
