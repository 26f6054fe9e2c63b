"""The access check: sessions and API keys through the real cache, signed requests, nonces."""

from __future__ import annotations

import hashlib
import hmac
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from artiway.errors import NotFound, Refused, Unauthenticated
from artiway.identity.access.repository import PostgresAccess, SpentNonces
from artiway.identity.access.service import AccessService, CachedAccess, SignatureInvalid
from artiway.identity.model import Actor, NotYours, TenantSuspended
from artiway.identity.tokens import TokenExpired
from artiway.platform.cache import Cache
from artiway.platform.database import Database
from artiway.platform.redis import connect
from tests.fakes.clock import FixedClock

REQUEST = {"method": "POST", "target": "/api/v1/tasks?dry=1", "headers": {}, "body": b'{"tool":"cutout"}'}


@pytest.fixture
def cached(valkey):
    return CachedAccess(Cache(valkey))


@pytest.fixture
def access(identity, database, valkey, cached):
    identity.auth._revocations = identity.people._revocations = identity.keys._revocations = cached
    identity.tenants._revocations = cached
    nonces = SpentNonces(database, valkey, identity.clock)
    return AccessService(PostgresAccess(database), cached, nonces, identity.clock)


def session_of(identity, tokens):
    claims = identity.verifier.verify(tokens.access_token)
    return {"tenant_id": tokens.tenant_id, "user_id": tokens.user_id, "session_id": UUID(claims.family_id)}


def make_key(identity, owner, *permissions, **options):
    facts = {"expires_at": None, "is_signed": False, **options}
    return identity.keys.create(owner, name="k", permissions=frozenset(permissions), **facts)


def signed(key, clock, *, nonce=None, at=None, method="POST", target=REQUEST["target"], body=REQUEST["body"]):
    """A client's own signing, from the description in docs/identity.md alone."""
    secret = key.split("_", 2)[2]
    signing_key = hashlib.sha256(secret.encode()).digest()
    timestamp, nonce = str(int((at or clock.now()).timestamp())), nonce or uuid4().hex
    text = "\n".join([method, target, timestamp, nonce, hashlib.sha256(body).hexdigest()])
    signature = hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()
    return {"x-artiway-timestamp": timestamp, "x-artiway-nonce": nonce, "x-artiway-signature": signature}


# --- sessions


def test_live_session_has_its_users_current_permissions(identity, access):
    tokens = identity.register("ann")
    found = access.of_session(**session_of(identity, tokens))
    assert "user.manage" in found.permissions
    assert (found.rate_per_second, found.burst) == (5, 10)


def test_change_acts_at_once_after_invalidation(identity, access):
    owner = identity.owner("ann")
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["viewer"])
    session = session_of(identity, identity.auth.login(login="bob@example.com", password="correct horse", address=""))
    assert access.of_session(**session).permissions == {"task.read", "points.read", "job.read"}
    identity.people.change(owner, user.user_id, roles=["member"])
    assert "task.submit" in access.of_session(**session).permissions
    identity.tenants.change(owner.tenant_id, {"rate_per_second": 77}, actor_id=owner.user_id)
    assert access.of_session(**session).rate_per_second == 77
    identity.people.change(owner, user.user_id, status="DISABLED")
    with pytest.raises(Unauthenticated):
        access.of_session(**session)


def test_logout_acts_within_a_minute_without_invalidation(identity, database, valkey, addresses):
    """Another process changed the row and could not say so: the answer is old for sixty seconds at most."""
    seconds = FixedClock()
    cached = CachedAccess(Cache(valkey, now=lambda: seconds.now().timestamp()))
    access = AccessService(
        PostgresAccess(database), cached, SpentNonces(database, valkey, identity.clock), identity.clock
    )
    session = session_of(identity, identity.register("ann"))
    access.of_session(**session)
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("UPDATE session SET revoked_at = now(), revoked_reason = 'logout'")
    assert access.of_session(**session)
    (stored,) = valkey.keys("cache:value:access:*")
    assert valkey.pttl(stored) <= 60_000
    valkey.delete(stored)  # as Redis itself will have done by then
    seconds.advance(seconds=60.001)
    with pytest.raises(Unauthenticated):
        access.of_session(**session)


