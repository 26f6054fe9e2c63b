"""Keys that make keys: no child outlives, outranks or loosens its parent. Real PostgreSQL, real cache."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound, Unauthenticated
from artiway.identity.access.repository import PostgresAccess, SpentNonces
from artiway.identity.access.service import AccessService, CachedAccess, SignatureInvalid
from artiway.identity.keys.repository import PostgresKeys
from artiway.identity.keys.service import ApiKeyService
from artiway.identity.model import Actor, BeyondParent, NotYours, TokenNotAccepted
from artiway.identity.tokens import TokenExpired
from artiway.platform.cache import Cache
from artiway.platform.database import Database
from tests.fakes.clock import FixedClock
from tests.fakes.identity import RecordedRevocations
from tests.integration.identity.test_access import REQUEST, make_key


@pytest.fixture
def seconds():
    """The cache's own clock."""
    return FixedClock()


@pytest.fixture
def access(identity, database, valkey, seconds):
    cached = CachedAccess(Cache(valkey, now=lambda: seconds.now().timestamp()))
    identity.keys._revocations = identity.people._revocations = cached
    return AccessService(
        PostgresAccess(database), cached, SpentNonces(database, valkey, identity.clock), identity.clock
    )


def actor_of(owner, key, *permissions):
    """As the access check presents a key: with its own permissions."""
    return Actor(owner.tenant_id, owner.user_id, frozenset(permissions), key_id=key.key_id)


def ids_of(keys):
    return {key.key_id for key in keys}


def test_child_key_ends_with_its_parent_by_default(identity, access):
    owner = identity.owner("ann")
    until = identity.clock.now() + timedelta(hours=1)
    parent, _ = make_key(identity, owner, "task.read", expires_at=until)
    child, text = make_key(identity, actor_of(owner, parent, "task.read"), "task.read", is_signed=None)
    assert (child.expires_at, child.parent_key_id) == (until, parent.key_id)
    assert access.of_key(text, **REQUEST).permissions == {"task.read"}
    identity.clock.advance(hours=1)
    with pytest.raises(TokenExpired):
        access.of_key(text, **REQUEST)


def test_child_key_that_outlives_its_parent_is_refused(identity, addresses):
    owner = identity.owner("ann")
    until = identity.clock.now() + timedelta(hours=1)
    parent, _ = make_key(identity, owner, expires_at=until)
    with pytest.raises(BeyondParent) as refusal:
        make_key(identity, actor_of(owner, parent), expires_at=until + timedelta(microseconds=1))
    assert (refusal.value.code, refusal.value.details) == ("KEY_403_BEYOND_PARENT", {"field": "expiresAt"})
    with psycopg.connect(addresses.superuser) as connection:
        assert connection.execute("SELECT count(*) FROM api_key").fetchone() == (1,)
    make_key(identity, actor_of(owner, parent), expires_at=until - timedelta(minutes=1))


def test_signed_only_key_makes_no_unsigned_one(identity, access):
    owner = identity.owner("ann")
    parent, _ = make_key(identity, owner, is_signed=True)
    with pytest.raises(BeyondParent) as refusal:
        make_key(identity, actor_of(owner, parent), is_signed=False)
    assert refusal.value.details == {"field": "signed"}
    child, text = make_key(identity, actor_of(owner, parent), is_signed=None)
    assert child.is_signed
    with pytest.raises(SignatureInvalid):
        access.of_key(text, **REQUEST)


def test_child_key_never_outranks_its_parent(identity, access, addresses):
    owner = identity.owner("ann")
    parent, _ = make_key(identity, owner, "task.read", "task.submit")
    with pytest.raises(NotYours):
        make_key(identity, actor_of(owner, parent, "task.read", "task.submit"), "task.read", "task.cancel")
    _, text = make_key(identity, actor_of(owner, parent, "task.read", "task.submit"), "task.read", "task.submit")
    with psycopg.connect(addresses.superuser) as connection:  # even where a row says otherwise
        connection.execute("UPDATE api_key SET permissions = '{task.read}' WHERE parent_key_id IS NULL")
    assert access.of_key(text, **REQUEST).permissions == {"task.read"}


def test_key_made_by_key_makes_none(identity):
    owner = identity.owner("ann")
    parent, _ = make_key(identity, owner)
    child, _ = make_key(identity, actor_of(owner, parent))
    with pytest.raises(BeyondParent) as refusal:
        make_key(identity, actor_of(owner, child))
    assert refusal.value.code == "KEY_403_BEYOND_PARENT"


