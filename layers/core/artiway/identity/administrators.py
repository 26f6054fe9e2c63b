"""The platform's administrators: a deployment makes the first one."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from artiway.identity.model import Account, email_of
from artiway.identity.service import Passwords


class AdministratorStore(Protocol):
    def account_by_login(self, login: str) -> Account | None: ...

    def put_administrator(self, *, email: str, password_hash: str) -> UUID:
        """Create the account, or replace the password of the one that has this e-mail address."""


class AdministratorService:
    """Makes administrators. A second call with the same login only sets the password."""

    def __init__(self, store: AdministratorStore, passwords: Passwords) -> None:
        self._store, self._passwords = store, passwords

    def ensure(self, *, login: str, password: str) -> UUID:
        """The administrator's user id. An account that already has this password does not change."""
        email = email_of(login)
        known = self._store.account_by_login(email)
        if known is not None and self._passwords.matches(known.password_hash, password):
            return known.user_id
        return self._store.put_administrator(email=email, password_hash=self._passwords.hash(password))
