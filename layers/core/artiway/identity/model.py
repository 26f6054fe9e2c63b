"""Tenants, users, permissions, sessions and API keys."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from artiway.errors import Conflict, NotAllowed, Refused, TooMany, Unauthenticated

PASSWORD_LENGTH = (8, 128)
SECRET_BYTES = 32
# How long a link in a mail is valid, to reset a password or to accept an invitation.
LINK_LIFE = timedelta(minutes=30)
OWNER = "owner"
PLATFORM_ADMIN = "platform_admin"


class Permission(StrEnum):
    TASK_SUBMIT = "task.submit"
    TASK_READ = "task.read"
    TASK_CANCEL = "task.cancel"
    TASK_MANAGE = "task.manage"
    POINTS_READ = "points.read"
    POINTS_GRANT = "points.grant"
    POINTS_TRANSFER = "points.transfer"
    ORDER_CREATE = "order.create"
    ORDER_REFUND = "order.refund"
    JOB_READ = "job.read"
    JOB_WRITE = "job.write"
    JOB_RUN = "job.run"
    JOB_OPS = "job.ops"
    WEBHOOK_MANAGE = "webhook.manage"
    USER_MANAGE = "user.manage"
    TENANT_MANAGE = "tenant.manage"
    OPS_READ = "ops.read"
    OPS_WRITE = "ops.write"


# Permissions that a permission includes. An included permission includes no other.
INCLUDED: Mapping[str, frozenset[str]] = {
    Permission.JOB_WRITE: frozenset({Permission.JOB_READ, Permission.WEBHOOK_MANAGE}),
}


def with_included(permissions: Iterable[str]) -> frozenset[str]:
    held = frozenset(str(permission) for permission in permissions)
    return held.union(*(map(str, INCLUDED[permission]) for permission in held if permission in INCLUDED))


def effective_permissions(*sets: Iterable[str]) -> frozenset[str]:
    """The permissions that every set grants, included permissions counted."""
    return frozenset.intersection(*map(with_included, sets))


class Tier(StrEnum):
    ENTERPRISE = "enterprise"
    VIP = "vip"
    STANDARD = "standard"
    FREE = "free"


class TenantStatus(StrEnum):
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"


class UserStatus(StrEnum):
    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"


class LoginMethod(StrEnum):
    REGISTER = "register"
    PASSWORD = "password"  # noqa: S105 (a login method, not a secret)
    WECHAT_MINI = "wechat_mini"
    WECHAT_WEB = "wechat_web"


# --- errors


class LoginTaken(Conflict):
    code = "AUTH_409_LOGIN_TAKEN"


class BadCredentials(Unauthenticated):
    """The same message for an unknown login and a wrong password."""

    code = "AUTH_401_BAD_CREDENTIALS"

    def __init__(self) -> None:
        super().__init__("the login or the password is not right")


class RefreshReused(Unauthenticated):
    code = "AUTH_401_REFRESH_REUSED"

    def __init__(self) -> None:
        super().__init__("this refresh token was used before; all of its session is revoked")


class TokenNotAccepted(Unauthenticated):
    def __init__(self) -> None:
        super().__init__("the token is not valid")


class AccountClosed(NotAllowed):
    code = "AUTH_403_ACCOUNT_CLOSED"

    def __init__(self) -> None:
        super().__init__("this account is disabled")


class TenantSuspended(NotAllowed):
    """Raised after authentication only, so that other callers learn nothing about a tenant."""

    code = "TENANT_403_SUSPENDED"

    def __init__(self) -> None:
        super().__init__("this tenant is suspended")


class LoginThrottled(TooMany):
    code = "AUTH_429_THROTTLED"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many failed logins; wait before the next", retry_after_s=retry_after_s)


class RequestsThrottled(TooMany):
    """Mails and links are bounded per login and address, whether the login has an account or not."""

    code = "AUTH_429_THROTTLED"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many requests of this kind; wait before the next", retry_after_s=retry_after_s)


class LinkInvalid(Unauthenticated):
    """The same for an unknown, used, replaced and expired link."""

    code = "AUTH_401_LINK_INVALID"

    def __init__(self) -> None:
        super().__init__("this link is not valid any more; ask for a new one")


class LastOwner(Conflict):
    code = "USER_409_LAST_OWNER"

    def __init__(self) -> None:
        super().__init__("a tenant keeps at least one active owner")


class TooManyUsers(Conflict):
    code = "USER_409_TOO_MANY"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a tenant has at most {limit} users, disabled ones included", limit=limit)


class InvitationOpen(Conflict):
    code = "INVITATION_409_OPEN"

    def __init__(self, invitation_id: str) -> None:
        super().__init__("this address has an open invitation; send it again", invitationId=invitation_id)


class InvitationEnded(Conflict):
    code = "INVITATION_409_ENDED"

    def __init__(self) -> None:
        super().__init__("this invitation was accepted or revoked")


class TooManyInvitations(Conflict):
    code = "INVITATION_409_TOO_MANY"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a tenant has at most {limit} open invitations; revoke one first", limit=limit)


class InvitationJustSent(TooMany):
    code = "INVITATION_429_SENT"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("this invitation was just sent; wait before the next", retry_after_s=retry_after_s)


class TooManyRoles(Conflict):
    code = "ROLE_409_TOO_MANY"

    def __init__(self, limit: int) -> None:
        super().__init__(f"a tenant has at most {limit} roles of its own; delete one first", limit=limit)


class TooManyKeys(Conflict):
    code = "KEY_409_TOO_MANY"

    def __init__(self, owner: str, limit: int) -> None:
        super().__init__(f"a {owner} has at most {limit} API keys; delete one first", limit=limit)


class RoleTaken(Conflict):
    code = "ROLE_409_TAKEN"


class RoleFixed(Conflict):
    code = "ROLE_409_BUILT_IN"


class RoleInUse(Conflict):
    code = "ROLE_409_IN_USE"


class NotYours(NotAllowed):
    """A user may not grant, remove or change permissions that they do not have."""

    def __init__(self, missing: frozenset[str]) -> None:
        super().__init__("this reaches beyond your own permissions", missing=sorted(missing))


class BeyondParent(NotAllowed):
    """A key made by a key expires no later, must sign if its parent must, and cannot make keys."""

    code = "KEY_403_BEYOND_PARENT"


# --- values


@dataclass(frozen=True)
class Tenant:
    """An override that is None means the tier's default."""

    tenant_id: UUID
    name: str
    tier: str
    status: str = TenantStatus.ACTIVE
    is_platform: bool = False
    weight: int | None = None
    concurrency: int | None = None
    queue_depth: int | None = None
    rate_per_second: int | None = None
    burst: int | None = None
    user_concurrency: int | None = None
    job_concurrency: int | None = None
    job_per_minute: int | None = None
    job_period_s: int | None = None


