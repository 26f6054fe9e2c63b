"""Tenants for the platform's administrators: create, list, set the tier and its overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import Conflict
from artiway.identity.access.service import Revocations
from artiway.identity.model import (
    OWNER,
    NewUser,
    Policy,
    Tenant,
    TenantOrder,
    TenantStatus,
    TenantUser,
    TenantView,
    email_of,
)
from artiway.identity.service import Passwords
from artiway.ids import new_id


class PlatformTenant(Conflict):
    code = "TENANT_409_PLATFORM"


class Store(Protocol):
    def list(self, *, after: UUID | None, limit: int, q: str | None = None) -> Sequence[TenantView]: ...

    def users(self, tenant_id: UUID, *, after: UUID | None, limit: int) -> Sequence[TenantUser]:
        """Raises NotFound."""

    def orders(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[TenantOrder]:
        """Raises NotFound."""

    def add(self, tenant: Tenant, owner: NewUser | None, *, actor_id: UUID) -> TenantView: ...

    def change(self, tenant_id: UUID, changes: Mapping[str, Any], *, actor_id: UUID) -> TenantView:
        """Raises NotFound."""

    def is_platform(self, tenant_id: UUID) -> bool: ...

    def policies(self, tenant_ids: Sequence[UUID]) -> dict[UUID, Policy]: ...


class TenantService:
    """A change acts within a minute: the tenant's cached permissions are dropped at once."""

    def __init__(self, store: Store, passwords: Passwords, revocations: Revocations) -> None:
        self._store, self._passwords, self._revocations = store, passwords, revocations

    def list(self, *, after: UUID | None, limit: int, q: str | None = None) -> Sequence[TenantView]:
        """`q` is a part of the name, the id of the tenant, or the e-mail address of a user."""
        return self._store.list(after=after, limit=limit, q=q)

    def users(self, tenant_id: UUID, *, after: UUID | None, limit: int) -> Sequence[TenantUser]:
        return self._store.users(tenant_id, after=after, limit=limit)

    def orders(self, tenant_id: UUID, *, before: UUID | None, limit: int) -> Sequence[TenantOrder]:
        """Newest first."""
        return self._store.orders(tenant_id, before=before, limit=limit)

    def create(
        self, facts: Mapping[str, Any], *, owner_email: str | None, owner_password: str | None, actor_id: UUID
    ) -> TenantView:
        """Create a tenant, and its owner if one is given."""
        tenant = Tenant(tenant_id=new_id(), **facts)
        owner = None
        if owner_email is not None and owner_password is not None:
            owner = NewUser(
                tenant.tenant_id,
                new_id(),
                email_of(owner_email),
                None,
                self._passwords.hash(owner_password),
                (OWNER,),
            )
        return self._store.add(tenant, owner, actor_id=actor_id)

    def change(self, tenant_id: UUID, changes: Mapping[str, Any], *, actor_id: UUID) -> TenantView:
        """Change only the given fields. An override set to None falls back to the tier's default, or to no limit."""
        if changes.get("status") == TenantStatus.SUSPENDED and self._store.is_platform(tenant_id):
            raise PlatformTenant("the platform's own tenant cannot be suspended")
        view = self._store.change(tenant_id, changes, actor_id=actor_id)
        self._revocations.forget_tenant(tenant_id)
        return view

    def policies(self, tenant_ids: Sequence[UUID]) -> dict[UUID, Policy]:
        """The limits of each tenant now. An unknown tenant is not in the answer."""
        return self._store.policies(tenant_ids)
