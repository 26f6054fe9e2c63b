"""What a tenant can make many of is bounded, also when requests come together. Nothing is stored of what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import UUID

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.identity.keys.repository import PostgresKeys
from artiway.identity.keys.service import ApiKeyService
from artiway.identity.model import (
    Actor,
    KeyLimits,
    PeopleLimits,
    Throttle,
    TokenNotAccepted,
    TooManyKeys,
    TooManyRoles,
    TooManyUsers,
)
from artiway.identity.people.repository import PostgresPeople
from artiway.identity.people.service import PeopleService
from artiway.identity.repository import PostgresAccounts
from artiway.platform.database import Database
from tests.fakes.identity import QuickPasswords, RecordedRevocations
from tests.integration.identity.conftest import make_auth

AT_ONCE = 6


def rows(addresses, query, *parameters):
    with psycopg.connect(addresses.superuser) as connection:
        return connection.execute(query, parameters).fetchall()


def together(act: Callable[[int], object]) -> list[object]:
    """The outcomes of simultaneous acts: what each returned, or the error's type."""
    start = threading.Barrier(AT_ONCE)

    def attempt(number: int) -> object:
        start.wait()
        try:
            return act(number)
        except (TooManyKeys, TooManyRoles, TooManyUsers) as refusal:
            return type(refusal)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(attempt, range(AT_ONCE)))


# --- API keys


def create_key(addresses, identity, actor, limits):
    with closing(Database(addresses.app)) as database:
        keys = ApiKeyService(
            PostgresKeys(database, AuditLog()), RecordedRevocations(), identity.clock, limits=lambda: limits
        )
        return keys.create(actor, name="k", permissions=frozenset(), expires_at=None, is_signed=False)


@pytest.mark.parametrize("limits", [KeyLimits(per_user=3), KeyLimits(per_tenant=3)], ids=["person", "tenant"])
def test_keys_made_together_stay_within_limit(identity, addresses, limits):
    owner = identity.owner("ann")
    outcomes = together(lambda _: create_key(addresses, identity, owner, limits))
    assert outcomes.count(TooManyKeys) == AT_ONCE - 3
    assert rows(addresses, "SELECT count(*) FROM api_key") == [(3,)]
    assert rows(addresses, "SELECT count(*) FROM audit_log WHERE action = 'api_key.created'") == [(3,)]


def test_key_limit_names_itself_and_its_owner(identity, addresses):
    owner = identity.owner("ann")
    for limits, message in [(KeyLimits(per_user=0), "a person has"), (KeyLimits(per_tenant=0), "a tenant has")]:
        with pytest.raises(TooManyKeys, match=message) as refusal:
            create_key(addresses, identity, owner, limits)
        assert (refusal.value.code, refusal.value.details) == ("KEY_409_TOO_MANY", {"limit": 0})


def test_keys_of_colleagues_count_for_tenant(identity, addresses):
    owner, stranger = identity.owner("ann"), identity.owner("eve")
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["viewer"])
    bob = Actor(owner.tenant_id, user.user_id, user.permissions)
    limits = KeyLimits(per_user=2, per_tenant=3)
    for actor in (owner, owner, bob, stranger):
        create_key(addresses, identity, actor, limits)
    with pytest.raises(TooManyKeys, match="a tenant has"):
        create_key(addresses, identity, bob, limits)


# --- users and roles


def people_of(database, limits):
    return PeopleService(
        PostgresPeople(database, AuditLog()), QuickPasswords(), RecordedRevocations(), limits=lambda: limits
    )


def test_users_invited_together_stay_within_limit(identity, addresses):
    owner = identity.owner("ann")

    def invite(number):
        with closing(Database(addresses.app)) as database:
            people = people_of(database, PeopleLimits(users=4))
            return people.invite(owner, email=f"u{number}@example.com", password="correct horse", roles=["viewer"])

    assert together(invite).count(TooManyUsers) == AT_ONCE - 3
    assert rows(addresses, "SELECT count(*) FROM app_user") == [(4,)]
    assert rows(addresses, "SELECT count(*) FROM audit_log WHERE action = 'user.invited'") == [(3,)]


