"""Limits of accounts and logins as live settings."""

from __future__ import annotations

from datetime import timedelta

from artiway.identity.model import KeyLimits, PeopleLimits, Throttle
from artiway.settings.model import Setting, SettingValues

USERS_PER_TENANT = Setting("limit.users_per_tenant", 1_000, "users of a tenant", 1, 100_000)
ROLES_PER_TENANT = Setting("limit.roles_per_tenant", 50, "roles of a tenant's own", 0, 1_000)
KEYS_PER_USER = Setting("limit.keys_per_user", 100, "API keys of a user", 0, 10_000)
KEYS_PER_TENANT = Setting("limit.keys_per_tenant", 1_000, "API keys of a tenant", 0, 100_000)
SESSIONS_PER_USER = Setting(
    "limit.sessions_per_user", 50, "open sessions of a user; a login beyond it ends the oldest", 1, 1_000
)
ACCOUNT_FAILURES = Setting("login.account_failures", 5, "failed logins of an account before a wait", 1, 100)
# An office shares one address.
ADDRESS_FAILURES = Setting("login.address_failures", 50, "failed logins of an address before a wait", 1, 10_000)
WINDOW_S = Setting("login.window_s", 900, "seconds in which failed logins count", 60, 86_400)
LONGEST_WAIT_S = Setting("login.longest_wait_s", 900, "the longest wait after failed logins", 1, 86_400)
OPEN_INVITATIONS = Setting("limit.open_invitations", 100, "open invitations of a tenant", 0, 10_000)
RESETS_PER_LOGIN = Setting("reset.per_login", 3, "mails that reset the password of a login, per window", 2, 100)
RESETS_PER_ADDRESS = Setting(
    "reset.per_address", 20, "requests of an address for such mails, and invalid links from it, per window", 2, 10_000
)
RESET_WINDOW_S = Setting("reset.window_s", 900, "seconds in which requests for such mails count", 60, 86_400)


def people_limits(values: SettingValues) -> PeopleLimits:
    return PeopleLimits(
        users=values.get(USERS_PER_TENANT),
        roles=values.get(ROLES_PER_TENANT),
        invitations=values.get(OPEN_INVITATIONS),
    )


def reset_throttle(values: SettingValues) -> Throttle:
    """After the last allowed request of a window the next one waits for a whole window."""
    window = timedelta(seconds=values.get(RESET_WINDOW_S))
    return Throttle(
        account_failures=values.get(RESETS_PER_LOGIN),
        address_failures=values.get(RESETS_PER_ADDRESS),
        window=window,
        first_wait=window,
        longest_wait=window,
    )


def key_limits(values: SettingValues) -> KeyLimits:
    return KeyLimits(per_user=values.get(KEYS_PER_USER), per_tenant=values.get(KEYS_PER_TENANT))


def throttle(values: SettingValues) -> Throttle:
    return Throttle(
        account_failures=values.get(ACCOUNT_FAILURES),
        address_failures=values.get(ADDRESS_FAILURES),
        window=timedelta(seconds=values.get(WINDOW_S)),
        longest_wait=timedelta(seconds=values.get(LONGEST_WAIT_S)),
    )