def test_logout_ends_session_everywhere(identity, access):
    session = session_of(identity, identity.register("ann"))
    access.of_session(**session)
    identity.auth.logout(tenant_id=session["tenant_id"], session_id=session["session_id"])
    with pytest.raises(Unauthenticated):
        access.of_session(**session)


def test_session_of_another_user_or_tenant_is_refused(identity, access):
    ann, bob = (session_of(identity, identity.register(name)) for name in ("ann", "bob"))
    for session in (
        {**ann, "user_id": bob["user_id"]},
        {**ann, "tenant_id": bob["tenant_id"]},
        {**ann, "session_id": uuid4()},
    ):
        with pytest.raises(Unauthenticated):
            access.of_session(**session)


# --- API keys


def test_key_has_permissions_that_its_maker_still_has(identity, access):
    owner = identity.owner("ann")
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["member"])
    maker = Actor(owner.tenant_id, user.user_id, user.permissions)
    made, key = make_key(identity, maker, "task.submit", "task.read")
    assert access.of_key(key, **REQUEST).permissions == {"task.submit", "task.read"}
    identity.people.change(owner, user.user_id, roles=["viewer"])
    found = access.of_key(key, **REQUEST)
    assert (found.permissions, found.key_id, found.user_id) == ({"task.read"}, made.key_id, user.user_id)
    identity.people.change(owner, user.user_id, status="DISABLED")
    with pytest.raises(Unauthenticated):
        access.of_key(key, **REQUEST)


def test_key_beyond_the_makers_permissions_is_refused(identity):
    owner = identity.owner("ann")
    with pytest.raises(NotYours):
        make_key(identity, owner, "tenant.manage")


def test_expired_or_deleted_key_is_refused(identity, access):
    owner = identity.owner("ann")
    with pytest.raises(Refused):
        make_key(identity, owner, expires_at=identity.clock.now())
    made, key = make_key(identity, owner, expires_at=identity.clock.now() + timedelta(hours=1))
    assert access.of_key(key, **REQUEST)
    identity.clock.advance(hours=1)
    with pytest.raises(TokenExpired):
        access.of_key(key, **REQUEST)
    made, key = make_key(identity, owner)
    assert access.of_key(key, **REQUEST)
    identity.keys.remove(owner, made.key_id)
    with pytest.raises(Unauthenticated):
        access.of_key(key, **REQUEST)


def test_forged_key_is_nobodys(identity, access):
    ann, bob = identity.owner("ann"), identity.owner("bob")
    made, key = make_key(identity, ann)
    last = "A" if key[-1] != "A" else "B"
    forged = [
        key[:-1] + last,
        key[: len("ak_") + 64],  # its secret left at home, though it does not sign
        f"ak_{bob.tenant_id.hex}{made.key_id.hex}_{key.split('_', 2)[2]}",
        f"ak_{uuid4().hex}{uuid4().hex}_{'A' * 43}",
        "ak_",
        "ak_x",
        key + "\n",
        "ak_" + "0" * 10_000,
    ]
    for text in forged:
        with pytest.raises(Unauthenticated):
            access.of_key(text, **REQUEST)


def test_key_is_stored_as_hash(identity, addresses):
    _, key = make_key(identity, identity.owner("ann"))
    with psycopg.connect(addresses.superuser) as connection:
        ((stored,),) = connection.execute("SELECT api_key::text FROM api_key").fetchall()
    secret = key.split("_", 2)[2]
    assert secret not in stored
    assert hashlib.sha256(secret.encode()).hexdigest() in stored


