"""Coming in and staying in, on a real PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import Refused
from artiway.identity.administrators import AdministratorService
from artiway.identity.model import (
    AccountClosed,
    BadCredentials,
    LoginTaken,
    LoginThrottled,
    RefreshReused,
    TenantSuspended,
    Throttle,
    TokenNotAccepted,
    UserStatus,
)
from artiway.identity.passwords import Argon2Passwords
from artiway.identity.repository import PostgresAccounts
from artiway.identity.tokens import TokenExpired
from artiway.platform.database import Database
from tests.fakes.identity import LocalSigner, QuickPasswords
from tests.fakes.outbox import unsent_outbox
from tests.integration.identity.conftest import make_auth
from tests.integration.retention.passes import purge

# An hour instead of a second: no test may depend on how fast this machine is.
PATIENT = Throttle(first_wait=timedelta(hours=1), longest_wait=timedelta(hours=2))


def rows(addresses, query, *parameters):
    with psycopg.connect(addresses.superuser) as connection:
        return connection.execute(query, parameters).fetchall()


def log_in(identity, name, password="correct horse", address="192.0.2.1"):
    return identity.auth.login(login=f"{name}@example.com", password=password, address=address)


# --- registration


def test_registering_makes_tenant_its_owner_and_session(identity, addresses):
    tokens = identity.register("ann")
    claims = identity.verifier.verify(tokens.access_token)
    assert (claims.tenant_id, claims.user_id) == (tokens.tenant_id, tokens.user_id)
    assert "user.manage" in claims.permissions
    assert not {"tenant.manage", "points.grant", "ops.write"} & set(claims.permissions)
    assert rows(addresses, "SELECT name, tier FROM tenant") == [("tenant ann", "free")]
    assert rows(addresses, "SELECT role FROM user_role") == [("owner",)]
    assert rows(addresses, "SELECT method, location FROM login_event") == [("register", "near 192.0.2.1")]
    assert rows(addresses, "SELECT action FROM audit_log") == [("tenant.registered",)]


def test_login_is_unique_on_the_whole_platform(identity, addresses):
    facts = {"tenant_name": "t", "password": "correct horse", "address": ""}
    identity.auth.register(email="Ann@Example.com", phone="13800138000", **facts)
    with pytest.raises(LoginTaken):
        identity.auth.register(email="ann@example.COM", phone=None, **facts)
    with pytest.raises(LoginTaken):
        identity.auth.register(email="bob@example.com", phone="+86 138-0013-8000", **facts)
    assert rows(addresses, "SELECT count(*) FROM tenant") == [(1,)]


def test_signature_that_fails_leaves_nothing_behind(identity, addresses, service_database, monkeypatch):
    signer = LocalSigner()
    monkeypatch.setattr(signer, "sign", lambda _: 1 / 0)
    broken = make_auth(service_database, identity.clock, signer)
    with pytest.raises(ZeroDivisionError):
        broken.register(tenant_name="t", email="a@example.com", password="correct horse", phone=None, address="")
    assert rows(addresses, "SELECT count(*) FROM tenant") == [(0,)]


@pytest.mark.parametrize("email", ["a", "a@b", "a b@example.com", "a@@example.com", "a@example.com\n", "ä@example.com"])
def test_invalid_address_is_refused_by_name(identity, email):
    with pytest.raises(Refused) as refusal:
        identity.auth.register(tenant_name="t", email=email, password="correct horse", phone=None, address="")
    assert refusal.value.details["fields"][0]["field"] == "email"


# --- passwords


def test_login_accepts_any_spelling_of_email_and_phone(identity):
    made = identity.auth.register(
        tenant_name="t", email="ann@example.com", phone="13800138000", password="correct horse", address=""
    )
    for login in ("ann@example.com", "ANN@example.com", "13800138000", "+86 13800138000"):
        assert identity.auth.login(login=login, password="correct horse", address="").user_id == made.user_id


def test_unknown_login_answers_like_a_wrong_password(identity):
    identity.register("ann")
    messages = set()
    for login in ("ann@example.com", "nobody@example.com", "no login at all"):
        with pytest.raises(BadCredentials) as refusal:
            identity.auth.login(login=login, password="wrong", address="")
        messages.add((refusal.value.code, refusal.value.message))
    assert len(messages) == 1
    assert identity.passwords.checked == 3


def test_person_without_password_cannot_be_entered_with_one(identity):
    identity.auth.login_by_wechat(app="mini", code="zoe", address="")
    with pytest.raises(BadCredentials):
        identity.auth.login(login="", password="", address="")


def test_outdated_hash_is_replaced_at_next_login(identity, addresses):
    identity.register("ann")
    rows_before = "UPDATE app_user SET password_hash = %s RETURNING 1"
    old = "old:correct horse"
    assert rows(addresses, rows_before, old)
    identity.passwords.matches = lambda stored, password: stored in {old, f"quick:{password}"}
    log_in(identity, "ann")
    assert rows(addresses, "SELECT password_hash FROM app_user") == [("quick:correct horse",)]


def test_passwords_are_argon2id_with_agreed_cost():
    passwords = Argon2Passwords()
    stored = passwords.hash("correct horse")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert passwords.matches(stored, "correct horse")
    assert not passwords.matches(stored, "correct horsE")
    assert not passwords.matches(None, "a password that nobody has")
    assert not passwords.matches("not a hash", "x")
    assert not passwords.is_outdated(stored)


# --- throttling


def test_each_further_failure_doubles_the_accounts_wait(identity, addresses):
    identity.register("ann")
    waits = []
    for _ in range(17):
        with pytest.raises(BadCredentials):
            log_in(identity, "ann", "wrong")
        waits += rows(addresses, "SELECT round(extract(epoch FROM blocked_until - last_at)) FROM login_failure"
                                 " WHERE blocked_until > '-infinity'")  # fmt: skip
        rows(addresses, "UPDATE login_failure SET blocked_until = '-infinity' RETURNING 1")
    assert waits == [(2**n,) for n in range(10)] + [(900,)] * 3


def test_blocked_attempt_with_right_password_is_not_hashed(identity, service_database, signer):
    identity.register("ann")
    auth = make_auth(service_database, identity.clock, signer, passwords=identity.passwords, throttle=PATIENT)
    for _ in range(5):
        with pytest.raises(BadCredentials):
            auth.login(login="ann@example.com", password="wrong", address="")
    hashed = identity.passwords.checked
    with pytest.raises(LoginThrottled) as refusal:
        auth.login(login="ann@example.com", password="correct horse", address="")
    assert 3_500 < refusal.value.retry_after_s <= 3_600
    assert identity.passwords.checked == hashed


def test_success_starts_account_anew(identity, addresses):
    identity.register("ann")
    for _ in range(4):
        with pytest.raises(BadCredentials):
            log_in(identity, "ann", "wrong")
    log_in(identity, "ann")
    for _ in range(4):
        with pytest.raises(BadCredentials):
            log_in(identity, "ann", "wrong")
    log_in(identity, "ann")


def test_address_with_many_accounts_is_throttled_alone(identity, service_database, signer):
    identity.register("ann")
    auth = make_auth(service_database, identity.clock, signer, throttle=PATIENT)
    for number in range(50):
        with pytest.raises(BadCredentials):
            auth.login(login=f"victim{number}@example.com", password="guess", address="198.51.100.9")
    with pytest.raises(LoginThrottled):
        auth.login(login="ann@example.com", password="correct horse", address="198.51.100.9")
    assert auth.login(login="ann@example.com", password="correct horse", address="192.0.2.1")


def test_concurrent_attempts_are_all_counted(identity, addresses, signer):
    identity.register("ann")
    outcomes = []

    def attempt(_):
        with closing(Database(addresses.service)) as database:
            try:
                make_auth(database, identity.clock, signer, throttle=PATIENT).login(
                    login="ann@example.com", password="wrong", address=""
                )
            except (BadCredentials, LoginThrottled) as error:
                outcomes.append(type(error))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(attempt, range(40)))
    assert outcomes.count(BadCredentials) == 5
    assert outcomes.count(LoginThrottled) == 35


# --- WeChat


def test_first_wechat_login_creates_the_account(identity):
    first = identity.auth.login_by_wechat(app="mini", code="zoe", address="")
    again = identity.auth.login_by_wechat(app="mini", code="zoe", address="")
    assert (first.is_new, again.is_new) == (True, False)
    assert again.user_id == first.user_id


def test_unionid_links_same_person_in_another_app(identity, addresses):
    first = identity.auth.login_by_wechat(app="mini", code="zoe/u-zoe", address="")
    other = identity.auth.login_by_wechat(app="web", code="zoe/u-zoe", address="")
    stranger = identity.auth.login_by_wechat(app="web", code="tom", address="")
    assert (other.user_id, other.is_new) == (first.user_id, False)
    assert stranger.user_id != first.user_id
    assert rows(addresses, "SELECT appid FROM wechat_identity WHERE unionid = 'u-zoe' ORDER BY 1") == [
        ("wx-mini",),
        ("wx-web",),
    ]


def test_unionid_learned_later_links_the_identities(identity):
    first = identity.auth.login_by_wechat(app="mini", code="zoe", address="")
    identity.auth.login_by_wechat(app="mini", code="zoe/u-zoe", address="")
    assert identity.auth.login_by_wechat(app="web", code="zoe/u-zoe", address="").user_id == first.user_id


@pytest.mark.parametrize("codes", [["zoe"], ["zoe/u-zoe"]], ids=["openid alone", "with unionid"])
def test_parallel_first_wechat_logins_create_one_account(identity, addresses, signer, codes):
    start = threading.Barrier(8)

    def arrive(number):
        with closing(Database(addresses.service)) as database:
            auth = make_auth(database, identity.clock, signer)
            start.wait()
            app = "mini" if "/" not in codes[0] or number % 2 else "web"
            return auth.login_by_wechat(app=app, code=codes[0], address="")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(arrive, range(8)))
    assert len({tokens.user_id for tokens in found}) == 1
    assert sum(tokens.is_new for tokens in found) == 1
    assert rows(addresses, "SELECT count(*) FROM tenant") == [(1,)]


# --- refresh


def test_refresh_gives_new_pair_of_same_session(identity):
    first = identity.register()
    second = identity.auth.refresh(first.refresh_token)
    assert second.refresh_token != first.refresh_token
    one, two = (identity.verifier.verify(tokens.access_token) for tokens in (first, second))
    assert (one.family_id, one.user_id) == (two.family_id, two.user_id)
    assert one.token_id != two.token_id


def test_repeated_refresh_within_grace_returns_same_tokens(identity):
    first = identity.register()
    second = identity.auth.refresh(first.refresh_token)
    identity.clock.advance(seconds=10)
    assert identity.auth.refresh(first.refresh_token).refresh_token == second.refresh_token
    assert identity.auth.refresh(second.refresh_token)


def test_within_grace_used_successor_means_reuse(identity, addresses):
    first = identity.register("ann")
    second = identity.auth.refresh(first.refresh_token)
    third = identity.auth.refresh(second.refresh_token)
    with pytest.raises(RefreshReused) as refusal:
        identity.auth.refresh(first.refresh_token)
    assert refusal.value.code == "AUTH_401_REFRESH_REUSED"
    for tokens in (second, third):
        with pytest.raises((TokenNotAccepted, RefreshReused)):
            identity.auth.refresh(tokens.refresh_token)
    assert rows(addresses, "SELECT revoked_reason FROM session") == [("reuse",)]


def test_repetition_that_races_its_successor_leaves_one_branch(identity, addresses, signer):
    """A token is repeated while its successor is used: either the same successor again, or the family is revoked."""
    for _ in range(10):
        first = identity.register()
        second = identity.auth.refresh(first.refresh_token)
        start = threading.Barrier(4)

        def present(token, start=start):
            with closing(Database(addresses.service)) as database:
                auth = make_auth(database, identity.clock, signer)
                start.wait()
                try:
                    return auth.refresh(token).refresh_token
                except RefreshReused:
                    return "reused"
                except TokenNotAccepted:
                    return "refused"

        with ThreadPoolExecutor(4) as pool:
            *repeated, third = pool.map(present, [first.refresh_token] * 3 + [second.refresh_token])
        assert set(repeated) <= {second.refresh_token, "reused", "refused"}
        live = rows(addresses, "SELECT count(*) FROM session WHERE revoked_at IS NULL AND user_id = %s", first.user_id)
        assert live == ([(0,)] if "reused" in repeated else [(1,)])
        if live == [(1,)]:
            assert identity.auth.refresh(third)


def test_stolen_token_used_after_grace_revokes_whole_family(identity, addresses):
    first = identity.register("ann")
    second = identity.auth.refresh(first.refresh_token)
    other = log_in(identity, "ann")
    identity.clock.advance(seconds=10.001)
    with pytest.raises(RefreshReused):
        identity.auth.refresh(first.refresh_token)
    with pytest.raises(TokenNotAccepted):
        identity.auth.refresh(second.refresh_token)
    assert len(identity.revocations.dropped) == 1
    assert rows(addresses, "SELECT revoked_reason FROM session WHERE revoked_at IS NOT NULL") == [("reuse",)]
    assert identity.auth.refresh(other.refresh_token)  # another session of the same person lives on


def test_idle_or_old_session_expires(identity):
    idle = identity.register()
    identity.clock.advance(days=7)
    with pytest.raises(TokenExpired):
        identity.auth.refresh(idle.refresh_token)
    busy = identity.register()
    for _ in range(6):
        identity.clock.advance(days=5)
        try:
            busy = identity.auth.refresh(busy.refresh_token)
        except TokenExpired:
            break
    else:
        pytest.fail("a session outlived its thirty days")


def test_logout_ends_refresh_and_drops_cached_access(identity):
    tokens = identity.register()
    session_id = identity.verifier.verify(tokens.access_token).family_id
    identity.auth.logout(tenant_id=tokens.tenant_id, session_id=UUID(session_id))
    with pytest.raises(TokenNotAccepted):
        identity.auth.refresh(tokens.refresh_token)
    assert identity.revocations.dropped == [f"session {session_id}"]


@pytest.mark.parametrize("token", ["", "rt_unknown", "x" * 256])
def test_unknown_refresh_token_is_nobodys(identity, token):
    with pytest.raises(TokenNotAccepted):
        identity.auth.refresh(token)


def test_access_token_is_no_refresh_token(identity):
    with pytest.raises(TokenNotAccepted):
        identity.auth.refresh(identity.register().access_token)


def test_disabled_person_neither_logs_in_nor_refreshes(identity):
    owner = identity.owner("ann")
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["member"])
    tokens = log_in(identity, "bob")
    identity.people.change(owner, user.user_id, status=UserStatus.DISABLED)
    with pytest.raises(AccountClosed):
        log_in(identity, "bob")
    with pytest.raises(BadCredentials):
        log_in(identity, "bob", "wrong")
    with pytest.raises(TokenNotAccepted):
        identity.auth.refresh(tokens.refresh_token)


def test_suspended_tenant_refuses_every_login(identity):
    tokens = identity.register("ann")
    identity.tenants.change(tokens.tenant_id, {"status": "SUSPENDED"}, actor_id=tokens.user_id)
    with pytest.raises(TenantSuspended) as refusal:
        log_in(identity, "ann")
    assert refusal.value.code == "TENANT_403_SUSPENDED"
    with pytest.raises(BadCredentials):
        log_in(identity, "ann", "wrong")
    with pytest.raises(TenantSuspended):
        identity.auth.refresh(tokens.refresh_token)
    identity.tenants.change(tokens.tenant_id, {"status": "ACTIVE"}, actor_id=tokens.user_id)
    assert identity.auth.refresh(tokens.refresh_token)


def test_200_concurrent_refreshes_leave_one_live_branch(identity, addresses, signer):
    first = identity.register()
    start = threading.Barrier(20)

    def refresh_ten_times(_):
        with closing(Database(addresses.service)) as database:
            auth = make_auth(database, identity.clock, signer)
            start.wait()
            return [auth.refresh(first.refresh_token).refresh_token for _ in range(10)]

    with ThreadPoolExecutor(20) as pool:
        answers = [token for batch in pool.map(refresh_ten_times, range(20)) for token in batch]
    assert len(answers) == 200
    assert len(set(answers)) == 1
    assert rows(addresses, "SELECT count(*), count(*) FILTER (WHERE used_at IS NULL) FROM refresh_token") == [(2, 1)]
    assert rows(addresses, "SELECT count(*) FROM session WHERE revoked_at IS NULL") == [(1,)]
    assert identity.auth.refresh(answers[0])


def test_refresh_during_revocation_leaves_no_live_token(identity, addresses, signer):
    """Reuse is detected during a refresh of the stolen branch: in either order the session ends."""
    for _ in range(10):
        first = identity.register()
        second = identity.auth.refresh(first.refresh_token)
        identity.clock.advance(seconds=11)
        start = threading.Barrier(2)

        def present(token, start=start):
            with closing(Database(addresses.service)) as database:
                auth = make_auth(database, identity.clock, signer)
                start.wait()
                try:
                    return auth.refresh(token)
                except (RefreshReused, TokenNotAccepted):
                    return None

        with ThreadPoolExecutor(2) as pool:
            stolen, current = pool.map(present, [first.refresh_token, second.refresh_token])
        assert stolen is None
        with pytest.raises((TokenNotAccepted, RefreshReused)):
            identity.auth.refresh((current or second).refresh_token)


def test_only_the_hash_of_a_token_is_stored(identity, addresses):
    tokens = identity.register()
    ((stored,),) = rows(addresses, "SELECT string_agg(refresh_token::text, ' ') FROM refresh_token")
    assert tokens.refresh_token not in stored
    assert tokens.refresh_token.removeprefix("rt_") not in stored


# --- the first administrator


def administrators(service_database) -> AdministratorService:
    return AdministratorService(PostgresAccounts(service_database, AuditLog(), unsent_outbox()), QuickPasswords())


def test_same_administrator_password_ends_no_session(identity, service_database):
    service = administrators(service_database)
    first = service.ensure(login="admin@artiway.local", password="one")
    before = identity.auth.login(login="admin@artiway.local", password="one", address="")
    assert service.ensure(login="Admin@artiway.local", password="one") == first
    assert identity.auth.refresh(before.refresh_token)


def test_administrator_is_made_once_with_every_permission(identity, service_database, addresses):
    service = administrators(service_database)
    first = service.ensure(login="admin@artiway.local", password="one")
    before = identity.auth.login(login="admin@artiway.local", password="one", address="")
    again = service.ensure(login="admin@artiway.local", password="two")
    second = service.ensure(login="other@artiway.local", password="three")
    assert first == again != second
    assert rows(addresses, "SELECT count(*) FROM tenant WHERE is_platform") == [(1,)]
    with pytest.raises(TokenNotAccepted):  # another password ends what the old one opened
        identity.auth.refresh(before.refresh_token)
    tokens = identity.auth.login(login="admin@artiway.local", password="two", address="")
    assert "tenant.manage" in identity.verifier.verify(tokens.access_token).permissions


def test_user_of_another_tenant_becomes_no_administrator(identity, service_database):
    identity.register("ann")
    with pytest.raises(LoginTaken):
        administrators(service_database).ensure(login="ann@example.com", password="x")


def test_purge_deletes_only_expired_rows(identity, service_database, addresses):
    identity.register("ann")
    assert sum(purge(service_database).values()) == 0
    rows(addresses, "UPDATE session SET expires_at = now() - interval '2 days' RETURNING 1")
    rows(addresses, "UPDATE login_event SET logged_at = now() - interval '181 days' RETURNING 1")
    purged = purge(service_database)
    assert (purged["expired_sessions"], purged["logins"], sum(purged.values())) == (1, 1, 2)
    assert rows(addresses, "SELECT count(*) FROM refresh_token") == [(0,)]
