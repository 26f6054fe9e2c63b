"""Two tenants, random acts in random order: neither ever sees or changes a row of the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from artiway.errors import ArtiwayError
from artiway.identity.model import Actor
from artiway.ids import new_id
from artiway.platform.database import Database
from tests.conftest import soaked

TENANT_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
 WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') ORDER BY 1
"""


SNAPSHOT = """
SELECT {name} AS name, count(*), coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '')
  FROM {table} t WHERE tenant_id = %(tenant)s
"""
READABLE = """
SELECT name FROM unnest(%s::text[]) AS name WHERE has_column_privilege('artiway_app', name, 'tenant_id', 'SELECT')
"""


@dataclass
class Side:
    """One of the two tenants, and every id that a member could get hold of."""

    owner: Actor
    users: list[UUID] = field(default_factory=list)
    keys: list[UUID] = field(default_factory=list)
    rows: dict[str, tuple[int, str]] | None = None


class World:
    def __init__(self, identity, database: Database, watcher: psycopg.Connection) -> None:
        self.identity, self.database, self._watcher = identity, database, watcher
        self.tables = [name for (name,) in watcher.execute(TENANT_TABLES).fetchall()]
        readable = [name for (name,) in watcher.execute(READABLE, (self.tables,)).fetchall()]
        # What SQL sees that forgets `WHERE tenant_id =`.
        parts = [sql.SQL("SELECT tenant_id FROM {}").format(sql.Identifier(name)) for name in readable]
        self.everything = sql.SQL(" UNION ALL ").join(parts).as_bytes()
        self._snapshot = sql.SQL(" UNION ALL ").join(
            sql.SQL(SNAPSHOT).format(name=sql.Literal(name), table=sql.Identifier(name)) for name in self.tables
        )
        owners = [identity.owner() for _ in range(2)]
        self.sides = [Side(owner, [owner.user_id]) for owner in owners]
        self.user_ids = [owner.user_id for owner in owners]
        self.key_ids: list[UUID] = []

    def rows_of(self, tenant_id: UUID) -> dict[str, tuple[int, str]]:
        """Everything that a tenant owns, as the superuser sees it."""
        found = self._watcher.execute(self._snapshot, {"tenant": tenant_id}, prepare=True).fetchall()
        return {name: (count, digest) for name, count, digest in found}


# --- acts: each is done by a member of `side`, with a number to choose among all ids of both tenants


def invite(world: World, side: Side, number: int) -> None:
    user = world.identity.people.invite(
        side.owner, email=f"{new_id().hex}@example.com", password="correct horse", roles=["member"]
    )
    side.users.append(user.user_id)
    world.user_ids.append(user.user_id)


def change_anybody(world: World, side: Side, number: int) -> None:
    target = world.user_ids[number % len(world.user_ids)]
    status = ("ACTIVE", "DISABLED")[number % 2]
    roles = ["viewer"] if number % 3 else None
    world.identity.people.change(side.owner, target, status=status, roles=roles, concurrency=number)


def list_people(world: World, side: Side, number: int) -> None:
    seen = {user.user_id for user in world.identity.people.users(side.owner.tenant_id, after=None, limit=100)}
    assert seen == set(side.users)


def make_role(world: World, side: Side, number: int) -> None:
    world.identity.people.add_role(side.owner, name=f"role-{number % 3}", permissions=frozenset({"task.read"}))


def remove_role(world: World, side: Side, number: int) -> None:
    world.identity.people.remove_role(side.owner, f"role-{number % 3}")


def make_key(world: World, side: Side, number: int) -> None:
    key, _ = world.identity.keys.create(side.owner, name="k", permissions=frozenset(), expires_at=None, is_signed=False)
    side.keys.append(key.key_id)
    world.key_ids.append(key.key_id)


def remove_any_key(world: World, side: Side, number: int) -> None:
    if world.key_ids:
        target = world.key_ids[number % len(world.key_ids)]
        world.identity.keys.remove(side.owner, target)
        assert target in side.keys


def read_everything(world: World, side: Side, number: int) -> None:
    """SQL that forgets `WHERE tenant_id =` shows the tenant's own rows alone."""
    with world.database.tenant_transaction(side.owner.tenant_id) as tx:
        seen = {row["tenant_id"] for row in tx.all(world.everything)}
    assert seen == {side.owner.tenant_id}


def change_everything(world: World, side: Side, number: int) -> None:
    """An UPDATE and a DELETE that name no tenant touch the tenant's own rows alone."""
    with world.database.tenant_transaction(side.owner.tenant_id) as tx:
        tx.run(b"UPDATE app_user SET updated_at = now(), concurrency = 1")
        tx.run(b"UPDATE tenant SET name = 'mine', user_concurrency = 1")
        tx.run(b"UPDATE session SET revoked_at = now(), revoked_reason = 'logout' WHERE revoked_at IS NULL")
        tx.run(b"DELETE FROM tenant_role")
        tx.run(b"DELETE FROM api_key")
    side.keys.clear()


def write_into_the_other(world: World, side: Side, number: int) -> None:
    other = next(one for one in world.sides if one is not side).owner
    statements = [
        ("INSERT INTO tenant_role VALUES (%(tenant)s, 'planted', '{task.read}')", {}),
        ("INSERT INTO user_role VALUES (%(tenant)s, %(user)s, 'owner')", {}),
        ("INSERT INTO app_user (tenant_id, user_id) VALUES (%(tenant)s, %(fresh)s)", {}),
        ("INSERT INTO outbox (tenant_id, aggregate, destination, body) VALUES (%(tenant)s, 'a', 'push', '{}')", {}),
    ]
    query, _ = statements[number % len(statements)]
    facts = {"tenant": other.tenant_id, "user": side.owner.user_id, "fresh": new_id()}
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege),
        world.database.tenant_transaction(side.owner.tenant_id) as tx,
    ):
        tx.run(query.encode(), facts)


def forget_the_tenant(world: World, side: Side, number: int) -> None:
    """Code that sets no tenant sees nothing, changes nothing and can write nothing."""
    with world.database.service_transaction() as tx:
        assert tx.all(world.everything) == []
        assert tx.run(b"UPDATE app_user SET updated_at = now()") == 0
        assert tx.run(b"UPDATE tenant SET user_concurrency = 1") == 0
        assert tx.run(b"DELETE FROM api_key") == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege), world.database.service_transaction() as tx:
        tx.run(b"INSERT INTO tenant_role VALUES (%(tenant)s, 'planted', '{}')", {"tenant": side.owner.tenant_id})


ACTS: list[Callable[[World, Side, int], None]] = [
    invite,
    change_anybody,
    list_people,
    make_role,
    remove_role,
    make_key,
    remove_any_key,
    read_everything,
    change_everything,
    write_into_the_other,
    forget_the_tenant,
]


@pytest.mark.soak
@settings(
    max_examples=soaked(200),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=st.lists(st.tuples(st.integers(0, 1), st.sampled_from(ACTS), st.integers(0, 11)), min_size=3, max_size=8))
def test_tenants_never_read_or_write_each_others_rows(identity, database, watcher, acts):
    world = World(identity, database, watcher)
    for number_of_side, act, number in acts:
        side, other = world.sides[number_of_side], world.sides[1 - number_of_side]
        if other.rows is None:
            other.rows = world.rows_of(other.owner.tenant_id)
        with contextlib.suppress(ArtiwayError):  # refused by a rule, which is as good
            act(world, side, number)
        side.rows = None  # its own rows it may change
        assert world.rows_of(other.owner.tenant_id) == other.rows, act.__name__


@pytest.fixture
def watcher(addresses):
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        yield connection