OVERRIDES = ("weight", "concurrency", "queue_depth", "rate_per_second", "burst")
# Limits of scheduled jobs. The defaults of the tier are live settings of jobs.
JOB_OVERRIDES = ("job_concurrency", "job_per_minute", "job_period_s")
# They have no default of the tier: NULL is no limit.
OWN_LIMITS = ("user_concurrency",)


@dataclass(frozen=True)
class Policy:
    """A tenant's limits now: its overrides, and its tier's defaults for the rest."""

    tenant_id: UUID
    tier: str
    status: str
    priority: str
    weight: int
    concurrency: int
    queue_depth: int
    rate_per_second: int
    burst: int
    artefact_days: int
    user_concurrency: int | None = None


@dataclass(frozen=True)
class TenantView:
    tenant: Tenant
    policy: Policy
    created_at: datetime


@dataclass(frozen=True)
class TenantUser:
    """A user as the platform's administrators see them."""

    user_id: UUID
    email: str | None
    phone: str | None
    display_name: str | None
    status: str
    created_at: datetime
    balance: int
    frozen: int
    roles: tuple[str, ...]


@dataclass(frozen=True)
class TenantOrder:
    order_id: UUID
    user_id: UUID
    email: str | None
    status: str
    package_id: str
    amount_fen: int
    points: int
    refunded_fen: int
    channel: str
    transaction_id: str | None
    flag: str | None
    created_at: datetime
    paid_at: datetime | None


@dataclass(frozen=True)
class Organisation:
    """A tenant as its own people see it. `user_concurrency`: nodes of one user at once; None is no limit."""

    tenant_id: UUID
    name: str
    tier: str
    concurrency: int
    user_concurrency: int | None
    low_balance_points: int | None = None  # below it a user gets a notice; None: no notice


@dataclass(frozen=True)
class NewUser:
    tenant_id: UUID
    user_id: UUID
    email: str | None
    phone: str | None
    password_hash: str | None
    roles: tuple[str, ...]
    display_name: str | None = None


