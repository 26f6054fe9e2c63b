"""The simulator's trade bill in the layout of WeChat Pay, with the faults that a test asks for."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

COLUMNS = (
    "交易时间,公众账号ID,商户号,特约商户号,设备号,微信订单号,商户订单号,用户标识,交易类型,交易状态,付款银行,货币种类,应结订单金额,代金券金额,"
    "微信退款单号,商户退款单号,退款金额,充值券退款金额,退款类型,退款状态,商品名称,商户数据包,手续费,费率,订单金额,申请退款金额,费率备注"
)
SUMMARY = "总交易单数,应结订单总金额,退款总金额,充值券退款总金额,手续费总金额,订单总金额,申请退款总金额"


@dataclass
class BillSettings:
    """Faults in the bill of a day. `ready` is auto (10:00 of the next day), now or never."""

    ready: str = "auto"
    remove: list[str] = field(default_factory=list)
    add: list[dict[str, Any]] = field(default_factory=list)
    amount: dict[str, int] = field(default_factory=dict)
    bad_hash: bool = False
    truncate: bool = False
    wrong_summary: bool = False
    changed_columns: bool = False
    empty_bill: bool = False
    product_name: str = ""
    bom: bool = False
    crlf: bool = True


@dataclass(frozen=True)
class MadeBill:
    rows: int
    packed: bytes
    hash_value: str


@dataclass(frozen=True)
class _Row:
    at: str
    transaction: str
    trade: str
    openid: str
    state: str
    amount_fen: int
    refund_id: str = ""
    refund_no: str = ""
    refund_fen: int = 0
    name: str = ""

    def line(self, keys: Any) -> str:
        is_refund = self.state == "REFUND"
        paid, returned = yuan(0 if is_refund else self.amount_fen), yuan(self.refund_fen)
        values = [
            self.at, keys.appid, keys.mchid, "0", "", self.transaction, self.trade, self.openid, "NATIVE", self.state,
            "OTHERS", "CNY", paid, "0.00", self.refund_id, self.refund_no, returned, "0.00",
            "ORIGINAL" if is_refund else "", "SUCCESS" if is_refund else "", self.name, "", "0.00000", "0.60%", paid,
            returned, "",
        ]  # fmt: skip
        return ",".join(f"`{value}" for value in values)


def yuan(fen: int) -> str:
    return str((Decimal(fen) / 100).quantize(Decimal("0.01")))


def make_bill(day: str, keys: Any, trades: Sequence[Any], refunds: Sequence[Any], settings: BillSettings) -> MadeBill:
    rows = [
        _Row(
            at=trade.success_time[:19].replace("T", " "),
            transaction=trade.transaction_id,
            trade=trade.number,
            openid=trade.openid,
            state="SUCCESS",
            amount_fen=settings.amount.get(trade.number, trade.body["amount"]["total"]),
            name=settings.product_name or trade.body["description"],
        )
        for trade in trades
        if trade.transaction_id and trade.success_time[:10] == day and trade.number not in settings.remove
    ]
    by_number = {trade.number: trade for trade in trades}
    rows += [
        _Row(
            at=refund.created_at[:19].replace("T", " "),
            transaction=by_number[refund.trade].transaction_id,
            trade=refund.trade,
            openid="",
            state="REFUND",
            amount_fen=0,
            refund_id=refund.refund_id,
            refund_no=refund.number,
            refund_fen=refund.body["amount"]["refund"],
        )
        for refund in refunds
        if refund.created_at[:10] == day and refund.number not in settings.remove
    ]
    rows += [
        _Row(
            at=f"{day} 12:00:00",
            transaction=ghost.get("transaction", "4200000000ghost"),
            trade=ghost.get("trade", "ghost00000001"),
            openid="",
            state="REFUND" if "refund" in ghost else "SUCCESS",
            amount_fen=ghost.get("amount", 100),
            refund_id="50300000000ghost" if "refund" in ghost else "",
            refund_no=ghost.get("refundNo", ""),
            refund_fen=ghost.get("refund", 0),
        )
        for ghost in settings.add
    ]
    return _rendered(rows, keys, settings)


def _rendered(rows: list[_Row], keys: Any, settings: BillSettings) -> MadeBill:
    paid = sum(row.amount_fen for row in rows if row.state == "SUCCESS")
    returned = sum(row.refund_fen for row in rows)
    count = len(rows) + (1 if settings.wrong_summary else 0)
    totals = [str(count), yuan(paid), yuan(returned), "0.00", "0.00000", yuan(paid), yuan(returned)]
    columns = COLUMNS.replace("商户订单号", "外部订单号") if settings.changed_columns else COLUMNS
    lines = [columns, *(row.line(keys) for row in rows), SUMMARY, ",".join(f"`{total}" for total in totals)]
    end = "\r\n" if settings.crlf else "\n"
    content = (("\ufeff" if settings.bom else "") + end.join(lines) + end).encode()
    hash_value = hashlib.sha1(content).hexdigest()  # noqa: S324 (WeChat's choice)
    packed = gzip.compress(content)
    return MadeBill(
        rows=len(rows),
        packed=packed[: len(packed) // 2] if settings.truncate else packed,
        hash_value="0" * 40 if settings.bad_hash else hash_value,
    )
