"""Registration, logins, refresh and logout."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from artiway.errors import ArtiwayError
from artiway.identity import tokens
from artiway.identity.access.service import Revocations
from artiway.identity.model import (
    OWNER,
    SECRET_BYTES,
    Account,
    AccountClosed,
    BadCredentials,
    Invited,
    LinkInvalid,
    LoginEvent,
    LoginMethod,
    LoginTaken,
    LoginThrottled,
    NewSession,
    NewUser,
    PeopleLimits,
    RefreshReused,
    RefreshState,
    RefreshVerdict,
    RequestsThrottled,
    Tenant,
    TenantSuspended,
    Throttle,
    Tier,
    TokenNotAccepted,
    Tokens,
    WechatPerson,
    digest,
    email_of,
    judge_refresh,
    login_of,
    phone_of,
    with_included,
)
from artiway.ids import new_id, to_wire
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("identity")
REFRESH_PREFIX = "rt_"
ROTATE_TRIES = 3
SESSIONS_PER_USER = 50
# What a lookup answers if it found no location.
UNKNOWN_PLACES = frozenset({"", "unknown"})


class Passwords(Protocol):
    def hash(self, password: str) -> str: ...

    def matches(self, password_hash: str | None, password: str) -> bool: ...

    def is_outdated(self, password_hash: str) -> bool: ...


class Store(Protocol):
    """Works across tenants, because a login names no tenant."""

    def add_tenant(
        self,
        tenant: Tenant,
        owner: NewUser,
        session: NewSession | None,
        login: LoginEvent | None,
        wechat: WechatPerson | None = None,
    ) -> None:
        """Store all of it in one transaction. Raises LoginTaken if the e-mail, phone or WeChat identity is in use."""

    def account_by_login(self, login: str) -> Account | None: ...

    def account_by_wechat(self, person: WechatPerson) -> Account | None:
        """By the identity, else by its unionid; then the identity is stored for the next login."""

    def permissions_of_role(self, name: str) -> tuple[str, ...]: ...

    def open_session(self, session: NewSession, login: LoginEvent, *, most: int) -> Sequence[UUID] | None:
        """The user's oldest sessions that were ended to keep `most` open. None if the account was closed."""

    def set_password_hash(self, user_id: UUID, password_hash: str) -> None: ...

    def refresh_state(self, token_hash: bytes, *, successor_hash: bytes) -> RefreshState | None: ...

    def rotate(self, token_hash: bytes, successor: NewSession) -> bool:
        """Mark the token used and store its successor in one transaction. False if it was used or ended meanwhile."""

    def revoke_session(self, tenant_id: UUID, session_id: UUID, reason: str) -> None: ...

    def count_attempt(self, subjects: Sequence[tuple[bytes, int]], throttle: Throttle) -> int:
        """Count a failure in advance for each (subject, free failures). Returns the seconds to wait, or 0."""

    def forgive(self, *, account: bytes, address: bytes) -> None:
        """After a success: reset the account's failures, and count one failure less for the address."""


class Invitations(Protocol):
    """Across tenants: a link names no tenant."""

    def invited(self, token_hash: bytes, *, now: datetime) -> Invited | None: ...

    def accept(
        self,
        invited: Invited,
        token_hash: bytes,
        user: NewUser,
        session: NewSession,
        login: LoginEvent,
        *,
        most_users: int,
        now: datetime,
    ) -> bool:
        """Store all of it in one transaction. False if the link ended meanwhile. Raises LoginTaken, TooManyUsers."""


class WechatLogin(Protocol):
    def exchange(self, app: str, code: str) -> WechatPerson:
        """The person to whom WeChat gave this code."""


class Locator(Protocol):
    def begin(self, address: str) -> Callable[[], str]:
        """Start a lookup. The returned function waits a limited time for the location."""


@dataclass(frozen=True)
class Lifetimes:
    access_s: int = tokens.LIFETIME_S
    idle: timedelta = timedelta(days=7)
    absolute: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(seconds=10)


