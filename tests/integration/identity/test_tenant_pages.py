"""What administrators see of a tenant: search, users with points, orders."""

from __future__ import annotations

import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.ids import new_id, to_wire
from artiway.points.model import Change, Kind
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService


def names(identity, q):
    return [view.tenant.name for view in identity.tenants.list(after=None, limit=10, q=q)]


def test_tenants_are_found_by_name_id_address(identity):
    ann = identity.owner("ann")
    identity.register("bob")
    assert names(identity, "ANN") == ["tenant ann"]
    assert names(identity, "Bob@example.com") == ["tenant bob"]
    assert names(identity, "nobody@example.com") == []
    assert names(identity, to_wire("tnt", ann.tenant_id)) == ["tenant ann"]
    assert names(identity, to_wire("tnt", new_id())) == []
    assert len(names(identity, None)) == 2


def test_users_of_a_tenant_have_points_and_roles(identity, database):
    ann = identity.owner("ann")
    identity.register("bob")
    points = PointsService(PostgresLedger(database, AuditLog()), identity.clock)
    change = Change(ann.user_id, Kind.RECHARGE, 7, "test", "test")
    points.credit(tenant_id=ann.tenant_id, change=change)
    (user,) = identity.tenants.users(ann.tenant_id, after=None, limit=10)
    assert (user.email, user.roles, user.balance) == ("ann@example.com", ("owner",), 7)
    assert identity.tenants.orders(ann.tenant_id, before=None, limit=10) == []


def test_unknown_tenant_has_no_pages(identity):
    with pytest.raises(NotFound):
        identity.tenants.users(new_id(), after=None, limit=10)
    with pytest.raises(NotFound):
        identity.tenants.orders(new_id(), before=None, limit=10)
