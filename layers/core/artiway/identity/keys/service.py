"""API keys: a machine's way in, with permissions of its own that never exceed those of the person who made it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused
from artiway.identity.model import SECRET_BYTES, Actor, ApiKey, Permission, digest
from artiway.ids import new_id
from artiway.platform.clock import Clock

PREFIX = "ak_"
MOST_KEYS = 100


class TooManyKeys(Conflict):
    code = "KEY_409_TOO_MANY"


class Store(Protocol):
    def add(self, key: ApiKey, secret_hash: bytes, *, most: int) -> bool:
        """False if the person has `most` keys already."""

    def keys(self, tenant_id: UUID, *, user_id: UUID | None, after: UUID | None, limit: int) -> Sequence[ApiKey]: ...

    def remove(self, tenant_id: UUID, key_id: UUID, *, user_id: UUID | None, actor_id: UUID) -> bool: ...


class Revocations(Protocol):
    def forget_key(self, tenant_id: UUID, key_id: UUID) -> None: ...


class ApiKeyService:
    """A person sees and removes their own keys; who manages users, those of the tenant."""

    def __init__(self, store: Store, revocations: Revocations, clock: Clock) -> None:
        self._store, self._revocations, self._clock = store, revocations, clock

    def create(
        self, actor: Actor, *, name: str, permissions: frozenset[str], expires_at: datetime | None, is_signed: bool
    ) -> tuple[ApiKey, str]:
        """The key itself is told here and never again: only its hash is kept."""
        actor.must_have(permissions)
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise Refused("the request is not valid", fields=[{"field": "expiresAt", "reason": "is in the past"}])
        key = ApiKey(actor.tenant_id, new_id(), actor.user_id, name, permissions, is_signed, now, expires_at)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        if not self._store.add(key, digest(secret), most=MOST_KEYS):
            raise TooManyKeys(f"a person has at most {MOST_KEYS} keys; delete one first")
        return key, f"{PREFIX}{key.tenant_id.hex}{key.key_id.hex}_{secret}"

    def keys(self, actor: Actor, *, after: UUID | None, limit: int) -> Sequence[ApiKey]:
        return self._store.keys(actor.tenant_id, user_id=self._scope(actor), after=after, limit=limit)

    def remove(self, actor: Actor, key_id: UUID) -> None:
        if not self._store.remove(actor.tenant_id, key_id, user_id=self._scope(actor), actor_id=actor.user_id):
            raise NotFound("there is no such API key")
        self._revocations.forget_key(actor.tenant_id, key_id)

    @staticmethod
    def _scope(actor: Actor) -> UUID | None:
        return None if Permission.USER_MANAGE in actor.permissions else actor.user_id