def test_users_manage_own_keys_and_managers_all(identity):
    owner = identity.owner("ann")
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["member"])
    bob = Actor(owner.tenant_id, user.user_id, user.permissions)
    of_owner, _ = make_key(identity, owner)
    of_bob, _ = make_key(identity, bob)
    stranger = identity.owner("eve")
    assert [key.key_id for key in identity.keys.keys(bob, after=None, limit=9)] == [of_bob.key_id]
    assert len(identity.keys.keys(owner, after=None, limit=9)) == 2
    for actor in (bob, stranger):
        with pytest.raises(NotFound):
            identity.keys.remove(actor, of_owner.key_id)
    identity.keys.remove(owner, of_bob.key_id)


# --- a suspended tenant


def suspend(identity, owner, status="SUSPENDED"):
    identity.tenants.change(owner.tenant_id, {"status": status}, actor_id=owner.user_id)


def test_session_of_suspended_tenant_is_forbidden(identity, access):
    tokens = identity.register("ann")
    session = session_of(identity, tokens)
    assert access.of_session(**session)
    suspend(identity, tokens)
    with pytest.raises(TenantSuspended) as refusal:
        access.of_session(**session)
    assert (refusal.value.code, refusal.value.status) == ("TENANT_403_SUSPENDED", 403)
    with pytest.raises(Unauthenticated):  # only for the session's own user
        access.of_session(**{**session, "user_id": uuid4()})
    suspend(identity, tokens, "ACTIVE")
    assert access.of_session(**session)


def test_key_of_suspended_tenant_is_forbidden(identity, access):
    owner = identity.owner("ann")
    _, key = make_key(identity, owner, "task.read")
    _, signing = make_key(identity, owner, is_signed=True)
    suspend(identity, owner)
    with pytest.raises(TenantSuspended):
        access.of_key(key, **REQUEST)
    with pytest.raises(Unauthenticated):  # a caller without the key learns nothing
        access.of_key(key[:-1] + ("A" if key[-1] != "A" else "B"), **REQUEST)
    with pytest.raises(SignatureInvalid):
        access.of_key(signing, **REQUEST)
    with pytest.raises(TenantSuspended):
        access.of_key(signing, **{**REQUEST, "headers": signed(signing, identity.clock)})


def test_disabled_user_of_suspended_tenant_is_unknown(identity, access):
    owner = identity.owner("ann")
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["member"])
    session = session_of(identity, identity.auth.login(login="bob@example.com", password="correct horse", address=""))
    identity.people.change(owner, user.user_id, status="DISABLED")
    suspend(identity, owner)
    with pytest.raises(Unauthenticated):
        access.of_session(**session)


# --- permissions that include others


def test_custom_role_with_job_write_manages_webhooks(identity, access):
    owner = identity.owner("ann")
    identity.people.add_role(owner, name="planner", permissions=frozenset({"job.write"}))
    identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["planner"])
    tokens = identity.auth.login(login="bob@example.com", password="correct horse", address="")
    wanted = {"job.write", "job.read", "webhook.manage"}
    assert access.of_session(**session_of(identity, tokens)).permissions == wanted
    assert set(identity.verifier.verify(tokens.access_token).permissions) == wanted


@pytest.mark.parametrize(
    ("held", "given", "effective"),
    [
        ("job.write", "job.write", {"job.write", "job.read", "webhook.manage"}),
        ("job.write", "webhook.manage", {"webhook.manage"}),
        ("job.read", "job.write", {"job.read"}),
        ("task.read", "job.write", set()),
    ],
    ids=["both", "a part of it", "the person only reads", "the person has neither"],
)
def test_key_has_the_included_permissions(identity, access, held, given, effective):
    owner = identity.owner("ann")
    identity.people.add_role(owner, name="first", permissions=frozenset({"job.write"}))
    user = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["first"])
    _, key = make_key(identity, Actor(owner.tenant_id, user.user_id, user.permissions), given)
    identity.people.change_role(owner, "first", permissions=frozenset({held}))
    assert access.of_key(key, **REQUEST).permissions == effective


def test_included_permissions_can_be_granted(identity):
    owner = identity.owner("ann")
    planner = Actor(owner.tenant_id, owner.user_id, frozenset({"user.manage", "job.write"}))
    identity.people.add_role(planner, name="hooks", permissions=frozenset({"webhook.manage", "job.read"}))
    with pytest.raises(NotYours):
        identity.people.add_role(planner, name="runs", permissions=frozenset({"job.run"}))