@pytest.mark.parametrize("permissions", [(), ("user.manage",)], ids=["without permissions", "with user.manage"])
def test_key_lists_and_deletes_only_its_own(identity, permissions):
    owner = identity.owner("ann")
    other, _ = make_key(identity, owner)
    others_child, _ = make_key(identity, actor_of(owner, other))
    parent, _ = make_key(identity, owner, *permissions)
    machine = actor_of(owner, parent, *permissions)
    child, _ = make_key(identity, machine)
    assert ids_of(identity.keys.keys(machine, after=None, limit=9)) == {parent.key_id, child.key_id}
    for key_id in (other.key_id, others_child.key_id):
        with pytest.raises(NotFound):
            identity.keys.remove(machine, key_id)
    of_child = actor_of(owner, child, *permissions)
    assert ids_of(identity.keys.keys(of_child, after=None, limit=9)) == {child.key_id}
    with pytest.raises(NotFound):
        identity.keys.remove(of_child, parent.key_id)
    identity.keys.remove(machine, child.key_id)
    identity.keys.remove(machine, parent.key_id)
    assert ids_of(identity.keys.keys(owner, after=None, limit=9)) == {other.key_id, others_child.key_id}


def test_deleting_key_ends_keys_it_made(identity, access, addresses):
    owner = identity.owner("ann")
    parent, _ = make_key(identity, owner)
    children = [make_key(identity, actor_of(owner, parent)) for _ in range(2)]
    for _, text in children:
        assert access.of_key(text, **REQUEST)
    identity.keys.remove(owner, parent.key_id)
    for _, text in children:
        with pytest.raises(Unauthenticated):
            access.of_key(text, **REQUEST)
    with psycopg.connect(addresses.superuser) as connection:
        assert connection.execute("SELECT count(*) FROM api_key").fetchone() == (0,)
        deleted = connection.execute("SELECT count(*) FROM audit_log WHERE action = 'api_key.deleted'")
        assert deleted.fetchone() == (3,)


def test_deleted_parent_ends_children_within_minute(identity, access, valkey, seconds, addresses):
    """Another process deleted the parent and could not invalidate the cache."""
    owner = identity.owner("ann")
    parent, _ = make_key(identity, owner)
    _, text = make_key(identity, actor_of(owner, parent))
    assert access.of_key(text, **REQUEST)
    with psycopg.connect(addresses.superuser) as connection:  # the foreign key takes the children along
        connection.execute("DELETE FROM api_key WHERE key_id = %s", [parent.key_id])
    (stored,) = valkey.keys("cache:value:access:*")
    assert valkey.pttl(stored) <= 60_000
    valkey.delete(stored)  # as Redis itself will have done by then
    seconds.advance(seconds=60.001)
    with pytest.raises(Unauthenticated):
        access.of_key(text, **REQUEST)


def test_deleted_key_leaves_no_child_behind(identity, addresses):
    """The parent is deleted while it makes a key: whichever is first, no child lives."""
    for _ in range(10):
        owner = identity.owner()
        parent, _ = make_key(identity, owner)
        start = threading.Barrier(2)

        def act(is_delete, owner=owner, parent=parent, start=start):
            with closing(Database(addresses.app)) as database:
                keys = ApiKeyService(PostgresKeys(database, AuditLog()), RecordedRevocations(), identity.clock)
                start.wait()
                if is_delete:
                    return keys.remove(owner, parent.key_id)
                try:
                    return keys.create(
                        actor_of(owner, parent), name="c", permissions=frozenset(), expires_at=None, is_signed=None
                    )
                except TokenNotAccepted:
                    return None

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(act, [True, False]))
        assert identity.keys.keys(owner, after=None, limit=9) == []


def test_key_changes_no_user_beyond_its_permissions(identity):
    owner = identity.owner("ann")
    key, _ = make_key(identity, owner, "user.manage")
    machine = actor_of(owner, key, "user.manage")
    bob = identity.people.invite(owner, email="bob@example.com", password="correct horse", roles=["viewer"])
    identity.people.add_role(owner, name="reader", permissions=frozenset({"task.read"}))
    for act in (
        lambda: identity.people.invite(machine, email="eve@example.com", password="correct horse", roles=["viewer"]),
        lambda: identity.people.change(machine, bob.user_id, status="DISABLED"),
        lambda: identity.people.change(machine, owner.user_id, roles=["viewer"]),
        lambda: identity.people.add_role(machine, name="own", permissions=frozenset({"task.read"})),
        lambda: identity.people.change_role(machine, "reader", permissions=frozenset()),
        lambda: identity.people.remove_role(machine, "reader"),
    ):
        with pytest.raises(NotYours):
            act()
