"""Many at once on few accounts: the database alone keeps them apart."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4, uuid5

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import ArtiwayError
from artiway.platform.database import Database
from artiway.points.model import Change, HoldEnded, HoldStatus, InsufficientPoints, Kind, Terms, TooManyLots
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from tests.conftest import Addresses, soaked
from tests.fakes.clock import FixedClock
from tests.fakes.users import add_users
from tests.integration.points.conftest import TENANT
from tests.integration.points.invariants import violations

CLIENTS = 64
OPERATIONS = soaked(250)
USERS = [uuid5(TENANT, f"user {number}") for number in range(16)]
MakePoints = Callable[[], PointsService]


@pytest.mark.parametrize("clients", [3, 40])
def test_hundred_points_pay_exactly_two_of_many_fifties(
    make_points: MakePoints, addresses: Addresses, clock: FixedClock, clients: int
):
    add_users(addresses.superuser, TENANT, USERS[:1])
    services = [make_points() for _ in range(clients)]
    services[0].credit(tenant_id=TENANT, change=Change(USERS[0], Kind.RECHARGE, 100, "r", "r"))
    together = threading.Barrier(clients)

    def submit(points: PointsService) -> str:
        points.account(tenant_id=TENANT, user_id=USERS[0])  # connected
        together.wait()
        try:
            points.place_hold(
                tenant_id=TENANT,
                user_id=USERS[0],
                hold_id=uuid4(),
                amount_points=50,
                expires_at=clock.now(),
            )
        except InsufficientPoints as refusal:
            return refusal.code
        return "accepted"

    with ThreadPoolExecutor(clients) as pool:
        outcomes = Counter(pool.map(submit, services))
    assert outcomes == {"accepted": 2, "POINTS_402_INSUFFICIENT": clients - 2}
    account = services[0].account(tenant_id=TENANT, user_id=USERS[0])
    assert (account.balance, account.frozen) == (0, 100)


def test_concurrent_settlements_end_a_hold_once(make_points: MakePoints, addresses: Addresses, clock: FixedClock):
    add_users(addresses.superuser, TENANT, USERS[:1])
    services = [make_points() for _ in range(16)]
    services[0].credit(tenant_id=TENANT, change=Change(USERS[0], Kind.RECHARGE, 1_000, "r", "r"))
    for _ in range(5):
        hold_id = uuid4()
        services[0].place_hold(
            tenant_id=TENANT, user_id=USERS[0], hold_id=hold_id, amount_points=10, expires_at=clock.now()
        )
        together = threading.Barrier(len(services))

        def settle(number: int, hold_id: UUID = hold_id, together: threading.Barrier = together) -> None:
            together.wait()
            with contextlib.suppress(HoldEnded):
                if number % 2:
                    services[number].confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=1 + number % 10)
                else:
                    services[number].cancel_hold(tenant_id=TENANT, user_id=USERS[0], hold_id=hold_id)

        with ThreadPoolExecutor(len(services)) as pool:
            list(pool.map(settle, range(len(services))))
        assert services[0].account(tenant_id=TENANT, user_id=USERS[0]).frozen == 0


def test_concurrent_grants_respect_the_limit_of_lots(
    addresses: Addresses, clock: FixedClock, superuser: psycopg.Connection
):
    add_users(addresses.superuser, TENANT, USERS[:1])
    together = threading.Barrier(8)

    def grant(number: int) -> str:
        with contextlib.closing(Database(addresses.app, connect_timeout_s=60, statement_timeout_ms=60_000)) as database:
            points = PointsService(PostgresLedger(database, AuditLog(), lots_per_user=3), clock)
            points.account(tenant_id=TENANT, user_id=USERS[0])  # connected
            together.wait()
            try:
                points.grant(
                    tenant_id=TENANT,
                    user_id=USERS[0],
                    amount_points=10,
                    idempotency_key=f"g {number}",
                    reference="g",
                    terms=Terms(expires_at=clock.now() + timedelta(hours=1 + number)),
                )
            except TooManyLots as refusal:
                return refusal.code
            return "granted"

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(grant, range(8)))
    assert outcomes == {"granted": 3, "POINTS_409_TOO_MANY_LOTS": 5}
    assert superuser.execute("SELECT count(*), sum(remaining) FROM points_lot").fetchone() == (3, 30)


def operate(points: PointsService, clock: FixedClock, seed: int, count: int) -> Counter[str]:
    """Random operations of one client on accounts, holds and keys that it shares with all the others."""
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        user_id = chance.choice(USERS)
        amount = chance.randint(1, 20)
        # Gifts go to a few, so that accounts with and without points that lapse are both there.
        lucky_id = chance.choice(USERS[:4])
        # Few enough that clients meet on the same holds and keys.
        hold_id = uuid5(user_id, f"hold {chance.randrange(2 * count)}")
        key = f"{user_id} {chance.randrange(2 * count)}"
        verb = chance.choices(
            ["freeze", "confirm", "cancel", "recharge", "gift", "transfer", "take back", "lapse"],
            [32, 22, 16, 14, 3, 6, 4, 3],
        )[0]
        try:
            match verb:
                case "freeze":
                    points.place_hold(
                        tenant_id=TENANT, user_id=user_id, hold_id=hold_id, amount_points=amount, expires_at=clock.now()
                    )
                case "confirm":
                    points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=amount)
                case "cancel":
                    points.cancel_hold(tenant_id=TENANT, user_id=user_id, hold_id=hold_id)
                case "recharge":
                    points.credit(tenant_id=TENANT, change=Change(user_id, Kind.RECHARGE, amount, "r", f"r {key}"))
                case "gift":
                    points.grant(
                        tenant_id=TENANT,
                        user_id=lucky_id,
                        amount_points=amount,
                        idempotency_key=f"g {key}",
                        reference="g",
                        terms=Terms(expires_at=clock.now() + timedelta(minutes=chance.randint(1, 20))),
                    )
                case "transfer":
                    points.transfer(
                        tenant_id=TENANT,
                        from_user_id=user_id,
                        to_user_id=chance.choice([other for other in USERS if other != user_id]),
                        amount_points=amount,
                        idempotency_key=key,
                    )
                case "take back":
                    points.debit_at_most(tenant_id=TENANT, change=Change(user_id, Kind.REFUND, amount, "b", f"b {key}"))
                case _:
                    clock.advance(seconds=2)
                    points.lapse(tenant_id=TENANT, user_id=lucky_id)
            outcomes[f"{verb} done"] += 1
        except ArtiwayError as refusal:
            outcomes[f"{verb} {refusal.code}"] += 1
    return outcomes


@pytest.mark.soak
def test_ledger_stays_consistent_under_64_random_clients(
    make_points: MakePoints, addresses: Addresses, clock: FixedClock, superuser: psycopg.Connection
):
    add_users(addresses.superuser, TENANT, USERS)
    services = [make_points() for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = list(pool.map(lambda seed: operate(services[seed], clock, seed, OPERATIONS), range(CLIENTS)))
    outcomes = sum(parts, Counter())
    assert violations(superuser) == []
    assert sum(outcomes.values()) == CLIENTS * OPERATIONS
    # Nothing but what the rules say: no deadlock, no time-out, no error of the database.
    refusals = {outcome.split()[-1] for outcome in outcomes if not outcome.endswith("done")}
    assert refusals <= {"POINTS_402_INSUFFICIENT", "POINTS_409_HOLD_ENDED", "POINTS_404_NO_HOLD", "REQUEST_422_INVALID"}
    ended = superuser.execute("SELECT status, count(*) FROM points_hold GROUP BY status").fetchall()
    assert {status for status, _ in ended} == set(HoldStatus)