@dataclass(frozen=True)
class User:
    user_id: UUID
    email: str | None
    phone: str | None
    status: str
    roles: tuple[str, ...]
    permissions: frozenset[str]
    created_at: datetime
    concurrency: int | None = None
    display_name: str | None = None
    last_login_at: datetime | None = None
    balance: int = 0


@dataclass(frozen=True)
class Actor:
    """The caller and their permissions. With `key_id` the caller is an API key, not its user."""

    tenant_id: UUID
    user_id: UUID
    permissions: frozenset[str]
    key_id: UUID | None = None

    def must_have(self, permissions: frozenset[str]) -> None:
        if missing := permissions - with_included(self.permissions):
            raise NotYours(missing)


@dataclass(frozen=True)
class Me:
    user_id: UUID
    tenant_id: UUID
    tier: str
    email: str | None
    roles: tuple[str, ...]
    phone: str | None
    display_name: str | None
    language: str | None
    email_notices: bool
    tenant_name: str
    artefact_days: int
    low_balance_points: int | None
    balance: int
    frozen: int
    had_trial: bool
    new_place_at: datetime | None  # the newest login from a new place that the user has not seen
    new_place_location: str | None

    @property
    def is_low(self) -> bool:
        return self.low_balance_points is not None and self.balance < self.low_balance_points


@dataclass(frozen=True)
class Login:
    """A login as the user sees it."""

    login_id: UUID
    method: str
    address: str
    location: str
    logged_at: datetime
    is_new_place: bool


class InvitationStatus(StrEnum):
    OPEN = "OPEN"
    ACCEPTED = "ACCEPTED"
    REVOKED = "REVOKED"
    EXPIRED = "EXPIRED"


@dataclass(frozen=True)
class Invitation:
    invitation_id: UUID
    email: str
    roles: tuple[str, ...]
    language: str | None
    invited_by: UUID
    inviter_email: str | None
    created_at: datetime
    sent_at: datetime
    expires_at: datetime
    accepted_at: datetime | None = None
    revoked_at: datetime | None = None
    user_id: UUID | None = None

    def status(self, now: datetime) -> InvitationStatus:
        if self.accepted_at is not None:
            return InvitationStatus.ACCEPTED
        if self.revoked_at is not None:
            return InvitationStatus.REVOKED
        return InvitationStatus.OPEN if now < self.expires_at else InvitationStatus.EXPIRED


@dataclass(frozen=True)
class ResetRequest:
    """A login as it was typed, normal form. It may name no account."""

    reset_id: UUID
    login: str
    language: str | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class PasswordSet:
    """Whose password was set, and the sessions that ended with it."""

    tenant_id: UUID
    user_id: UUID
    ended_sessions: Sequence[UUID]


@dataclass(frozen=True)
class Invited:
    """An invitation whose link is valid, as the invited person sees it."""

    tenant_id: UUID
    invitation_id: UUID
    email: str
    roles: tuple[str, ...]
    expires_at: datetime
    tenant_name: str
    permissions: tuple[str, ...]


@dataclass(frozen=True)
class Account:
    """A user as the login needs them."""

    tenant_id: UUID
    user_id: UUID
    password_hash: str | None
    is_open: bool
    permissions: tuple[str, ...]
    is_suspended: bool = False


@dataclass(frozen=True)
class Role:
    name: str
    permissions: frozenset[str]
    is_built_in: bool


@dataclass(frozen=True)
class WechatPerson:
    appid: str
    openid: str
    unionid: str | None


@dataclass(frozen=True)
class NewSession:
    """A session and its first refresh token, of which only the hash is stored."""

    tenant_id: UUID
    session_id: UUID
    user_id: UUID
    created_at: datetime
    expires_at: datetime
    token_hash: bytes
    token_expires_at: datetime


@dataclass(frozen=True)
class LoginEvent:
    tenant_id: UUID
    login_id: UUID
    user_id: UUID
    method: str
    address: str
    location: str
    logged_at: datetime
    is_place_known: bool = True  # the location was found


@dataclass(frozen=True)
class Tokens:
    tenant_id: UUID
    user_id: UUID
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_in_s: int
    is_new: bool = False


@dataclass(frozen=True)
class RefreshState:
    """The facts that decide about a refresh token."""

    tenant_id: UUID
    session_id: UUID
    user_id: UUID
    used_at: datetime | None
    expires_at: datetime
    session_expires_at: datetime
    is_revoked: bool
    is_open: bool
    permissions: tuple[str, ...]
    is_suspended: bool
    is_successor_known: bool
    is_successor_used: bool


