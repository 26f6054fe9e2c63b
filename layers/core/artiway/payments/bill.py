"""Parses WeChat's trade bill and compares it with our records in both directions. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from uuid import UUID

from artiway.payments.model import BillBroken


class Difference(StrEnum):
    MISSING_HERE = "MISSING_HERE"
    MISSING_THERE = "MISSING_THERE"
    UNPAID_HERE = "UNPAID_HERE"
    AMOUNT = "AMOUNT"
    REFUND_MISSING_HERE = "REFUND_MISSING_HERE"
    REFUND_MISSING_THERE = "REFUND_MISSING_THERE"
    REFUND_AMOUNT = "REFUND_AMOUNT"


@dataclass(frozen=True)
class BillPayment:
    transaction_id: str
    out_trade_no: str
    amount_fen: int


@dataclass(frozen=True)
class BillRefund:
    out_refund_no: str
    out_trade_no: str
    amount_fen: int


@dataclass(frozen=True)
class Bill:
    payments: list[BillPayment]
    refunds: list[BillRefund]

    @property
    def total_fen(self) -> int:
        return sum(payment.amount_fen for payment in self.payments)


EMPTY_BILL = Bill([], [])
_NEEDED = ("微信订单号", "商户订单号", "交易状态", "商户退款单号")
_AMOUNT = ("订单金额", "总金额")  # newer and older merchants' bills
_REFUND_AMOUNT = ("申请退款金额", "退款金额")
_SUMMARY_COUNT, _SUMMARY_TOTAL, _SUMMARY_REFUNDS = (
    "总交易单数",
    ("订单总金额", "总交易额"),
    ("申请退款总金额", "总退款金额"),
)
_PAID, _REFUNDED = "SUCCESS", "REFUND"


def parse(text: str) -> Bill:
    """Parse a bill. Raises BillBroken if its columns, rows or totals are not consistent."""
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line]
    if len(lines) < 3:
        raise BillBroken("the bill has no summary")
    header = _header(lines[0])
    summary_header = _header(lines[-2])
    if not summary_header or summary_header[0] != _SUMMARY_COUNT:
        raise BillBroken("the bill's summary is not in its last two lines")
    missing = [name for name in _NEEDED if name not in header]
    amount, refund_amount = _first(header, _AMOUNT), _first(header, _REFUND_AMOUNT)
    if missing or amount is None or refund_amount is None:
        raise BillBroken("the bill's columns have changed")
    rows = [_row(header, line) for line in lines[1:-2]]
    summary = _row(summary_header, lines[-1])
    bill = Bill(
        [
            BillPayment(row["微信订单号"], row["商户订单号"], fen(row[amount]))
            for row in rows
            if row["交易状态"] == _PAID
        ],
        [
            BillRefund(row["商户退款单号"], row["商户订单号"], fen(row[refund_amount]))
            for row in rows
            if row["交易状态"] == _REFUNDED
        ],
    )
    if summary[_SUMMARY_COUNT] != str(len(rows)):
        raise BillBroken("the bill's row count does not match its summary")
    total, refunds = _first(summary_header, _SUMMARY_TOTAL), _first(summary_header, _SUMMARY_REFUNDS)
    if total is not None and fen(summary[total]) != sum(fen(row[amount]) for row in rows):
        raise BillBroken("the bill's amounts do not match its summary")
    if refunds is not None and fen(summary[refunds]) != sum(refund.amount_fen for refund in bill.refunds):
        raise BillBroken("the bill's refunds do not match its summary")
    return bill


def fen(yuan: str) -> int:
    """Without rounding: 0.29 yuan are 29 fen."""
    try:
        value = Decimal(yuan) * 100
        if value != value.to_integral_value():
            raise BillBroken("an amount has fractions of a fen")
        return int(value)
    except (InvalidOperation, ValueError, OverflowError):
        raise BillBroken("an amount is not a number") from None


def _header(line: str) -> list[str]:
    return [name.strip("`\ufeff ") for name in line.split(",")]


def _first(header: Iterable[str], names: Iterable[str]) -> str | None:
    present = set(header)
    return next((name for name in names if name in present), None)


def _row(header: list[str], line: str) -> dict[str, str]:
    """Values are not quoted and may contain commas: each value starts with a backtick after a comma."""
    if not line.startswith("`"):
        raise BillBroken("a row does not start with a backtick")
    values = line[1:].split(",`")
    if len(values) > len(header) and "商品名称" in header:
        # Only the merchant's product name can contain the separator, so extra values belong to it.
        at, extra = header.index("商品名称"), len(values) - len(header)
        values[at : at + extra + 1] = [",`".join(values[at : at + extra + 1])]
    if len(values) != len(header):
        raise BillBroken("a row has too few values")
    return dict(zip(header, values, strict=True))


# --- comparison


@dataclass(frozen=True)
class OurPayment:
    tenant_id: UUID
    order_id: UUID
    out_trade_no: str
    transaction_id: str | None
    amount_fen: int


@dataclass(frozen=True)
class OurRefund:
    tenant_id: UUID
    order_id: UUID
    out_refund_no: str
    amount_fen: int


@dataclass(frozen=True)
class OurRecords:
    """Our payments and refunds of a day, and all others that the day's bill names."""

    paid: Mapping[str, OurPayment]  # by transaction, paid on that day
    orders: Mapping[str, OurPayment]  # by number, all that the bill names
    refunds: Mapping[str, OurRefund]  # by number, begun on that day
    known_refunds: Mapping[str, OurRefund]  # by number, all that the bill names
    known_strays: Mapping[str, int | None]  # transactions stored and not credited: an alert was sent for them