# --- signed requests


def test_signed_request_passes_with_or_without_the_secret(identity, access):
    _, key = make_key(identity, identity.owner("ann"), "task.submit", is_signed=True)
    for shown in (key, key[: len("ak_") + 64]):
        found = access.of_key(shown, **{**REQUEST, "headers": signed(key, identity.clock)})
        assert found.permissions == {"task.submit"}


@pytest.mark.parametrize(
    "change",
    [
        {"method": "GET"},
        {"target": "/api/v1/tasks?dry=2"},
        {"target": "/api/v1/tasks"},
        {"body": b'{"tool":"cutout" }'},
        {"headers": {}},
        {"headers": {"x-artiway-signature": "0" * 64}},
        {"headers": {"x-artiway-signature": "ü"}},
        {"headers": {"x-artiway-nonce": "other-nonce-1"}},
        {"headers": {"x-artiway-nonce": "short"}},
        {"headers": {"x-artiway-timestamp": "99999999999999"}},
        {"headers": {"x-artiway-timestamp": "-1"}},
        {"headers": {"x-artiway-timestamp": "1e9"}},
    ],
    ids=str,
)
def test_request_changed_after_signing_is_refused(identity, access, change):
    _, key = make_key(identity, identity.owner("ann"), is_signed=True)
    headers = signed(key, identity.clock)
    changed = {**REQUEST, "headers": headers, **change}
    if change.get("headers"):
        changed["headers"] = {**headers, **change["headers"]}
    with pytest.raises(SignatureInvalid):
        access.of_key(key, **changed)


@pytest.mark.parametrize(("late_s", "is_accepted"), [(0, True), (299, True), (301, False), (-299, True), (-301, False)])
def test_timestamp_counts_for_five_minutes_on_either_side(identity, access, late_s, is_accepted):
    _, key = make_key(identity, identity.owner("ann"), is_signed=True)
    headers = signed(key, identity.clock, at=identity.clock.now() - timedelta(seconds=late_s))
    if is_accepted:
        assert access.of_key(key, **{**REQUEST, "headers": headers})
    else:
        with pytest.raises(SignatureInvalid):
            access.of_key(key, **{**REQUEST, "headers": headers})


@pytest.mark.parametrize("is_flushed", [False, True], ids=["Redis remembers", "Redis was flushed"])
def test_nonce_is_accepted_once(identity, access, valkey, is_flushed):
    _, key = make_key(identity, identity.owner("ann"), is_signed=True)
    request = {**REQUEST, "headers": signed(key, identity.clock)}
    access.of_key(key, **request)
    if is_flushed:
        valkey.flushall()
    with pytest.raises(SignatureInvalid):
        access.of_key(key, **request)


def test_parallel_signed_copies_pass_once_without_redis(identity, addresses):
    owner = identity.owner("ann")
    made, _ = make_key(identity, owner, is_signed=True)
    away = connect("redis://127.0.0.1:1", timeout_s=0.1)

    def spend(_):
        with closing(Database(addresses.app)) as database:
            nonces = SpentNonces(database, away, identity.clock)
            return nonces.spend(owner.tenant_id, made.key_id, "one-and-only", for_=timedelta(minutes=10))

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(spend, range(8))) == [False] * 7 + [True]


def test_nonces_belong_to_keys_and_expire(identity, access, addresses):
    owner = identity.owner("ann")
    keys = [make_key(identity, owner, is_signed=True)[1] for _ in range(2)]
    for key in keys:
        access.of_key(key, **{**REQUEST, "headers": signed(key, identity.clock, nonce="one-and-only")})
    identity.clock.advance(minutes=11)
    access.of_key(keys[0], **{**REQUEST, "headers": signed(keys[0], identity.clock)})
    with psycopg.connect(addresses.superuser) as connection:
        assert connection.execute("SELECT count(*) FROM api_key_nonce").fetchone() == (2,)
