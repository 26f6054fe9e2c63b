"""Acceptance cases 31 to 40 and 43: the daily bill, and what holds throughout."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from tests.integration.payments.conftest import World, number

DAY = "2026-03-02"
NEXT_MORNING = "2026-03-03T10:30:00+08:00"


def paid_order(world: World, **wish: object) -> dict:
    order = world.person.buy()
    world.pay(order, **wish)
    return order


def differences(world: World) -> list[tuple[str, str]]:
    rows = world.rows("SELECT kind, resolution FROM bill_difference ORDER BY kind, reference")
    return [(row["kind"], row["resolution"]) for row in rows]


def days(world: World) -> dict[str, str]:
    return {
        row["day"].isoformat(): row["status"] for row in world.rows("SELECT day, status FROM bill_day ORDER BY day")
    }


def test_case_31_clean_day_has_no_differences(world: World):
    paid_order(world)
    paid_order(world)
    refunded = paid_order(world)
    world.behave(refunds="success")
    world.person.call("POST", f"/orders/{refunded['orderId']}/refunds", {"amountFen": 90, "reason": "x"}, "k")
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "DONE"}
    assert differences(world) == []
    assert world.alerts() == []
    (row,) = world.rows("SELECT payments, refunds, total_fen, differences FROM bill_day")
    assert row == {"payments": 3, "refunds": 1, "total_fen": 2970, "differences": 0}
    assert world.invoke("bill") == {}


def test_case_31_missing_bill_alerts_only_with_orders(world: World):
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "DONE"}
    assert world.alerts() == []
    world.at("2026-03-03T11:00:00+08:00")
    order = paid_order(world)
    world.bill("2026-03-03", remove=[number(order)])
    world.at("2026-03-04T10:30:00+08:00")
    assert world.invoke("bill")["2026-03-03"] == "DONE"
    assert world.alerts() == ["BILL_MISSING_THERE"]


def test_case_32_each_difference_alerts_once_per_day(world: World):
    lacking, other_amount = paid_order(world), paid_order(world)
    refunded = paid_order(world)
    path = f"/orders/{refunded['orderId']}/refunds"
    made = world.person.call("POST", path, {"amountFen": 90, "reason": "x"}, "k").body
    world.bill(
        DAY,
        remove=[number(lacking), made["refundId"].removeprefix("ref_")],
        amount={number(other_amount): 991},
        add=[{"trade": "ghost-order-01"}, {"refundNo": "ghost-refund-1", "refund": 5, "trade": "x"}],
    )
    world.at(NEXT_MORNING)
    found = [("AMOUNT", "OPEN"), ("MISSING_HERE", "OPEN"), ("MISSING_THERE", "OPEN")]
    found += [("REFUND_MISSING_HERE", "OPEN"), ("REFUND_MISSING_THERE", "OPEN")]
    for _ in range(3):
        assert world.invoke("bill", day=DAY) == {DAY: "DONE"}
        assert differences(world) == found
        assert sorted(world.alerts()) == [f"BILL_{kind}" for kind, _ in found]
    assert world.recharges() == [100] * 3


@pytest.mark.parametrize("was_closed", [False, True])
def test_case_33_missing_payment_is_repaired_by_a_query(world: World, was_closed: bool):
    order = world.person.buy()
    if was_closed:
        world.person.call("POST", f"/orders/{order['orderId']}/close")
    world.pay(order, mode="drop", force=True)
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "DONE"}
    assert world.person.order(order["orderId"])["status"] == "COMPLETED"
    assert differences(world) == [("UNPAID_HERE", "REPAIRED")]
    assert "BILL_UNPAID_HERE" in world.alerts()
    assert world.recharges() == [100]
    assert world.invoke("bill", day=DAY) == {DAY: "DONE"}
    assert differences(world) == [("UNPAID_HERE", "REPAIRED")]
    assert world.rows("SELECT source FROM pay_transaction") == [{"source": "bill"}]


def test_case_33_unanswered_repair_is_tried_again(world: World):
    order = world.person.buy()
    world.pay(order, mode="drop")
    world.fault({"kind": "status", "path": number(order)})
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "COMPARED"}
    assert differences(world) == [("UNPAID_HERE", "OPEN")]
    assert world.invoke("bill") == {DAY: "DONE"}
    assert differences(world) == [("UNPAID_HERE", "REPAIRED")]
    assert world.alerts() == ["BILL_UNPAID_HERE"]
    assert world.recharges() == [100]


def test_case_33_bill_alone_credits_nothing(world: World):
    order = world.person.buy()
    world.bill(DAY, add=[{"trade": number(order), "amount": 990, "transaction": "4200000000000000000000000001"}])
    world.at(NEXT_MORNING)
    world.invoke("bill")
    assert differences(world) == [("UNPAID_HERE", "OPEN")]
    assert world.recharges() == []


@pytest.mark.parametrize("fault", ["bad_hash", "truncate", "wrong_summary", "changed_columns"])
def test_case_34_broken_bill_is_fetched_again(world: World, fault: str):
    order = paid_order(world)
    world.bill(DAY, **{fault: True}, remove=[number(order)], add=[{"trade": "ghost-order-01"}])
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "FAILED"}
    assert differences(world) == []
    assert world.alerts() == ["BILL_BROKEN"]
    world.bill(DAY)
    assert world.invoke("bill") == {DAY: "DONE"}
    assert differences(world) == []


def test_case_35_bill_is_waited_for_without_alert_until_noon(world: World):
    paid_order(world)
    for moment in ("2026-03-03T02:00:00+08:00", "2026-03-03T09:59:00+08:00"):
        world.at(moment)
        assert world.invoke("bill") == {DAY: "WAITING"}
    assert world.alerts() == []
    world.at("2026-03-03T10:00:00+08:00")
    assert world.invoke("bill") == {DAY: "DONE"}


def test_case_35_missing_bill_at_noon_alerts_once(world: World):
    paid_order(world)
    world.bill(DAY, ready="never")
    for moment in ("2026-03-03T11:59:00+08:00", "2026-03-03T12:00:00+08:00", "2026-03-03T12:30:00+08:00"):
        world.at(moment)
        assert world.invoke("bill") == {DAY: "WAITING"}
    assert world.alerts() == ["BILL_LATE"]


def test_case_35_missed_days_are_compared_later(world: World):
    paid_order(world)
    world.at("2026-03-06T10:30:00+08:00")
    assert world.invoke("bill") == {f"2026-03-0{day}": "DONE" for day in (2, 3, 4, 5)}
    world.at("2026-07-01T10:30:00+08:00")
    done = world.invoke("bill")
    assert (min(done), max(done), len(done)) == ("2026-04-01", "2026-06-30", 91)


def test_case_36_payment_belongs_to_its_shanghai_day(world: World):
    world.at("2026-03-02T23:59:59+08:00")
    before = paid_order(world, mode="drop")
    world.at("2026-03-03T00:00:01+08:00")
    after = paid_order(world)
    world.notify(before)
    paid = {row["out_trade_no"]: row["paid_at"] for row in world.rows("SELECT out_trade_no, paid_at FROM pay_order")}
    assert paid[number(before)].isoformat() == "2026-03-02T15:59:59+00:00"
    assert paid[number(after)].isoformat() == "2026-03-02T16:00:01+00:00"
    world.at("2026-03-04T10:30:00+08:00")
    assert world.invoke("bill") == {"2026-03-02": "DONE", "2026-03-03": "DONE"}
    assert differences(world) == []
    counts = world.rows("SELECT day, payments FROM bill_day ORDER BY day")
    assert [row["payments"] for row in counts] == [1, 1]


@pytest.mark.parametrize("is_unix", [False, True])
def test_case_37_any_product_name_and_amount_is_parsed(world: World, is_unix: bool):
    order = paid_order(world)
    name = 'A, "quoted" `tick`, ,`both 🎨'
    world.bill(DAY, product_name=name, amount={number(order): 29}, bom=is_unix, crlf=not is_unix)
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "DONE"}
    (found,) = world.rows("SELECT kind, ours_fen, theirs_fen FROM bill_difference")
    assert found == {"kind": "AMOUNT", "ours_fen": 990, "theirs_fen": 29}


WRONG_REPORTS = {
    "another merchant": {"mchid": "another"},
    "another app": {"appid": "another"},
    "no order of ours": {"out_trade_no": "never-ordered-1"},
}


@pytest.mark.parametrize("is_clean", [True, False], ids=["bill agrees", "bill differs"])
@pytest.mark.parametrize("lie", WRONG_REPORTS.values(), ids=WRONG_REPORTS.keys())
def test_case_43_credit_after_wrong_report_is_compared(world: World, lie: dict, is_clean: bool):
    order = paid_order(world, patch=lie)
    assert world.recharges() == []
    assert world.notify(order) == [204]
    assert world.recharges() == [100]
    credited = world.rows("SELECT outcome FROM pay_transaction WHERE mchid = %s", world.sim.keys.mchid)
    assert credited == [{"outcome": "CREDITED"}]
    if not is_clean:
        world.bill(DAY, amount={number(order): 991})
    world.at(NEXT_MORNING)
    assert world.invoke("bill") == {DAY: "DONE"}
    assert differences(world) == ([] if is_clean else [("AMOUNT", "OPEN")])


def test_case_38_only_its_user_sees_and_pays_an_order(world: World):
    order = world.person.buy()
    stranger = world.new_person()
    colleague = world.new_person(world.person.tenant_id)
    colleague.permissions = "order.create"
    for other in (stranger, colleague):
        assert other.call("GET", "/orders").body["items"] == []
        for method, path in (("GET", ""), ("POST", "/pay"), ("POST", "/check"), ("POST", "/close")):
            answer = other.call(method, f"/orders/{order['orderId']}{path}")
            assert (answer.status, answer.body["code"]) == (404, "REQUEST_404_NOT_FOUND")
    refund = stranger.call("POST", f"/orders/{order['orderId']}/refunds", {"amountFen": 1, "reason": "x"}, "k")
    assert refund.status == 404


def test_case_38_price_and_points_are_ours_and_not_clients(world: World):
    for extra in ({"amountFen": 1}, {"points": 10_000}):
        wanted = {"packageId": "starter", "channel": "native", **extra}
        assert world.person.call("POST", "/orders", wanted, "k").status == 422
    unknown = world.person.call("POST", "/orders", {"packageId": "free", "channel": "native"}, "k")
    assert (unknown.status, unknown.body["details"]["fields"][0]["field"]) == (422, "packageId")


def test_case_38_no_key_signature_or_envelope_is_logged(world: World, function_log: Path):
    order = world.person.buy()
    world.pay(order, kind="forge")
    world.notify(order)
    world.fault({"kind": "badsig", "path": "native"})
    world.person.buy()
    log = function_log.read_text()
    assert "payment callback" in log or '"callback"' in log
    keys = world.sim.keys
    sealed = json.loads(world.control(f"orders/{number(order)}/notify", {"handOver": True})["envelopes"][0]["body"])
    secrets = [keys.api_v3_key, "PRIVATE KEY", "BEGIN", "WECHATPAY2-SHA256-RSA2048 mchid", "Authorization"]
    secrets += [keys.merchant_pem[100:160], sealed["resource"]["ciphertext"][:40], "oUpF8uMuAJO"]
    assert [secret for secret in secrets if secret in log] == []


def test_case_39_return_page_grants_nothing_and_queries_rarely(world: World):
    order = world.person.buy()
    path = f"/orders/{order['orderId']}/check"
    for _ in range(5):
        assert world.person.call("POST", path).body["status"] == "PAYING"
    queries = [one for one in world.requests() if one["method"] == "GET"]
    assert len(queries) == 1
    world.pay(order, mode="drop")
    assert world.person.call("POST", path).body["status"] == "PAYING"
    world.advance(seconds=6)
    assert world.person.call("POST", path).body["status"] == "COMPLETED"
    assert world.recharges() == [100]


def test_case_40_ledger_equals_balances_payments_and_refunds(world: World):
    """The world's own check after every case says so; here everything happens at once."""
    orders = [world.person.buy(package) for package in ("starter", "basic", "starter", "pro", "starter", "basic")]
    world.pay(orders[0], copies=3)
    world.pay(orders[1], mode="drop")
    world.pay(orders[2], amount=1)
    world.pay(orders[3])
    world.pay(orders[3], force=True)
    world.person.call("POST", f"/orders/{orders[4]['orderId']}/close")
    world.pay(orders[4], force=True)
    world.behave(refunds="success")
    for amount, key in ((5_000, "a"), (3_333, "b")):
        path = f"/orders/{orders[3]['orderId']}/refunds"
        assert world.person.call("POST", path, {"amountFen": amount, "reason": "x"}, key).status == 202
    world.sweep()
    world.control("refunds/external", {"trade": number(orders[0]), "refund": 400})
    world.at(NEXT_MORNING)
    world.invoke("bill")
    states = [world.person.order(order["orderId"])["status"] for order in orders]
    assert states == ["COMPLETED"] * 5 + ["PAYING"]
    taken = -(-2200 * 8333 // 19900) + -(-100 * 400 // 990)
    assert world.person.balance == 100 + 520 + 100 + 2200 + 100 - taken
    with psycopg.connect(world.addresses.superuser) as connection:
        (total,) = connection.execute("SELECT sum(balance_delta) FROM points_ledger").fetchone()
    assert total == world.person.balance
