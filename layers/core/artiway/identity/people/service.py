"""The users of a tenant and their roles. A user cannot grant or change permissions that they do not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol
from uuid import UUID

from artiway.errors import NotFound, Refused
from artiway.identity.access.service import Revocations
from artiway.identity.model import (
    OWNER,
    PLATFORM_ADMIN,
    Actor,
    LastOwner,
    Login,
    Me,
    NewUser,
    Organisation,
    PeopleLimits,
    Role,
    RoleFixed,
    RoleInUse,
    RoleTaken,
    TooManyRoles,
    TooManyUsers,
    User,
    UserStatus,
    email_of,
)
from artiway.identity.service import Passwords
from artiway.ids import new_id, to_wire


class PeopleTransaction(Protocol):
    """One transaction on the users of a tenant. Other changes of the same tenant wait."""

    def user(self, user_id: UUID) -> User | None: ...

    def roles(self) -> Sequence[Role]: ...

    def count_users(self) -> int: ...

    def add_user(self, user: NewUser) -> None:
        """Raises LoginTaken."""

    def set_status(self, user_id: UUID, status: str) -> None: ...

    def set_roles(self, user_id: UUID, roles: Sequence[str]) -> None: ...

    def set_concurrency(self, user_id: UUID, concurrency: int | None) -> None: ...

    def organisation(self) -> Organisation: ...

    def change_organisation(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the values before."""

    def change_profile(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of the caller. Returns the values before."""

    def mark_logins_seen(self) -> None: ...

    def end_sessions(self, user_id: UUID) -> None: ...

    def active_owners(self) -> int: ...

    def add_role(self, name: str, permissions: frozenset[str]) -> None: ...

    def change_role(self, name: str, permissions: frozenset[str]) -> None: ...

    def remove_role(self, name: str) -> None: ...

    def holders_of(self, role: str) -> int: ...

    def record(self, action: str, target: str, details: dict[str, Any]) -> None: ...


class Store(Protocol):
    def me(self, tenant_id: UUID, user_id: UUID) -> Me | None: ...

    def users(self, tenant_id: UUID, *, after: UUID | None, limit: int) -> Sequence[User]: ...

    def logins(self, tenant_id: UUID, user_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Login] | None:
        """None if the tenant has no such user."""

    def organisation(self, tenant_id: UUID) -> Organisation: ...

    def roles(self, tenant_id: UUID) -> Sequence[Role]: ...

    def change(self, actor: Actor) -> AbstractContextManager[PeopleTransaction]:
        """A transaction that commits at the end of the block."""


class Unchanged:
    """Stands for a value that a change leaves as it is, where None is a value."""


UNCHANGED = Unchanged()


class PeopleService:
    def __init__(
        self,
        store: Store,
        passwords: Passwords,
        revocations: Revocations,
        *,
        limits: Callable[[], PeopleLimits] = PeopleLimits,
    ) -> None:
        self._store, self._passwords, self._revocations = store, passwords, revocations
        self._limits = limits

    def me(self, tenant_id: UUID, user_id: UUID) -> Me:
        me = self._store.me(tenant_id, user_id)
        if me is None:
            raise NotFound("there is no such user")
        return me

    def change_me(self, actor: Actor, changes: Mapping[str, Any], *, has_seen_logins: bool = False) -> Me:
        """Change the given fields, `display_name`, `language` and `email_notices`, of the caller."""
        with self._store.change(actor) as people:
            if changes:
                before = people.change_profile(changes)
                people.record(
                    "profile.changed", to_wire("usr", actor.user_id), {"before": before, "after": dict(changes)}
                )
            if has_seen_logins:
                people.mark_logins_seen()
        return self.me(actor.tenant_id, actor.user_id)

    def logins(self, tenant_id: UUID, user_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Login]:
        """The logins of a user of the tenant, newest first."""
        found = self._store.logins(tenant_id, user_id, before=before, limit=limit)
        if found is None:
            raise NotFound("there is no such user")
        return found

    def users(self, tenant_id: UUID, *, after: UUID | None, limit: int) -> Sequence[User]:
        return self._store.users(tenant_id, after=after, limit=limit)

    def invite(self, actor: Actor, *, email: str, password: str, roles: Sequence[str]) -> User:
        password_hash = self._passwords.hash(password)  # before the transaction, because hashing is slow
        user = NewUser(actor.tenant_id, new_id(), email_of(email), None, password_hash, tuple(sorted(set(roles))))
        with self._store.change(actor) as people:
            actor.must_have(permissions_of(people.roles(), user.roles))
            # Disabled users count too: their rows stay, so inviting and disabling in turn would bypass the limit.
            if people.count_users() >= (most := self._limits().users):
                raise TooManyUsers(most)
            people.add_user(user)
            people.record(
                "user.invited", to_wire("usr", user.user_id), {"email": user.email, "roles": list(user.roles)}
            )
            added = people.user(user.user_id)
        assert added is not None
        return added

    def change(
        self,
        actor: Actor,
        user_id: UUID,
        *,
        roles: Sequence[str] | None = None,
        status: str | None = None,
        concurrency: int | Unchanged | None = UNCHANGED,
    ) -> User:
        """Set roles, disable or enable a user. The sessions of a disabled user end at once.

        `concurrency` is how many nodes of the user may run at once; None: as many as the tenant allows each user.
        """
        with self._store.change(actor) as people:
            user = people.user(user_id)
            if user is None:
                raise NotFound("there is no such user")
            actor.must_have(user.permissions)
            if roles is not None and set(roles) != set(user.roles):
                wanted = tuple(sorted(set(roles)))
                actor.must_have(permissions_of(people.roles(), wanted))
                people.set_roles(user_id, wanted)
                people.record(
                    "user.roles_changed", to_wire("usr", user_id), {"before": list(user.roles), "after": list(wanted)}
                )
            if status is not None and status != user.status:
                people.set_status(user_id, status)
                if status == UserStatus.DISABLED:
                    people.end_sessions(user_id)
                people.record("user.status_changed", to_wire("usr", user_id), {"before": user.status, "after": status})
            if not isinstance(concurrency, Unchanged) and concurrency != user.concurrency:
                people.set_concurrency(user_id, concurrency)
                people.record(
                    "user.concurrency_changed",
                    to_wire("usr", user_id),
                    {"before": user.concurrency, "after": concurrency},
                )
            if OWNER in user.roles and people.active_owners() == 0:
                raise LastOwner
            changed = people.user(user_id)
        self._revocations.forget_tenant(actor.tenant_id)
        assert changed is not None
        return changed

    def organisation(self, tenant_id: UUID) -> Organisation:
        return self._store.organisation(tenant_id)

    def change_organisation(self, actor: Actor, changes: Mapping[str, Any]) -> Organisation:
        """Change the given fields, `name`, `user_concurrency` and `low_balance_points`, of the caller's own tenant."""
        with self._store.change(actor) as people:
            if changes:
                before = people.change_organisation(changes)
                people.record(
                    "tenant.changed", to_wire("tnt", actor.tenant_id), {"before": before, "after": dict(changes)}
                )
            return people.organisation()

    def roles(self, tenant_id: UUID) -> Sequence[Role]:
        return self._store.roles(tenant_id)

    def add_role(self, actor: Actor, *, name: str, permissions: frozenset[str]) -> Role:
        actor.must_have(permissions)
        with self._store.change(actor) as people:
            roles = people.roles()
            if name == PLATFORM_ADMIN or any(role.name == name for role in roles):
                raise RoleTaken("there is a role of this name already", name=name)
            if sum(not role.is_built_in for role in roles) >= (most := self._limits().roles):
                raise TooManyRoles(most)
            people.add_role(name, permissions)
            people.record("role.created", f"role:{name}", {"permissions": sorted(permissions)})
        return Role(name, permissions, is_built_in=False)

    def change_role(self, actor: Actor, name: str, *, permissions: frozenset[str]) -> Role:
        with self._store.change(actor) as people:
            role = _own_role(people, name)
            actor.must_have(role.permissions | permissions)
            people.change_role(name, permissions)
            people.record(
                "role.changed", f"role:{name}", {"before": sorted(role.permissions), "after": sorted(permissions)}
            )
        self._revocations.forget_tenant(actor.tenant_id)
        return Role(name, permissions, is_built_in=False)

    def remove_role(self, actor: Actor, name: str) -> None:
        with self._store.change(actor) as people:
            role = _own_role(people, name)
            actor.must_have(role.permissions)
            if holders := people.holders_of(name):
                raise RoleInUse("users still have this role", holders=holders)
            people.remove_role(name)
            people.record("role.deleted", f"role:{name}", {"permissions": sorted(role.permissions)})


def permissions_of(roles: Sequence[Role], names: Sequence[str]) -> frozenset[str]:
    """The permissions of the named roles together. Raises Refused for a role that does not exist."""
    known = {role.name: role.permissions for role in roles}
    if unknown := sorted(set(names) - known.keys()):
        raise Refused("the request is not valid", fields=[{"field": "roles", "reason": f"no such role: {unknown[0]}"}])
    return frozenset().union(*(known[name] for name in names))


def _own_role(people: PeopleTransaction, name: str) -> Role:
    for role in people.roles():
        if role.name == name:
            if role.is_built_in:
                raise RoleFixed("built-in roles cannot be changed")
            return role
    raise NotFound("there is no such role")
