"""Any sequence of operations leaves PostgreSQL and the pure model equal."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4, uuid5

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artiway.audit.repository import AuditLog
from artiway.errors import ArtiwayError
from artiway.platform.database import Database
from artiway.points.model import Change, Kind, LedgerFilter, Terms
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from tests.conftest import Addresses, soaked
from tests.fakes.clock import FixedClock
from tests.fakes.points import FakeLedger
from tests.fakes.users import add_users
from tests.integration.points.invariants import violations

USERS, HOLDS = 2, 4
Operation = tuple[str, int, int, int]  # verb, user, hold or key, amount
operations = st.lists(
    st.tuples(
        st.sampled_from(
            ["recharge", "gift", "hold", "hold", "confirm", "cancel", "transfer", "take back", "lapse", "wait"]
        ),
        st.integers(0, USERS - 1),
        st.integers(0, HOLDS - 1),
        st.integers(1, 60),
    ),
    max_size=40,
)


def act(points: PointsService, clock: FixedClock, tenant_id: UUID, operation: Operation, users: list[UUID]) -> object:
    """Do it, and return what the caller sees: a result or the refusal's code."""
    verb, person, number, amount = operation
    user_id, other_id = users[person], users[1 - person]
    hold_id = uuid5(tenant_id, f"hold {number}")
    key = f"{verb} {number} {amount}"
    try:
        match verb:
            case "recharge":
                entry = points.credit(tenant_id=tenant_id, change=Change(user_id, Kind.RECHARGE, amount, "r", key))
                return entry.version, entry.balance
            case "gift":
                terms = Terms(campaign=f"c{number}", expires_at=clock.now() + timedelta(minutes=amount))
                entry = points.grant(
                    tenant_id=tenant_id,
                    user_id=user_id,
                    amount_points=amount,
                    idempotency_key=key,
                    reference="g",
                    terms=terms,
                )
                return entry.version, entry.balance
            case "hold":
                return points.place_hold(
                    tenant_id=tenant_id,
                    user_id=user_id,
                    hold_id=hold_id,
                    amount_points=amount,
                    expires_at=clock.now(),
                )
            case "confirm":
                return points.confirm_hold(tenant_id=tenant_id, hold_id=hold_id, charge_points=amount)
            case "cancel":
                return points.cancel_hold(tenant_id=tenant_id, user_id=user_id, hold_id=hold_id)
            case "transfer":
                entry = points.transfer(
                    tenant_id=tenant_id,
                    from_user_id=user_id,
                    to_user_id=other_id,
                    amount_points=amount,
                    idempotency_key=key,
                )
                return entry.version, entry.balance
            case "take back":
                return points.debit_at_most(
                    tenant_id=tenant_id, change=Change(user_id, Kind.REFUND, amount, "ref", key)
                )
            case "lapse":
                return points.lapse(tenant_id=tenant_id, user_id=user_id)
            case _:
                return clock.advance(minutes=amount)
    except ArtiwayError as refusal:
        return refusal.code


@pytest.mark.soak
@settings(max_examples=soaked(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=operations)
def test_postgresql_answers_and_ends_like_model(worker_addresses: Addresses, script: list[Operation]) -> None:
    tenant_id, users = uuid4(), [uuid4(), uuid4()]
    with psycopg.connect(worker_addresses.superuser, autocommit=True) as superuser:
        add_users(worker_addresses.superuser, tenant_id, users)
        fake = FakeLedger()
        for user_id in users:
            fake.add_user(tenant_id, user_id)
        database = Database(worker_addresses.app)
        try:
            real = PostgresLedger(database, AuditLog())
            run(real, fake, tenant_id, users, script)
        finally:
            database.close()
        assert violations(superuser) == []
        assert [live_lots(superuser, user_id) for user_id in users] == [
            fake.lots(tenant_id, user_id) for user_id in users
        ]


def live_lots(connection: psycopg.Connection, user_id: UUID) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT expires_at, remaining FROM points_lot WHERE user_id = %s AND remaining > 0 ORDER BY expires_at, lot_id",
        [user_id],
    ).fetchall()


def run(real: PostgresLedger, fake: FakeLedger, tenant_id: UUID, users: list[UUID], script: list[Operation]) -> None:
    clock, other_clock = FixedClock(), FixedClock()
    for operation in script:
        expected = act(PointsService(fake, clock), clock, tenant_id, operation, users)
        assert act(PointsService(real, other_clock), other_clock, tenant_id, operation, users) == expected, operation
    for user_id in users:
        assert real.account(tenant_id, user_id) == fake.account(tenant_id, user_id)
        pages = [
            ledger.page(tenant_id, user_id, LedgerFilter(), before_version=None, limit=100) for ledger in (real, fake)
        ]
        entries = [[(e.kind, e.balance_delta, e.frozen_delta, e.balance, e.frozen) for e in page] for page in pages]
        assert entries[0] == entries[1]
