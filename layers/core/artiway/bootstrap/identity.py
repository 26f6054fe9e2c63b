"""Accounts, access checks, tokens, tenants, people and API keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.geo import geo
from artiway.bootstrap.idempotency import idempotency
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import mail_outbox

if TYPE_CHECKING:
    from artiway.identity.access.service import AccessService, CachedAccess
    from artiway.identity.access_check import AccessCheck
    from artiway.identity.administrators import AdministratorService
    from artiway.identity.invitations.service import InvitationService
    from artiway.identity.keys.service import ApiKeyService
    from artiway.identity.passwords import Argon2Passwords
    from artiway.identity.people.service import PeopleService
    from artiway.identity.repository import PostgresAccounts
    from artiway.identity.resets.service import ResetService
    from artiway.identity.service import AuthService
    from artiway.identity.tenants.service import TenantService
    from artiway.identity.token_verifier import Verifier
    from artiway.platform.origin import Origin


@once
def token_verifier() -> Verifier:
    from artiway.identity.token_verifier import Verifier

    return Verifier(base.settings().token_jwks, issuer=base.settings().token_issuer)


@once
def authorizer() -> Callable[[str], Mapping[str, Any]]:
    """For a function without an authorizer before it: `streams.StreamApi("area", authorizer=bootstrap.authorizer)`."""
    from functools import partial

    from artiway.identity.token_verifier import authorizer_context

    return partial(authorizer_context, token_verifier())


@once
def access_check() -> AccessCheck:
    """Runs before every protected route: `http.Api("area", access_check=bootstrap.access_check)`."""
    from artiway.identity.access_check import AccessCheck

    return AccessCheck(access(), base.rate_limiter(), idempotency)


@once
def origin() -> Origin:
    """Refuses requests that bypass CloudFront: `http.Api("area", origin=bootstrap.origin)`."""
    from artiway.platform.origin import Origin

    return Origin(base.settings().origin_hashes)


@once
def access() -> AccessService:
    from artiway.identity.access.repository import PostgresAccess, SpentNonces
    from artiway.identity.access.service import AccessService
    from artiway.platform.clock import SystemClock

    clock = SystemClock()
    nonces = SpentNonces(base.database(), base.redis(), clock)
    return AccessService(PostgresAccess(base.database()), cached_access(), nonces, clock)


@once
def cached_access() -> CachedAccess:
    from artiway.identity.access.service import CachedAccess

    return CachedAccess(base.cache())


@once
def _passwords() -> Argon2Passwords:
    from artiway.identity.passwords import Argon2Passwords

    return Argon2Passwords()


@once
def accounts() -> PostgresAccounts:
    from artiway.identity.repository import PostgresAccounts

    return PostgresAccounts(base.service_database(), audit())


@once
def login_accounts() -> PostgresAccounts:
    """Sends a mail about a login from a new place."""
    from artiway.identity.repository import PostgresAccounts

    return PostgresAccounts(base.service_database(), audit(), mail_outbox(base.service_database()))


@once
def administrators() -> AdministratorService:
    from artiway.identity.administrators import AdministratorService

    return AdministratorService(accounts(), _passwords())


@once
def auth() -> AuthService:
    import json
    from datetime import timedelta

    from artiway.identity.invitations.repository import InvitedAccounts
    from artiway.identity.locating import Locating
    from artiway.identity.service import AuthService, Lifetimes
    from artiway.identity.settings import SESSIONS_PER_USER, people_limits, reset_throttle, throttle
    from artiway.identity.wechat_login import WechatLoginClient
    from artiway.platform.clock import SystemClock
    from artiway.platform.kms import KmsSigner
    from artiway.platform.secrets import Secret

    refresh_secret = Secret(base.settings().refresh_secret_arn)
    wechat_secret = Secret(base.settings().wechat_login_secret_arn)
    return AuthService(
        login_accounts(),
        _passwords(),
        KmsSigner(base.settings().token_key_id),
        WechatLoginClient(base.settings().wechat_login_url, lambda: json.loads(wechat_secret.text())),
        Locating(lambda: geo().locator(), wait_s=base.settings().login_location_wait_s),
        cached_access(),
        SystemClock(),
        issuer=base.settings().token_issuer,
        refresh_secret=lambda: refresh_secret.text().encode(),
        throttle=lambda: throttle(setting_values()),
        lifetimes=Lifetimes(
            access_s=base.settings().access_token_s,
            idle=timedelta(seconds=base.settings().refresh_idle_s),
            absolute=timedelta(seconds=base.settings().refresh_absolute_s),
            grace=timedelta(seconds=base.settings().refresh_grace_s),
        ),
        sessions_per_user=lambda: setting_values().get(SESSIONS_PER_USER),
        invitations=InvitedAccounts(base.service_database(), audit(), login_accounts()),
        links=lambda: reset_throttle(setting_values()),
        people_limits=lambda: people_limits(setting_values()),
    )


@once
def resets() -> ResetService:
    from artiway.identity.resets.repository import PostgresResets
    from artiway.identity.resets.service import ResetService
    from artiway.identity.settings import reset_throttle, throttle

    return ResetService(
        PostgresResets(base.service_database(), audit(), mail_outbox(base.service_database())),
        _passwords(),
        cached_access(),
        base.clock(),
        requests=lambda: reset_throttle(setting_values()),
        failures=lambda: throttle(setting_values()),
    )


@once
def invitations() -> InvitationService:
    from artiway.identity.invitations.repository import PostgresInvitations
    from artiway.identity.invitations.service import InvitationService
    from artiway.identity.settings import people_limits

    store = PostgresInvitations(base.database(), audit(), mail_outbox(base.database()))
    return InvitationService(store, base.clock(), limits=lambda: people_limits(setting_values()))


@once
def tenants() -> TenantService:
    """`tenants().policies([…])` returns the limits of each tenant."""
    from artiway.identity.tenants.repository import PostgresTenants
    from artiway.identity.tenants.service import TenantService

    return TenantService(PostgresTenants(base.service_database(), audit()), _passwords(), cached_access())


@once
def people() -> PeopleService:
    from artiway.identity.people.repository import PostgresPeople
    from artiway.identity.people.service import PeopleService
    from artiway.identity.settings import people_limits

    store = PostgresPeople(base.database(), audit())
    return PeopleService(store, _passwords(), cached_access(), limits=lambda: people_limits(setting_values()))


@once
def api_keys() -> ApiKeyService:
    from artiway.identity.keys.repository import PostgresKeys
    from artiway.identity.keys.service import ApiKeyService
    from artiway.identity.settings import key_limits
    from artiway.platform.clock import SystemClock

    store = PostgresKeys(base.database(), audit())
    return ApiKeyService(store, cached_access(), SystemClock(), limits=lambda: key_limits(setting_values()))
