"""Passwords: changed by their user, or reset by a link in a mail. A reset ends all sessions, a change all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from artiway.identity.access.service import Revocations
from artiway.identity.model import (
    LINK_LIFE,
    Account,
    BadCredentials,
    LinkInvalid,
    LoginThrottled,
    PasswordSet,
    RequestsThrottled,
    ResetRequest,
    Throttle,
    digest,
    login_of,
)
from artiway.identity.service import Passwords
from artiway.ids import new_id
from artiway.platform.clock import Clock


class Store(Protocol):
    """Works across tenants: a link and a login name no tenant."""

    def add_reset(self, request: ResetRequest) -> None:
        """Store the request and publish its mail in one transaction."""

    def use_reset(self, token_hash: bytes, password_hash: str, *, now: datetime) -> PasswordSet | None:
        """Set the password, end the link and all sessions in one transaction. None: the link is not valid."""

    def set_password(self, user_id: UUID, password_hash: str, *, kept_session: UUID | None) -> PasswordSet: ...

    def account_by_user(self, user_id: UUID) -> Account | None: ...

    def count_attempt(self, subjects: Sequence[tuple[bytes, int]], throttle: Throttle) -> int: ...

    def forgive_account(self, subject: bytes) -> None: ...


class ResetService:
    def __init__(
        self,
        store: Store,
        passwords: Passwords,
        revocations: Revocations,
        clock: Clock,
        *,
        requests: Callable[[], Throttle],
        failures: Callable[[], Throttle],
    ) -> None:
        """`requests` bounds mails per login and address, `failures` wrong current passwords."""
        self._store, self._passwords, self._revocations, self._clock = store, passwords, revocations, clock
        self._requests, self._failures = requests, failures

    def forgot(self, *, login: str, language: str | None, address: str) -> None:
        """Publish a mail with a link. The caller cannot see whether the login has an account, nor measure it."""
        throttle = self._requests()
        try:
            spelled = login_of(login)
        except BadCredentials:
            spelled = ""
        subjects = [
            (digest(f"reset-address:{address}"), throttle.address_failures),
            (digest(f"reset:{spelled or login}"), throttle.account_failures),
        ]
        if wait_s := self._store.count_attempt(subjects, throttle):
            raise RequestsThrottled(wait_s)
        if spelled:
            now = self._clock.now()
            self._store.add_reset(ResetRequest(new_id(), spelled, language, now, now + LINK_LIFE))

    def reset(self, *, token: str, password: str, address: str) -> None:
        """Set a password by a link, once. All sessions of the user end."""
        throttle = self._requests()
        subject = digest(f"link-address:{address}")
        if wait_s := self._store.count_attempt([(subject, throttle.address_failures)], throttle):
            raise RequestsThrottled(wait_s)
        done = self._store.use_reset(digest(token), self._passwords.hash(password), now=self._clock.now())
        if done is None:
            raise LinkInvalid
        self._store.forgive_account(subject)
        self._forget(done)

    def change(
        self, *, tenant_id: UUID, user_id: UUID, session_id: UUID | None, current_password: str, new_password: str
    ) -> None:
        """Set the caller's own password. The caller's session stays, all others end."""
        subject, throttle = digest(f"own-password:{user_id}"), self._failures()
        if wait_s := self._store.count_attempt([(subject, throttle.account_failures)], throttle):
            raise LoginThrottled(wait_s)
        account = self._store.account_by_user(user_id)
        is_right = self._passwords.matches(account.password_hash if account else None, current_password)
        if account is None or account.tenant_id != tenant_id or not is_right:
            raise BadCredentials
        self._store.forgive_account(subject)
        self._forget(self._store.set_password(user_id, self._passwords.hash(new_password), kept_session=session_id))

    def _forget(self, done: PasswordSet) -> None:
        for session_id in done.ended_sessions:
            self._revocations.forget_session(done.tenant_id, session_id)