class AuthService:
    """A login returns a short-lived access token and a refresh token. Each refresh token is valid for one use."""

    def __init__(
        self,
        store: Store,
        passwords: Passwords,
        signer: tokens.Signer,
        wechat: WechatLogin,
        locator: Locator,
        revocations: Revocations,
        clock: Clock,
        *,
        issuer: str,
        refresh_secret: Callable[[], bytes],
        throttle: Callable[[], Throttle] = Throttle,
        lifetimes: Lifetimes | None = None,
        sessions_per_user: Callable[[], int] = lambda: SESSIONS_PER_USER,
        invitations: Invitations,
        links: Callable[[], Throttle] = Throttle,
        people_limits: Callable[[], PeopleLimits] = PeopleLimits,
    ) -> None:
        """`links` bounds the links of an address that are not valid."""
        self._store, self._passwords, self._signer, self._wechat = store, passwords, signer, wechat
        self._locator, self._revocations, self._clock = locator, revocations, clock
        self._issuer, self._refresh_secret = issuer, refresh_secret
        self._throttle, self._lifetimes = throttle, lifetimes or Lifetimes()
        self._sessions_per_user = sessions_per_user
        self._invitations, self._links, self._people_limits = invitations, links, people_limits

    def register(self, *, tenant_name: str, email: str, password: str, phone: str | None, address: str) -> Tokens:
        """Create a tenant with its owner, and log the owner in."""
        location = self._locator.begin(address)
        spelled_email, spelled_phone = email_of(email), phone_of(phone) if phone else None
        return self._register(
            tenant_name,
            method=LoginMethod.REGISTER,
            address=address,
            location=location,
            email=spelled_email,
            phone=spelled_phone,
            password_hash=self._passwords.hash(password),
        )

    def login(self, *, login: str, password: str, address: str) -> Tokens:
        """Log in by e-mail or phone. The attempt counts as failed until it succeeds, so parallel guesses count too."""
        try:
            spelled = login_of(login)
        except BadCredentials:
            spelled = ""
        account_subject, address_subject = digest(f"account:{spelled or login}"), digest(f"address:{address}")
        throttle = self._throttle()
        wait_s = self._store.count_attempt(
            [(address_subject, throttle.address_failures), (account_subject, throttle.account_failures)], throttle
        )
        if wait_s:
            raise LoginThrottled(wait_s)
        location = self._locator.begin(address)
        account = self._store.account_by_login(spelled) if spelled else None
        is_right = self._passwords.matches(account.password_hash if account else None, password)
        if account is None or account.password_hash is None or not is_right:
            raise BadCredentials
        self._store.forgive(account=account_subject, address=address_subject)
        if self._passwords.is_outdated(account.password_hash):
            self._store.set_password_hash(account.user_id, self._passwords.hash(password))
        return self._admit(account, LoginMethod.PASSWORD, address, location)

    def login_by_wechat(self, *, app: str, code: str, address: str) -> Tokens:
        """Log in with a code from WeChat. The first login creates a tenant for the user."""
        location = self._locator.begin(address)
        person = self._wechat.exchange(app, code)
        method = LoginMethod.WECHAT_MINI if app == "mini" else LoginMethod.WECHAT_WEB
        account = self._store.account_by_wechat(person)
        if account is None:
            try:
                return self._register("WeChat", method=method, address=address, location=location, wechat=person)
            except LoginTaken:  # a parallel first login of the same person was faster
                account = self._store.account_by_wechat(person)
        if account is None:
            raise ArtiwayError("the WeChat identity is taken and cannot be found")
        return self._admit(account, method, address, location)

    def invited(self, *, token: str, address: str) -> Invited:
        """Who invites, for the page that the link opens."""
        subject = digest(f"link-address:{address}")
        throttle = self._links()
        if wait_s := self._store.count_attempt([(subject, throttle.address_failures)], throttle):
            raise RequestsThrottled(wait_s)
        found = self._invitations.invited(digest(token), now=self._clock.now())
        if found is None:
            raise LinkInvalid
        self._store.forgive(account=subject, address=subject)
        return found

    def join(self, *, token: str, password: str, display_name: str | None, address: str) -> Tokens:
        """Accept an invitation: create the user with the invited roles, and log the user in."""
        invited = self.invited(token=token, address=address)
        location = self._locator.begin(address)
        password_hash = self._passwords.hash(password)
        user = NewUser(
            invited.tenant_id, new_id(), invited.email, None, password_hash, invited.roles, display_name=display_name
        )
        account = Account(invited.tenant_id, user.user_id, password_hash, True, invited.permissions)
        session, refresh_token = self._new_session(account)
        pair = self._sign(account, session.session_id, refresh_token)
        is_accepted = self._invitations.accept(
            invited,
            digest(token),
            user,
            session,
            self._login_event(account, LoginMethod.REGISTER, address, location),
            most_users=self._people_limits().users,
            now=self._clock.now(),
        )
        if not is_accepted:
            raise LinkInvalid
        return replace(pair, is_new=True)

    def refresh(self, token: str) -> Tokens:
        """A new pair for an unused token. Within the grace a repeated call returns the same unused successor.

        After the grace, or once the successor was used, the token counts as stolen and the session ends.
        """
        token_hash, successor = digest(token), self._successor_of(token)
        for _ in range(ROTATE_TRIES):
            state = self._store.refresh_state(token_hash, successor_hash=digest(successor))
            if state is None:
                raise TokenNotAccepted
            now = self._clock.now()
            match judge_refresh(state, now=now, grace=self._lifetimes.grace):
                case RefreshVerdict.REUSED:
                    self._revoke(state.tenant_id, state.session_id, "reuse")
                    logger.warning("refresh token reused", tenant_id=state.tenant_id, user_id=state.user_id)
                    raise RefreshReused
                case RefreshVerdict.REFUSED:
                    raise TokenNotAccepted
                case RefreshVerdict.EXPIRED:
                    raise tokens.TokenExpired("the session has expired")
                case RefreshVerdict.SUSPENDED:
                    raise TenantSuspended  # the token stays unused: it works again once the tenant is active
                case RefreshVerdict.REPEAT:
                    return self._tokens_for(state, successor)
                case RefreshVerdict.ROTATE:
                    # Signed first: if signing fails, the refresh token stays unused.
                    pair = self._tokens_for(state, successor)
                    follow_up = NewSession(
                        tenant_id=state.tenant_id,
                        session_id=state.session_id,
                        user_id=state.user_id,
                        created_at=now,
                        expires_at=state.session_expires_at,
                        token_hash=digest(successor),
                        token_expires_at=min(now + self._lifetimes.idle, state.session_expires_at),
                    )
                    if self._store.rotate(token_hash, follow_up):
                        return pair
        raise TokenNotAccepted

    def logout(self, *, tenant_id: UUID, session_id: UUID) -> None:
        self._revoke(tenant_id, session_id, "logout")

    # --- helpers

    def _register(
        self,
        tenant_name: str,
        *,
        method: LoginMethod,
        address: str,
        location: Callable[[], str],
        email: str | None = None,
        phone: str | None = None,
        password_hash: str | None = None,
        wechat: WechatPerson | None = None,
    ) -> Tokens:
        tenant = Tenant(new_id(), tenant_name, Tier.FREE)
        owner = NewUser(tenant.tenant_id, new_id(), email, phone, password_hash, (OWNER,))
        account = Account(tenant.tenant_id, owner.user_id, password_hash, True, self._store.permissions_of_role(OWNER))
        session, refresh_token = self._new_session(account)
        pair = self._sign(account, session.session_id, refresh_token)
        login = self._login_event(account, method, address, location)
        self._store.add_tenant(tenant, owner, session, login, wechat)
        logger.info("tenant registered", tenant=to_wire("tnt", tenant.tenant_id), method=method)
        return replace(pair, is_new=True)

    def _admit(self, account: Account, method: LoginMethod, address: str, location: Callable[[], str]) -> Tokens:
        if not account.is_open:
            raise AccountClosed
        if account.is_suspended:
            raise TenantSuspended
        session, refresh_token = self._new_session(account)
        pair = self._sign(account, session.session_id, refresh_token)
        login = self._login_event(account, method, address, location)
        ended = self._store.open_session(session, login, most=self._sessions_per_user())
        if ended is None:
            raise AccountClosed
        for session_id in ended:
            self._revocations.forget_session(account.tenant_id, session_id)
        return pair

    def _new_session(self, account: Account) -> tuple[NewSession, str]:
        now = self._clock.now()
        token = REFRESH_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        session = NewSession(
            tenant_id=account.tenant_id,
            session_id=new_id(),
            user_id=account.user_id,
            created_at=now,
            expires_at=now + self._lifetimes.absolute,
            token_hash=digest(token),
            token_expires_at=now + self._lifetimes.idle,
        )
        return session, token

    def _login_event(
        self, account: Account, method: LoginMethod, address: str, location: Callable[[], str]
    ) -> LoginEvent:
        place = location()[:200]
        return LoginEvent(
            tenant_id=account.tenant_id,
            login_id=new_id(),
            user_id=account.user_id,
            method=method,
            address=address[:64],
            location=place,
            logged_at=self._clock.now(),
            is_place_known=place not in UNKNOWN_PLACES,
        )

    def _successor_of(self, token: str) -> str:
        """Derived from the token and a server secret, so that a repeated answer needs no stored token."""
        mac = hmac.new(self._refresh_secret(), token.encode(), hashlib.sha256).digest()
        return REFRESH_PREFIX + base64.urlsafe_b64encode(mac).rstrip(b"=").decode()

    def _tokens_for(self, state: RefreshState, refresh_token: str) -> Tokens:
        account = Account(state.tenant_id, state.user_id, None, True, state.permissions)
        return self._sign(account, state.session_id, refresh_token)

    def _sign(self, account: Account, session_id: UUID, refresh_token: str) -> Tokens:
        access_token = tokens.issue(
            self._signer,
            issuer=self._issuer,
            tenant_id=account.tenant_id,
            user_id=account.user_id,
            permissions=tuple(sorted(with_included(account.permissions))),
            family_id=str(session_id),
            now=self._clock.now(),
            lifetime_s=self._lifetimes.access_s,
        )
        return Tokens(account.tenant_id, account.user_id, access_token, refresh_token, self._lifetimes.access_s)

    def _revoke(self, tenant_id: UUID, session_id: UUID, reason: str) -> None:
        self._store.revoke_session(tenant_id, session_id, reason)
        self._revocations.forget_session(tenant_id, session_id)
