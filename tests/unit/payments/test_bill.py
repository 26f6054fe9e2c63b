"""A bill is read exactly or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.payments.bill import Bill, BillPayment, BillRefund, Difference, OurRecords, compare, fen, parse
from artiway.payments.model import BillBroken

HEADER = (
    "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,货币种类,应结订单金额,代金券金额,"
    "微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,商品名称,商户数据包,手续费,费率,订单金额,申请退款金额,费率备注"
)
SUMMARY = "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额"


def line(
    transaction: str,
    trade: str,
    *,
    state: str = "SUCCESS",
    yuan: str = "9.90",
    refund: str = "",
    back: str = "0.00",
    name: str = "x",
) -> str:
    values = [
        "2026-03-02 12:00:00",
        "wx",
        "m",
        "0",
        "",
        transaction,
        trade,
        "o",
        "NATIVE",
        state,
        "OTHERS",
        "CNY",
        yuan,
        "0.00",
    ]
    values += ["", refund, back, "0.00", "", "", name, "", "0.00000", "0.60%", yuan, back, ""]
    return ",".join(f"`{value}" for value in values)


def text(*rows: str, total: str, back: str = "0.00", count: int | None = None, end: str = "\r\n") -> str:
    summary = [str(len(rows) if count is None else count), total, back, "0.00", "0.00", total, back]
    return end.join([HEADER, *rows, SUMMARY, ",".join(f"`{value}" for value in summary)]) + end


def test_payments_and_refunds_are_read():
    bill = parse(
        text(
            line("t1", "o1"),
            line("t1", "o1", state="REFUND", yuan="0.00", refund="r1", back="0.29"),
            total="9.90",
            back="0.29",
        )
    )
    assert bill == Bill([BillPayment("t1", "o1", 990)], [BillRefund("r1", "o1", 29)])


@given(name=st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=30))
def test_whatever_product_is_called_its_row_is_read(name: str):
    bill = parse(text(line("t1", "o1", name=name), total="9.90", end="\n"))
    assert bill.payments == [BillPayment("t1", "o1", 990)]


@given(st.integers(0, 10**9))
def test_yuan_become_fen_exactly(amount: int):
    assert fen(f"{amount // 100}.{amount % 100:02}") == amount


@pytest.mark.parametrize(
    "broken",
    [
        "",
        text(line("t1", "o1"), total="9.90", count=2),
        text(line("t1", "o1"), total="9.91"),
        text(line("t1", "o1"), total="9.90", back="1.00"),
        text(line("t1", "o1", yuan="9.905"), total="9.905"),
        text(line("t1", "o1", yuan="nine"), total="9.90"),
        text(line("t1", "o1"), total="9.90").replace("商户订单号", "订单号"),
        text(line("t1", "o1")[1:], total="9.90"),
        text(line("t1", "o1")[:-10], total="9.90"),
        "\n".join(text(line("t1", "o1"), total="9.90").split("\r\n")[:-2]),
        "<html>busy</html>\n\n\n",
    ],
)
def test_bill_that_does_not_add_up_is_refused(broken: str):
    with pytest.raises(BillBroken):
        parse(broken)


def test_older_bills_columns_are_known():
    old = (
        text(line("t1", "o1"), total="9.90")
        .replace("订单金额,申请退款金额", "总金额,申请退款金额")
        .replace("应结总金额", "应结订单金额")
    )
    assert parse(old).payments == [BillPayment("t1", "o1", 990)]


def test_nothing_against_nothing_is_no_difference():
    assert compare(Bill([], []), OurRecords({}, {}, {}, {}, {})) == []


def test_alerted_stray_payment_is_no_finding():
    bill = Bill([BillPayment("t1", "o1", 990)], [])
    assert [one.kind for one in compare(bill, OurRecords({}, {}, {}, {}, {}))] == [Difference.MISSING_HERE]
    assert compare(bill, OurRecords({}, {}, {}, {}, {"t1": 990})) == []
