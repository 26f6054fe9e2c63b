"""Refunds take back exactly their share, and their state never goes backwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.payments.model import Channel, Order, OrderStatus, RefundStatus, may_become
from artiway.payments.packages import packages

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def order(amount_fen: int, points: int) -> Order:
    return Order(
        tenant_id=UUID(int=1),
        order_id=UUID(int=2),
        user_id=UUID(int=3),
        out_trade_no="0" * 32,
        mchid="m",
        appid="a",
        package_id="p",
        amount_fen=amount_fen,
        points=points,
        channel=Channel.NATIVE,
        openid=None,
        status=OrderStatus.COMPLETED,
        close_reason=None,
        flag=None,
        prepay_body="{}",
        prepay_code=None,
        prepay_until=None,
        created_at=NOW,
        expires_at=NOW,
        transaction_id="t",
        paid_at=NOW,
        refunded_fen=0,
        refunded_points=0,
        request_hash=None,
        query_tries=0,
    )


@given(
    amount_fen=st.integers(1, 1_000_000),
    points=st.integers(1, 1_000_000),
    parts=st.lists(st.floats(0.01, 1), max_size=8),
)
def test_refunds_together_debit_exactly_all_points(amount_fen: int, points: int, parts: list[float]):
    paid = order(amount_fen, points)
    for part in [*parts, 1.0]:
        refund_fen = max(1, int((amount_fen - paid.refunded_fen) * part)) if paid.refunded_fen < amount_fen else 0
        taken = paid.points_for(refund_fen)
        assert taken >= 0
        refunded_fen, refunded_points = paid.refunded_fen + refund_fen, paid.refunded_points + taken
        assert refunded_points * amount_fen >= points * refunded_fen  # never less than the share
        paid = replace(paid, refunded_fen=refunded_fen, refunded_points=refunded_points)
    assert (paid.refunded_fen, paid.refunded_points) == (amount_fen, points)


@pytest.mark.parametrize("reports", list(permutations(RefundStatus)))
def test_final_refund_state_stays_in_any_order(reports: tuple[RefundStatus, ...]):
    now = RefundStatus.REQUESTED
    for report in reports:
        if may_become(now, report):
            assert not now.is_final
            now = report
    first_final = next(report for report in reports if report.is_final)
    assert now is first_final


def test_packages_that_ship_can_be_bought():
    assert {one.package_id for one in packages()} == {"starter", "basic", "pro", "studio"}


@pytest.mark.parametrize(
    "text",
    [
        '[{"packageId": "a", "amountFen": 0, "points": 1}]',
        '[{"packageId": "a", "amountFen": 1, "points": 1}, {"packageId": "a", "amountFen": 2, "points": 2}]',
    ],
)
def test_invalid_list_of_packages_is_refused(text: str):
    with pytest.raises(ValueError, match="unique id"):
        packages(text)