class RefreshVerdict(StrEnum):
    ROTATE = "rotate"
    REPEAT = "repeat"  # the answer was lost: return the same successor again
    REUSED = "reused"
    EXPIRED = "expired"
    REFUSED = "refused"
    SUSPENDED = "suspended"


def judge_refresh(state: RefreshState, *, now: datetime, grace: timedelta) -> RefreshVerdict:
    is_late = state.used_at is not None and now > state.used_at + grace
    # A used successor proves that the client received it. The grace is for lost answers only.
    if is_late or state.is_successor_used:
        return RefreshVerdict.REUSED
    if state.is_revoked or not state.is_open:
        return RefreshVerdict.REFUSED
    if now >= min(state.expires_at, state.session_expires_at):
        return RefreshVerdict.EXPIRED
    if state.is_suspended:
        return RefreshVerdict.SUSPENDED
    if state.used_at is None:
        return RefreshVerdict.ROTATE
    # After a change of the server secret the successor cannot be computed again; that is no theft.
    return RefreshVerdict.REPEAT if state.is_successor_known else RefreshVerdict.REFUSED


@dataclass(frozen=True)
class ApiKey:
    tenant_id: UUID
    key_id: UUID
    user_id: UUID
    name: str
    permissions: frozenset[str]
    is_signed: bool
    created_at: datetime
    expires_at: datetime | None
    parent_key_id: UUID | None = None


@dataclass(frozen=True)
class Access:
    """The permissions and rate limit of a session or an API key, as they are now."""

    tenant_id: UUID
    user_id: UUID
    permissions: frozenset[str]
    rate_per_second: int
    burst: int
    session_id: UUID | None = None
    key_id: UUID | None = None


@dataclass(frozen=True)
class KeyLimits:
    per_user: int = 100
    per_tenant: int = 1_000


@dataclass(frozen=True)
class PeopleLimits:
    users: int = 1_000
    roles: int = 50
    invitations: int = 100  # open ones


@dataclass(frozen=True)
class Throttle:
    """After this many failures within the window each further failure doubles the wait."""

    account_failures: int = 5
    address_failures: int = 50
    window: timedelta = timedelta(minutes=15)
    first_wait: timedelta = timedelta(seconds=1)
    longest_wait: timedelta = timedelta(minutes=15)


# --- parsing of logins

_EMAIL = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+")
_PHONE = re.compile(r"\+?[0-9][0-9 -]{4,22}[0-9]")
_CHINESE_MOBILE = re.compile(r"1[0-9]{10}")


def email_of(text: str) -> str:
    """The normal form of an e-mail address: lower case."""
    if not _EMAIL.fullmatch(text) or len(text) > 254:
        raise Refused("the request is not valid", fields=[{"field": "email", "reason": "not an e-mail address"}])
    return text.lower()


def phone_of(text: str) -> str:
    """The normal form of a phone number: +country, no separators. Eleven digits from 1 are a Chinese mobile."""
    if _PHONE.fullmatch(text):
        digits = re.sub(r"[ -]", "", text)
        if _CHINESE_MOBILE.fullmatch(digits):
            return f"+86{digits}"
        if digits.startswith("+") and 7 <= len(digits) <= 16:
            return digits
    reason = "not a phone number; write +<country><number>"
    raise Refused("the request is not valid", fields=[{"field": "phone", "reason": reason}])


def login_of(text: str) -> str:
    """The normal form of an e-mail address or phone number. Raises BadCredentials for any other text."""
    try:
        return email_of(text) if "@" in text else phone_of(text)
    except Refused:
        raise BadCredentials from None


# --- hashes and signatures


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def text_to_sign(*, method: str, target: str, timestamp: str, nonce: str, body: bytes) -> bytes:
    return "\n".join((method, target, timestamp, nonce, hashlib.sha256(body).hexdigest())).encode()


def signature_of(secret_hash: bytes, message: bytes) -> str:
    """The signing key is the hash of the secret, so that the secret itself is not stored."""
    return hmac.new(secret_hash, message, hashlib.sha256).hexdigest()


def as_details(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the audit log, as JSON types."""
    return {
        name: sorted(value) if isinstance(value, frozenset | tuple) else value
        for name, value in values.items()
        if value is not None
    }
