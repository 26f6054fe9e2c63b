"""Users, roles and tenants, and the permissions to change them, on a real PostgreSQL."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound, Refused
from artiway.identity.model import Actor, LastOwner, LoginTaken, NotYours, RoleFixed, RoleInUse, RoleTaken, Tier
from artiway.identity.people.repository import PostgresPeople
from artiway.identity.people.service import PeopleService
from artiway.identity.tenants.service import PlatformTenant
from artiway.ids import new_id
from artiway.platform.database import Database
from tests.fakes.identity import QuickPasswords, RecordedRevocations


def rows(addresses, query, *parameters):
    with psycopg.connect(addresses.superuser) as connection:
        return connection.execute(query, parameters).fetchall()


def invite(identity, actor, name, *roles):
    return identity.people.invite(actor, email=f"{name}@example.com", password="correct horse", roles=roles)


def as_actor(owner, user):
    return Actor(owner.tenant_id, user.user_id, user.permissions)


# --- users


def test_owner_invites_users_and_it_is_audited(identity, addresses):
    owner = identity.owner("ann")
    bob = invite(identity, owner, "bob", "member", "viewer", "member")
    assert bob.roles == ("member", "viewer")
    assert "task.submit" in bob.permissions
    assert [user.email for user in identity.people.users(owner.tenant_id, after=None, limit=10)] == [
        "ann@example.com",
        "bob@example.com",
    ]
    assert rows(addresses, "SELECT actor_id, details FROM audit_log WHERE action = 'user.invited'") == [
        (owner.user_id, {"email": "bob@example.com", "roles": ["member", "viewer"]})
    ]


def test_invitation_that_is_refused_writes_nothing(identity, addresses):
    owner = identity.owner("ann")
    identity.owner("bob")
    for email, roles, refusal in [
        ("bob@example.com", ["member"], LoginTaken),
        ("new@example.com", ["no-such-role"], Refused),
        ("new@example.com", ["platform_admin"], Refused),
    ]:
        with pytest.raises(refusal):
            identity.people.invite(owner, email=email, password="correct horse", roles=roles)
    assert rows(addresses, "SELECT count(*) FROM app_user") == [(2,)]
    assert rows(addresses, "SELECT count(*) FROM audit_log WHERE action LIKE 'user.%%'") == [(0,)]


def test_grant_beyond_own_permissions_is_refused(identity):
    owner = identity.owner("ann")
    admin = as_actor(owner, invite(identity, owner, "adam", "admin"))
    viewer = invite(identity, owner, "vera", "viewer")
    with pytest.raises(NotYours) as refusal:
        identity.people.change(admin, viewer.user_id, roles=["owner"])
    assert refusal.value.details["missing"] == ["order.refund"]
    with pytest.raises(NotYours):
        invite(identity, admin, "eve", "owner")
    assert identity.people.change(admin, viewer.user_id, roles=["admin"]).roles == ("admin",)


def test_user_with_more_permissions_cannot_be_changed(identity):
    owner = identity.owner("ann")
    admin = as_actor(owner, invite(identity, owner, "adam", "admin"))
    with pytest.raises(NotYours):
        identity.people.change(admin, owner.user_id, roles=["viewer"])
    with pytest.raises(NotYours):
        identity.people.change(admin, owner.user_id, status="DISABLED")


def test_key_cannot_grant_beyond_its_own_permissions(identity):
    owner = identity.owner("ann")
    weak = replace(owner, permissions=frozenset({"user.manage"}))
    with pytest.raises(NotYours):
        invite(identity, weak, "bob", "viewer")


def test_last_active_owner_stays(identity):
    owner = identity.owner("ann")
    for change in ({"roles": ["admin"]}, {"status": "DISABLED"}):
        with pytest.raises(LastOwner):
            identity.people.change(owner, owner.user_id, **change)
    second = invite(identity, owner, "bob", "owner")
    identity.people.change(owner, second.user_id, status="DISABLED")
    with pytest.raises(LastOwner):  # a disabled owner does not count
        identity.people.change(owner, owner.user_id, roles=["admin"])
    identity.people.change(owner, second.user_id, status="ACTIVE")
    assert identity.people.change(owner, owner.user_id, roles=["admin"]).roles == ("admin",)


def test_owners_who_remove_each_other_leave_one(identity, addresses):
    for attempt in range(5):
        owner = identity.owner(f"ann{attempt}")
        other = as_actor(owner, invite(identity, owner, f"bob{attempt}", "owner"))
        start = threading.Barrier(2)

        def remove(pair, start=start):
            actor, victim = pair
            with closing(Database(addresses.app)) as database:
                people = PeopleService(PostgresPeople(database, AuditLog()), QuickPasswords(), RecordedRevocations())
                start.wait()
                try:
                    people.change(actor, victim.user_id, status="DISABLED")
                except LastOwner:
                    return "refused"
                return "done"

        with ThreadPoolExecutor(2) as pool:
            outcomes = sorted(pool.map(remove, [(owner, other), (other, owner)]))
        assert outcomes == ["done", "refused"]


def test_disabling_ends_sessions_and_cached_access(identity, addresses):
    owner = identity.owner("ann")
    bob = invite(identity, owner, "bob", "member")
    identity.auth.login(login="bob@example.com", password="correct horse", address="")
    identity.people.change(owner, bob.user_id, status="DISABLED")
    reasons = rows(addresses, "SELECT revoked_reason FROM session WHERE user_id = %s", bob.user_id)
    assert reasons == [("disabled",)]
    assert f"tenant {owner.tenant_id}" in identity.revocations.dropped


def test_people_of_another_tenant_are_not_there(identity):
    ann, bob = identity.owner("ann"), identity.owner("bob")
    for stranger in (bob.user_id, new_id()):
        with pytest.raises(NotFound):
            identity.people.change(ann, stranger, status="DISABLED")
    assert len(identity.people.users(ann.tenant_id, after=None, limit=10)) == 1


@pytest.mark.parametrize("column", ["tier", "status", "weight", "concurrency", "queue_depth", "is_platform"])
def test_tenant_cannot_write_other_columns_of_its_row(identity, database, column):
    owner = identity.owner("ann")
    query = f"UPDATE tenant SET {column} = {column}".encode()
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        database.tenant_transaction(owner.tenant_id) as tx,
    ):
        tx.run(query)


# --- roles


def test_tenant_defines_roles_of_its_own(identity, addresses):
    owner = identity.owner("ann")
    identity.people.add_role(owner, name="printer", permissions=frozenset({"task.read"}))
    bob = invite(identity, owner, "bob", "printer")
    assert bob.permissions == {"task.read"}
    identity.people.change_role(owner, "printer", permissions=frozenset({"task.submit"}))
    (found,) = [user for user in identity.people.users(owner.tenant_id, after=None, limit=9) if user.email[0] == "b"]
    assert found.permissions == {"task.submit"}
    with pytest.raises(RoleInUse):
        identity.people.remove_role(owner, "printer")
    identity.people.change(owner, bob.user_id, roles=["viewer"])
    identity.people.remove_role(owner, "printer")
    assert rows(addresses, "SELECT action FROM audit_log WHERE action LIKE 'role.%%' ORDER BY at") == [
        ("role.created",),
        ("role.changed",),
        ("role.deleted",),
    ]


def test_built_in_roles_are_listed_and_fixed(identity):
    owner = identity.owner("ann")
    names = [role.name for role in identity.people.roles(owner.tenant_id)]
    assert names == ["admin", "member", "operator", "owner", "viewer"]
    for act in (
        lambda: identity.people.change_role(owner, "viewer", permissions=frozenset()),
        lambda: identity.people.remove_role(owner, "viewer"),
    ):
        with pytest.raises(RoleFixed):
            act()
    for name in ("viewer", "platform_admin"):
        with pytest.raises(RoleTaken):
            identity.people.add_role(owner, name=name, permissions=frozenset())


def test_role_has_at_most_its_makers_permissions(identity):
    owner = identity.owner("ann")
    for beyond in ("tenant.manage", "ops.write", "points.grant"):
        with pytest.raises(NotYours):
            identity.people.add_role(owner, name="wide", permissions=frozenset({beyond}))
    identity.people.add_role(owner, name="refunds", permissions=frozenset({"order.refund"}))
    admin = as_actor(owner, invite(identity, owner, "adam", "admin"))
    for act in (
        lambda: identity.people.change_role(admin, "refunds", permissions=frozenset({"task.read"})),
        lambda: identity.people.remove_role(admin, "refunds"),
    ):
        with pytest.raises(NotYours):
            act()


def test_platforms_role_counts_only_in_platforms_tenant(identity, addresses):
    owner = identity.owner("ann")
    rows(
        addresses, "INSERT INTO user_role VALUES (%s, %s, 'platform_admin') RETURNING 1", owner.tenant_id, owner.user_id
    )
    tokens = identity.auth.login(login="ann@example.com", password="correct horse", address="")
    assert "tenant.manage" not in identity.verifier.verify(tokens.access_token).permissions


def test_roles_of_one_tenant_mean_nothing_in_another(identity):
    ann, bob = identity.owner("ann"), identity.owner("bob")
    identity.people.add_role(ann, name="printer", permissions=frozenset({"task.read"}))
    with pytest.raises(Refused):
        invite(identity, bob, "carl", "printer")
    with pytest.raises(NotFound):
        identity.people.remove_role(bob, "printer")
    identity.people.add_role(bob, name="printer", permissions=frozenset({"points.read"}))


# --- tenants


@pytest.mark.parametrize(
    ("tier", "weight", "concurrency", "depth", "priority", "rate", "burst", "days"),
    [
        ("enterprise", 10, 50, 500, "CRITICAL", 100, 200, 180),
        ("vip", 5, 20, 100, "HIGH", 50, 100, 30),
        ("standard", 2, 5, 30, "NORMAL", 20, 40, 15),
        ("free", 1, 2, 10, "LOW", 5, 10, 3),
    ],
)
def test_tier_has_the_specified_limits(identity, tier, weight, concurrency, depth, priority, rate, burst, days):
    view = identity.tenants.create(
        {"name": "t", "tier": Tier(tier)}, owner_email=None, owner_password=None, actor_id=new_id()
    )
    policy = identity.tenants.policies([view.tenant.tenant_id])[view.tenant.tenant_id]
    assert policy == view.policy
    assert (policy.weight, policy.concurrency, policy.queue_depth, policy.priority) == (
        weight,
        concurrency,
        depth,
        priority,
    )
    assert (policy.rate_per_second, policy.burst, policy.artefact_days) == (rate, burst, days)


def test_overrides_hold_until_they_are_taken_back(identity, addresses):
    admin = new_id()
    tenant_id = identity.register("ann").tenant_id
    changed = identity.tenants.change(tenant_id, {"weight": 7, "rate_per_second": 30}, actor_id=admin)
    assert (changed.policy.weight, changed.policy.rate_per_second, changed.policy.burst) == (7, 30, 60)
    assert changed.policy.concurrency == 2
    back = identity.tenants.change(tenant_id, {"weight": None, "tier": "vip"}, actor_id=admin)
    assert (back.policy.weight, back.policy.rate_per_second, back.policy.concurrency) == (5, 30, 20)
    assert identity.revocations.dropped == [f"tenant {tenant_id}"] * 2
    assert rows(addresses, "SELECT actor_id, details -> 'after' FROM audit_log WHERE action = 'tenant.changed'") == [
        (admin, {"weight": 7, "rate_per_second": 30}),
        (admin, {"weight": None, "tier": "vip"}),
    ]


def test_tenant_and_owner_are_created_together(identity, addresses):
    facts = {"name": "t", "tier": Tier.VIP}
    identity.tenants.create(facts, owner_email="o@example.com", owner_password="correct horse", actor_id=new_id())
    assert identity.auth.login(login="o@example.com", password="correct horse", address="")
    with pytest.raises(LoginTaken):
        identity.tenants.create(facts, owner_email="o@example.com", owner_password="correct horse", actor_id=new_id())
    assert rows(addresses, "SELECT count(*) FROM tenant") == [(1,)]


def test_unknown_and_platform_tenants_cannot_be_suspended(identity, addresses):
    with pytest.raises(NotFound):
        identity.tenants.change(new_id(), {"weight": 1}, actor_id=new_id())
    ((tenant_id,),) = rows(
        addresses,
        "INSERT INTO tenant (tenant_id, name, tier, is_platform) VALUES (%s, 'p', 'vip', true) RETURNING tenant_id",
        new_id(),
    )
    with pytest.raises(PlatformTenant):
        identity.tenants.change(tenant_id, {"status": "SUSPENDED"}, actor_id=new_id())


def test_next_page_starts_after_the_last(identity):
    made = [identity.register().tenant_id for _ in range(5)]
    first = identity.tenants.list(after=None, limit=3)
    rest = identity.tenants.list(after=first[-1].tenant.tenant_id, limit=3)
    assert [view.tenant.tenant_id for view in [*first, *rest]] == made