@dataclass(frozen=True)
class Finding:
    kind: Difference
    reference: str
    ours_fen: int | None
    theirs_fen: int | None
    tenant_id: UUID | None = None
    order_id: UUID | None = None


def compare(bill: Bill, records: OurRecords) -> list[Finding]:
    """Every difference, each once."""
    findings = []
    for theirs in bill.payments:
        if theirs.transaction_id in records.known_strays:
            continue
        ours = records.orders.get(theirs.out_trade_no)
        if ours is None:
            findings.append(Finding(Difference.MISSING_HERE, theirs.out_trade_no, None, theirs.amount_fen))
        elif ours.amount_fen != theirs.amount_fen:
            findings.append(_of(ours, Difference.AMOUNT, ours.amount_fen, theirs.amount_fen))
        elif ours.transaction_id != theirs.transaction_id:
            findings.append(_of(ours, Difference.UNPAID_HERE, None, theirs.amount_fen))
    listed = {theirs.transaction_id for theirs in bill.payments}
    findings += [
        _of(ours, Difference.MISSING_THERE, ours.amount_fen, None)
        for transaction_id, ours in records.paid.items()
        if transaction_id not in listed
    ]
    for refund in bill.refunds:
        known = records.known_refunds.get(refund.out_refund_no)
        if known is None:
            findings.append(Finding(Difference.REFUND_MISSING_HERE, refund.out_refund_no, None, refund.amount_fen))
        elif known.amount_fen != refund.amount_fen:
            findings.append(_of_refund(known, Difference.REFUND_AMOUNT, known.amount_fen, refund.amount_fen))
    listed_refunds = {refund.out_refund_no for refund in bill.refunds}
    findings += [
        _of_refund(known, Difference.REFUND_MISSING_THERE, known.amount_fen, None)
        for number, known in records.refunds.items()
        if number not in listed_refunds
    ]
    return findings


def _of(ours: OurPayment, kind: Difference, ours_fen: int | None, theirs_fen: int | None) -> Finding:
    return Finding(kind, ours.out_trade_no, ours_fen, theirs_fen, ours.tenant_id, ours.order_id)


def _of_refund(ours: OurRefund, kind: Difference, ours_fen: int | None, theirs_fen: int | None) -> Finding:
    return Finding(kind, ours.out_refund_no, ours_fen, theirs_fen, ours.tenant_id, ours.order_id)