def test_disabled_users_count_and_other_tenants_do_not(identity, database):
    owner, other = identity.owner("ann"), identity.owner("bob")
    people = people_of(database, PeopleLimits(users=2))
    user = people.invite(owner, email="u1@example.com", password="correct horse", roles=["viewer"])
    people.change(owner, user.user_id, status="DISABLED")
    with pytest.raises(TooManyUsers) as refusal:
        people.invite(owner, email="u2@example.com", password="correct horse", roles=["viewer"])
    assert (refusal.value.code, refusal.value.details) == ("USER_409_TOO_MANY", {"limit": 2})
    assert people.invite(other, email="u2@example.com", password="correct horse", roles=["viewer"])


def test_roles_made_together_stay_within_limit(identity, addresses):
    owner = identity.owner("ann")

    def add(number):
        with closing(Database(addresses.app)) as database:
            people = people_of(database, PeopleLimits(roles=2))
            return people.add_role(owner, name=f"role-{number}", permissions=frozenset())

    assert together(add).count(TooManyRoles) == AT_ONCE - 2
    assert rows(addresses, "SELECT count(*) FROM tenant_role") == [(2,)]


def test_role_limit_names_itself_and_spares_changes(identity, database):
    owner = identity.owner("ann")
    people = people_of(database, PeopleLimits(roles=1))
    people.add_role(owner, name="one", permissions=frozenset())
    with pytest.raises(TooManyRoles) as refusal:
        people.add_role(owner, name="two", permissions=frozenset())
    assert (refusal.value.code, refusal.value.details) == ("ROLE_409_TOO_MANY", {"limit": 1})
    people.change_role(owner, "one", permissions=frozenset({"task.read"}))
    people.remove_role(owner, "one")
    people.add_role(owner, name="two", permissions=frozenset())


# --- sessions


def open_sessions(addresses):
    return rows(addresses, "SELECT count(*) FROM session WHERE revoked_at IS NULL")


def log_in(auth, name="ann"):
    return auth.login(login=f"{name}@example.com", password="correct horse", address="")


def session_id_of(identity, tokens):
    return UUID(identity.verifier.verify(tokens.access_token).family_id)


def test_login_beyond_limit_ends_oldest_session(identity, service_database, signer, addresses):
    first = identity.register("ann")
    identity.register("bob")
    auth = make_auth(service_database, identity.clock, signer, revocations=identity.revocations, sessions_per_user=3)
    later = []
    for _ in range(3):
        identity.clock.advance(seconds=1)
        later.append(log_in(auth))
    with pytest.raises(TokenNotAccepted):
        auth.refresh(first.refresh_token)
    assert identity.revocations.dropped == [f"session {session_id_of(identity, first)}"]
    assert rows(addresses, "SELECT revoked_reason FROM session WHERE revoked_at IS NOT NULL") == [("limit",)]
    for tokens in later:
        assert auth.refresh(tokens.refresh_token)


def test_sessions_that_are_over_make_room(identity, service_database, signer, addresses):
    auth = make_auth(service_database, identity.clock, signer, revocations=identity.revocations, sessions_per_user=2)
    ended, kept = identity.register("ann"), log_in(auth)
    auth.logout(tenant_id=ended.tenant_id, session_id=session_id_of(identity, ended))
    log_in(auth)
    assert auth.refresh(kept.refresh_token)
    rows(addresses, "UPDATE session SET expires_at = %s RETURNING 1", identity.clock.now())
    log_in(auth)
    log_in(auth)
    assert rows(addresses, "SELECT count(*) FROM session WHERE revoked_reason = 'limit'") == [(0,)]


def test_logins_made_together_stay_within_limit(identity, addresses, signer):
    identity.register("ann")
    throttle = Throttle(account_failures=AT_ONCE + 1)  # attempts count as failed until they succeed

    def come_in(_):
        with closing(Database(addresses.service)) as database:
            return log_in(make_auth(database, identity.clock, signer, throttle=throttle, sessions_per_user=3))

    together(come_in)
    assert open_sessions(addresses) == [(3,)]


def test_ended_sessions_are_purged_after_day(identity, service_database, addresses):
    tokens = identity.register("ann")
    identity.auth.logout(tenant_id=tokens.tenant_id, session_id=session_id_of(identity, tokens))
    store = PostgresAccounts(service_database, AuditLog())
    assert store.purge(limit=100) == 0
    rows(addresses, "UPDATE session SET revoked_at = now() - interval '25 hours' RETURNING 1")
    assert store.purge(limit=100) == 1
    assert rows(addresses, "SELECT count(*) FROM refresh_token") == [(0,)]
