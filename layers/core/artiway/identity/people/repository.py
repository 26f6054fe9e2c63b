"""The users of one tenant, as `artiway_app`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.identity import repository as accounts
from artiway.identity.model import Actor, Login, LoginTaken, Me, NewUser, Organisation, Role, User
from artiway.platform import sql
from artiway.platform.database import Database, Row, Transaction

SQL = sql.load("artiway.identity.people")


class PostgresPeople:
    def __init__(self, database: Database, audit: AuditLog) -> None:
        self._database, self._audit = database, audit

    def me(self, tenant_id: UUID, user_id: UUID) -> Me | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["me"], {"user_id": user_id})
        return None if row is None else Me(**row | {"roles": tuple(row["roles"])})

    def users(self, tenant_id: UUID, *, after: UUID | None, limit: int) -> Sequence[User]:
        with self._database.tenant_transaction(tenant_id) as tx:
            return [_user(row) for row in tx.all(SQL["users"], {"user_id": None, "after": after, "limit": limit})]

    def logins(self, tenant_id: UUID, user_id: UUID, *, before: UUID | None, limit: int) -> Sequence[Login] | None:
        facts = {"user_id": user_id, "before": before, "limit": limit}
        with self._database.tenant_transaction(tenant_id) as tx:
            if tx.one(SQL["is_user"], facts) is None:
                return None
            return [Login(**row) for row in tx.all(SQL["logins"], facts)]

    def organisation(self, tenant_id: UUID) -> Organisation:
        with self._database.tenant_transaction(tenant_id) as tx:
            return _organisation(tx)

    def roles(self, tenant_id: UUID) -> Sequence[Role]:
        with self._database.tenant_transaction(tenant_id) as tx:
            return roles_of(tx)

    @contextlib.contextmanager
    def change(self, actor: Actor) -> Iterator[PostgresPeopleTransaction]:
        with self._database.tenant_transaction(actor.tenant_id) as tx:
            tx.run(SQL["lock_people"])
            yield PostgresPeopleTransaction(tx, self._audit, actor)


class PostgresPeopleTransaction:
    """One transaction on the users of a tenant. Other changes of the same tenant wait."""

    def __init__(self, tx: Transaction, audit: AuditLog, actor: Actor) -> None:
        self._tx, self._audit, self._actor = tx, audit, actor

    def user(self, user_id: UUID) -> User | None:
        row = self._tx.one(SQL["users"], {"user_id": user_id, "after": None, "limit": 1})
        return None if row is None else _user(row)

    def roles(self) -> Sequence[Role]:
        return roles_of(self._tx)

    def count_users(self) -> int:
        row = self._tx.one(SQL["count_users"])
        return int(row["users"]) if row else 0

    def add_user(self, user: NewUser) -> None:
        accounts.insert_user(self._tx, user, LoginTaken("this e-mail address has an account already"))

    def set_status(self, user_id: UUID, status: str) -> None:
        self._tx.run(SQL["set_user_status"], {"user_id": user_id, "status": status})

    def set_concurrency(self, user_id: UUID, concurrency: int | None) -> None:
        self._tx.run(SQL["set_user_concurrency"], {"user_id": user_id, "concurrency": concurrency})

    def change_organisation(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the values before."""
        before = self._tx.one(SQL["lock_organisation"])
        assert before is not None
        self._tx.run(SQL["update_organisation"], before | dict(changes))
        return {name: before[name] for name in changes}

    def organisation(self) -> Organisation:
        return _organisation(self._tx)

    def change_profile(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of the caller. Returns the values before."""
        caller = {"user_id": self._actor.user_id}
        before = self._tx.one(SQL["lock_profile"], caller)
        if before is None:
            raise NotFound("there is no such user")
        self._tx.run(SQL["update_profile"], before | dict(changes) | caller)
        return {name: before[name] for name in changes}

    def mark_logins_seen(self) -> None:
        self._tx.run(SQL["mark_logins_seen"], {"user_id": self._actor.user_id})

    def set_roles(self, user_id: UUID, roles: Sequence[str]) -> None:
        facts = {"tenant_id": self._actor.tenant_id, "user_id": user_id, "roles": list(roles)}
        self._tx.run(SQL["delete_roles"], facts)
        self._tx.run(accounts.SQL["insert_roles"], facts)

    def end_sessions(self, user_id: UUID) -> None:
        self._tx.run(accounts.SQL["revoke_sessions_of_user"], {"user_id": user_id, "reason": "disabled"})

    def active_owners(self) -> int:
        row = self._tx.one(SQL["active_owners"])
        return int(row["owners"]) if row else 0

    def add_role(self, name: str, permissions: frozenset[str]) -> None:
        facts = {"tenant_id": self._actor.tenant_id, "name": name, "permissions": sorted(permissions)}
        self._tx.run(SQL["insert_role"], facts)

    def change_role(self, name: str, permissions: frozenset[str]) -> None:
        self._tx.run(SQL["update_role"], {"name": name, "permissions": sorted(permissions)})

    def remove_role(self, name: str) -> None:
        self._tx.run(SQL["delete_role"], {"name": name})

    def holders_of(self, role: str) -> int:
        row = self._tx.one(SQL["holders_of_role"], {"name": role})
        return int(row["holders"]) if row else 0

    def record(self, action: str, target: str, details: dict[str, Any]) -> None:
        self._audit.record(self._tx, actor_id=self._actor.user_id, action=action, target=target, details=details)


def _user(row: Row) -> User:
    return User(**row | {"roles": tuple(row["roles"]), "permissions": frozenset(row["permissions"])})


def _organisation(tx: Transaction) -> Organisation:
    row = tx.one(SQL["organisation"])
    assert row is not None
    return Organisation(**row)


def roles_of(tx: Transaction) -> Sequence[Role]:
    return [Role(**row | {"permissions": frozenset(row["permissions"])}) for row in tx.all(SQL["roles"])]
