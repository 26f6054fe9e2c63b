"""API keys for programs. A key never has more permissions than the user who made it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from artiway.errors import NotFound, Refused
from artiway.identity.access.service import Revocations
from artiway.identity.model import (
    SECRET_BYTES,
    Actor,
    ApiKey,
    BeyondParent,
    KeyLimits,
    Permission,
    TokenNotAccepted,
    digest,
)
from artiway.ids import new_id
from artiway.platform.clock import Clock

PREFIX = "ak_"


class Store(Protocol):
    """`user_id` limits the result to a user's keys, `root_id` to a key and the keys that it made."""

    def add(self, key: ApiKey, secret_hash: bytes, *, limits: KeyLimits) -> None:
        """Raises TooManyKeys, or TokenNotAccepted if the parent was deleted meanwhile."""

    def key(self, tenant_id: UUID, key_id: UUID) -> ApiKey | None: ...

    def keys(
        self, tenant_id: UUID, *, user_id: UUID | None, root_id: UUID | None, after: UUID | None, limit: int
    ) -> Sequence[ApiKey]: ...

    def remove(
        self, tenant_id: UUID, key_id: UUID, *, user_id: UUID | None, root_id: UUID | None, actor_id: UUID
    ) -> Sequence[UUID]:
        """The deleted keys: this one and those that it made. Empty if there is no such key."""


class ApiKeyService:
    """A user manages their own keys; a user with `user.manage` those of the tenant.

    A key manages itself and the keys that it made. Those have at most its permissions, expire no later, must sign if it
    must, and cannot make keys, so that the user controls their number and depth.
    """

    def __init__(
        self, store: Store, revocations: Revocations, clock: Clock, *, limits: Callable[[], KeyLimits] = KeyLimits
    ) -> None:
        self._store, self._revocations, self._clock = store, revocations, clock
        self._limits = limits

    def create(
        self,
        actor: Actor,
        *,
        name: str,
        permissions: frozenset[str],
        expires_at: datetime | None,
        is_signed: bool | None,
    ) -> tuple[ApiKey, str]:
        """Create a key. Its secret is returned only here: the database has its hash."""
        actor.must_have(permissions)
        if actor.key_id is not None:
            expires_at, is_signed = self._bounded(actor.tenant_id, actor.key_id, expires_at, is_signed)
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise Refused("the request is not valid", fields=[{"field": "expiresAt", "reason": "is in the past"}])
        key = ApiKey(
            tenant_id=actor.tenant_id,
            key_id=new_id(),
            user_id=actor.user_id,
            name=name,
            permissions=permissions,
            is_signed=bool(is_signed),
            created_at=now,
            expires_at=expires_at,
            parent_key_id=actor.key_id,
        )
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._store.add(key, digest(secret), limits=self._limits())
        return key, f"{PREFIX}{key.tenant_id.hex}{key.key_id.hex}_{secret}"

    def keys(self, actor: Actor, *, after: UUID | None, limit: int) -> Sequence[ApiKey]:
        return self._store.keys(
            actor.tenant_id, user_id=_user_filter(actor), root_id=actor.key_id, after=after, limit=limit
        )

    def remove(self, actor: Actor, key_id: UUID) -> None:
        """Delete a key and the keys that it made."""
        removed = self._store.remove(
            actor.tenant_id, key_id, user_id=_user_filter(actor), root_id=actor.key_id, actor_id=actor.user_id
        )
        if not removed:
            raise NotFound("there is no such API key")
        for removed_id in removed:
            self._revocations.forget_key(actor.tenant_id, removed_id)

    def _bounded(
        self, tenant_id: UUID, parent_id: UUID, expires_at: datetime | None, is_signed: bool | None
    ) -> tuple[datetime | None, bool]:
        """Expiry and signature of a child key, by default the parent's. Raises BeyondParent if they are looser."""
        parent = self._store.key(tenant_id, parent_id)
        if parent is None:
            raise TokenNotAccepted
        if parent.parent_key_id is not None:
            raise BeyondParent("a key that was made by a key makes no keys")
        if parent.expires_at is not None and expires_at is not None and expires_at > parent.expires_at:
            raise BeyondParent("this key would outlive the key that makes it", field="expiresAt")
        if parent.is_signed and is_signed is False:
            raise BeyondParent("a key for signed requests makes only such keys", field="signed")
        return expires_at or parent.expires_at, parent.is_signed if is_signed is None else is_signed


def _user_filter(actor: Actor) -> UUID | None:
    return None if Permission.USER_MANAGE in actor.permissions else actor.user_id
