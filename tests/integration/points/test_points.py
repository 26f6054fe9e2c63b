"""What points promise, on the fake and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound, Refused
from artiway.platform.database import Database
from artiway.points.model import (
    AccountChanged,
    CampaignGranted,
    Change,
    HoldEnded,
    HoldStatus,
    InsufficientPoints,
    Kind,
    LedgerFilter,
    NoSuchHold,
    Terms,
    TooManyLots,
)
from artiway.points.repository import PostgresLedger
from artiway.points.service import PointsService
from tests.conftest import Addresses
from tests.fakes.clock import FixedClock
from tests.fakes.users import add_users
from tests.integration.points.conftest import TENANT

HOUR = timedelta(hours=1)
NewUser = Callable[[], UUID]


def recharge(points: PointsService, user_id: UUID, amount: int, key: str = "") -> None:
    change = Change(user_id, Kind.RECHARGE, amount, "ord_1", key or f"recharge:{uuid4()}")
    points.credit(tenant_id=TENANT, change=change)


def hold(points: PointsService, user_id: UUID, amount: int, clock: FixedClock, hold_id: UUID | None = None) -> UUID:
    hold_id = hold_id or uuid4()
    points.place_hold(
        tenant_id=TENANT, user_id=user_id, hold_id=hold_id, amount_points=amount, expires_at=clock.now() + HOUR
    )
    return hold_id


def gift(points: PointsService, user_id: UUID, amount: int, *, hours: float, clock: FixedClock) -> None:
    terms = Terms(expires_at=clock.now() + timedelta(hours=hours))
    points.grant(
        tenant_id=TENANT,
        user_id=user_id,
        amount_points=amount,
        idempotency_key=str(uuid4()),
        reference="x",
        terms=terms,
    )


def held(points: PointsService, user_id: UUID) -> tuple[int, int]:
    account = points.account(tenant_id=TENANT, user_id=user_id)
    return account.balance, account.frozen


def kinds(points: PointsService, user_id: UUID) -> list[Kind]:
    page = points.entries(tenant_id=TENANT, user_id=user_id, wanted=LedgerFilter(), before_version=None, limit=100)
    return [entry.kind for entry in reversed(page)]


def test_hold_moves_points_from_balance_to_frozen(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold(points, user_id, 30, clock)
    assert held(points, user_id) == (70, 30)
    assert kinds(points, user_id) == [Kind.RECHARGE, Kind.FREEZE]


def test_third_hold_beyond_balance_changes_nothing(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold(points, user_id, 50, clock)
    hold(points, user_id, 50, clock)
    with pytest.raises(InsufficientPoints) as refusal:
        hold(points, user_id, 50, clock)
    assert refusal.value.code == "POINTS_402_INSUFFICIENT"
    assert held(points, user_id) == (0, 100)


def test_user_without_account_has_nothing_to_hold(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    with pytest.raises(InsufficientPoints):
        hold(points, user_id, 1, clock)
    assert held(points, user_id) == (0, 0)


def test_placing_hold_twice_freezes_once(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold_id = hold(points, user_id, 60, clock)
    hold(points, user_id, 60, clock, hold_id)
    assert held(points, user_id) == (40, 60)


def test_partial_confirm_releases_the_rest_in_one_entry(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold_id = hold(points, user_id, 30, clock)
    ended = points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=20)
    assert (ended.status, ended.charged) == (HoldStatus.CONFIRMED, 20)
    assert held(points, user_id) == (80, 0)
    assert kinds(points, user_id) == [Kind.RECHARGE, Kind.FREEZE, Kind.CONFIRM]


def test_ended_hold_never_changes_again(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold_id = hold(points, user_id, 30, clock)
    points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=30)
    again = points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=10)
    cancelled = points.cancel_hold(tenant_id=TENANT, user_id=user_id, hold_id=hold_id)
    assert again.charged == cancelled.charged == 30
    assert held(points, user_id) == (70, 0)


def test_cancelled_hold_cannot_be_confirmed(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold_id = hold(points, user_id, 30, clock)
    points.cancel_hold(tenant_id=TENANT, user_id=user_id, hold_id=hold_id)
    points.cancel_hold(tenant_id=TENANT, user_id=user_id, hold_id=hold_id)
    with pytest.raises(HoldEnded):
        points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=30)
    assert held(points, user_id) == (100, 0)


def test_charge_beyond_its_hold_changes_nothing(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold_id = hold(points, user_id, 30, clock)
    with pytest.raises(Refused):
        points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=31)
    assert held(points, user_id) == (70, 30)


def test_hold_after_its_cancel_is_refused(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    hold_id = uuid4()
    points.cancel_hold(tenant_id=TENANT, user_id=user_id, hold_id=hold_id)
    with pytest.raises(HoldEnded):
        hold(points, user_id, 30, clock, hold_id)
    assert held(points, user_id) == (100, 0)


def test_unknown_hold_cannot_be_confirmed(points: PointsService):
    with pytest.raises(NoSuchHold):
        points.confirm_hold(tenant_id=TENANT, hold_id=uuid4(), charge_points=1)


def test_credit_happens_once_per_key(points: PointsService, new_user: NewUser):
    user_id = new_user()
    recharge(points, user_id, 100, "wxpay:m:1")
    recharge(points, user_id, 100, "wxpay:m:1")
    assert held(points, user_id) == (100, 0)


@pytest.mark.parametrize("amount", [0, -1])
def test_amount_is_positive(points: PointsService, new_user: NewUser, clock: FixedClock, amount: int):
    user_id = new_user()
    with pytest.raises(Refused):
        recharge(points, user_id, amount)
    with pytest.raises(Refused):
        hold(points, user_id, amount, clock)


def test_campaign_grants_once_and_repeats_its_answer(points: PointsService, new_user: NewUser):
    user_id, other_id = new_user(), new_user()

    def grant(to: UUID, key: str) -> int:
        entry = points.grant(
            tenant_id=TENANT,
            user_id=to,
            amount_points=10,
            idempotency_key=key,
            reference="sign-up",
            terms=Terms(campaign="sign-up"),
        )
        return entry.version

    assert grant(user_id, "a") == grant(user_id, "a") == 1
    with pytest.raises(CampaignGranted):
        grant(user_id, "b")
    grant(other_id, "c")
    assert held(points, user_id) == held(points, other_id) == (10, 0)


def test_gift_to_unknown_user_is_not_found(points: PointsService):
    with pytest.raises(NotFound):
        points.grant(
            tenant_id=TENANT, user_id=uuid4(), amount_points=1, idempotency_key="k", reference="", terms=Terms()
        )


def test_soonest_to_lapse_are_spent_first(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 100)
    gift(points, user_id, 20, hours=2, clock=clock)
    gift(points, user_id, 30, hours=1, clock=clock)
    hold_id = hold(points, user_id, 40, clock)
    points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=40)
    clock.advance(hours=1)
    assert points.lapse(tenant_id=TENANT, user_id=user_id) == 0
    clock.advance(hours=1)
    assert points.lapse(tenant_id=TENANT, user_id=user_id) == 10
    assert held(points, user_id) == (100, 0)
    assert kinds(points, user_id)[-1] is Kind.ADJUST


def test_expired_points_cannot_be_held_before_the_sweep(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 10)
    gift(points, user_id, 20, hours=1, clock=clock)
    clock.advance(hours=1)
    with pytest.raises(InsufficientPoints):
        hold(points, user_id, 11, clock)
    hold(points, user_id, 10, clock)
    assert held(points, user_id) == (0, 10)


def test_released_points_return_to_their_lot(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 10)
    gift(points, user_id, 20, hours=1, clock=clock)
    hold_id = hold(points, user_id, 25, clock)
    points.confirm_hold(tenant_id=TENANT, hold_id=hold_id, charge_points=5)
    assert held(points, user_id) == (25, 0)
    clock.advance(hours=1)
    assert points.lapse(tenant_id=TENANT, user_id=user_id) == 15
    assert held(points, user_id) == (10, 0)


def test_transfer_moves_points_once_with_their_expiry(points: PointsService, new_user: NewUser, clock: FixedClock):
    giver, taker = new_user(), new_user()
    recharge(points, giver, 10)
    gift(points, giver, 20, hours=1, clock=clock)
    for _ in range(2):
        points.transfer(tenant_id=TENANT, from_user_id=giver, to_user_id=taker, amount_points=25, idempotency_key="t")
    assert (held(points, giver), held(points, taker)) == ((5, 0), (25, 0))
    clock.advance(hours=1)
    assert points.lapse(tenant_id=TENANT, user_id=taker) == 20
    assert points.lapse(tenant_id=TENANT, user_id=giver) == 0


def test_small_transfers_of_one_date_make_one_lot(
    database: Database, addresses: Addresses, clock: FixedClock, superuser: psycopg.Connection
):
    points = PointsService(PostgresLedger(database, AuditLog()), clock)
    giver, taker = uuid4(), uuid4()
    add_users(addresses.superuser, TENANT, [giver, taker])
    gift(points, giver, 20, hours=1, clock=clock)
    for number in range(5):
        points.transfer(
            tenant_id=TENANT, from_user_id=giver, to_user_id=taker, amount_points=2, idempotency_key=str(number)
        )
    lots = superuser.execute("SELECT granted, remaining FROM points_lot WHERE user_id = %s", [taker]).fetchall()
    assert lots == [(10, 10)]
    clock.advance(hours=1)
    assert points.lapse(tenant_id=TENANT, user_id=taker) == 10


def test_user_has_so_many_dates_of_expiry(
    database: Database, addresses: Addresses, clock: FixedClock, superuser: psycopg.Connection
):
    points = PointsService(PostgresLedger(database, AuditLog(), lots_per_user=2), clock)
    giver, taker = uuid4(), uuid4()
    add_users(addresses.superuser, TENANT, [giver, taker])
    for hours in (1, 2, 2):
        gift(points, taker, 10, hours=hours, clock=clock)
    hold(points, taker, 15, clock)  # a spent lot counts: a release fills it again
    gift(points, giver, 10, hours=3, clock=clock)
    before = superuser.execute("SELECT count(*) FROM points_ledger").fetchone()
    with pytest.raises(TooManyLots) as refused:
        gift(points, taker, 10, hours=3, clock=clock)
    assert (refused.value.code, refused.value.details) == ("POINTS_409_TOO_MANY_LOTS", {"limit": 2})
    with pytest.raises(TooManyLots):
        points.transfer(tenant_id=TENANT, from_user_id=giver, to_user_id=taker, amount_points=5, idempotency_key="t")
    assert superuser.execute("SELECT count(*) FROM points_ledger").fetchone() == before
    clock.advance(hours=1)
    gift(points, taker, 10, hours=3, clock=clock)


def test_impossible_transfer_is_refused(points: PointsService, new_user: NewUser):
    giver, taker = new_user(), new_user()
    recharge(points, giver, 10)
    for to, amount, error in ((taker, 11, InsufficientPoints), (giver, 1, Refused), (uuid4(), 1, NotFound)):
        with pytest.raises(error):
            points.transfer(
                tenant_id=TENANT, from_user_id=giver, to_user_id=to, amount_points=amount, idempotency_key="t"
            )
    assert (held(points, giver), held(points, taker)) == ((10, 0), (0, 0))


def test_debit_based_on_old_read_is_refused(points: PointsService, new_user: NewUser):
    user_id = new_user()
    recharge(points, user_id, 10)
    read = points.account(tenant_id=TENANT, user_id=user_id)
    recharge(points, user_id, 5)
    change = Change(user_id, Kind.ADJUST, 10, "a correction", "adjust:1")
    with pytest.raises(AccountChanged):
        points.debit(tenant_id=TENANT, change=change, expected_version=read.version)
    points.debit(tenant_id=TENANT, change=change, expected_version=read.version + 1)
    assert held(points, user_id) == (5, 0)


def test_debit_at_most_takes_the_balance_once(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    recharge(points, user_id, 10)
    gift(points, user_id, 5, hours=1, clock=clock)
    change = Change(user_id, Kind.REFUND, 40, "ref_1", "refund:1")
    assert points.debit_at_most(tenant_id=TENANT, change=change) == 15
    assert held(points, user_id) == (0, 0)
    clock.advance(hours=2)
    assert points.lapse(tenant_id=TENANT, user_id=user_id) == 0


def test_ledger_is_paged_and_filtered_newest_first(points: PointsService, new_user: NewUser, clock: FixedClock):
    user_id = new_user()
    for _ in range(5):
        recharge(points, user_id, 10)
        clock.advance(minutes=1)
    hold(points, user_id, 5, clock)

    def versions(wanted: LedgerFilter, before: int | None, limit: int) -> list[int]:
        page = points.entries(tenant_id=TENANT, user_id=user_id, wanted=wanted, before_version=before, limit=limit)
        return [entry.version for entry in page]

    assert versions(LedgerFilter(), None, 4) == [6, 5, 4, 3]
    assert versions(LedgerFilter(), 3, 4) == [2, 1]
    assert versions(LedgerFilter(kind=Kind.FREEZE), None, 4) == [6]
    window = LedgerFilter(since=clock.now() - timedelta(minutes=3), until=clock.now() - timedelta(minutes=1))
    assert versions(window, None, 9) == [4, 3]
