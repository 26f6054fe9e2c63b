"""Acceptance cases 1 to 22, 41 and 42: notifications of WeChat."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import Addresses
from tests.integration.payments.conftest import World, call, number


def refund(world: World, order: dict, amount_fen: int, key: str = "r1") -> dict:
    answer = world.person.call(
        "POST", f"/orders/{order['orderId']}/refunds", {"amountFen": amount_fen, "reason": "changed my mind"}, key
    )
    assert answer.status == 202, answer
    return answer.body


def refund_status(world: World) -> list[str]:
    return [row["status"] for row in world.rows("SELECT status FROM pay_refund ORDER BY started_at, refund_id")]


def test_case_01_payment_is_credited_once_and_stored(world: World):
    order = world.person.buy()
    assert (order["status"], order["amountFen"], order["points"]) == ("PAYING", 990, 100)
    assert order["codeUrl"].startswith("weixin://")
    assert world.pay(order, openid="oPayer") == [204]
    paid = world.person.order(order["orderId"])
    assert (paid["status"], paid["paidAt"]) == ("COMPLETED", "2026-03-02T04:00:00Z")
    assert paid["transactionId"] == world.trade(order)["transaction_id"]
    assert world.recharges() == [100]
    (row,) = world.rows("SELECT payer_openid, payer_total_fen, paid_at, completed_at FROM pay_order")
    assert (row["payer_openid"], row["payer_total_fen"]) == ("oPayer", 990)
    assert row["completed_at"] >= row["paid_at"]
    (entry,) = world.rows("SELECT idempotency_key, reference FROM points_ledger")
    assert entry["idempotency_key"] == f"wxpay:{world.sim.keys.mchid}:{paid['transactionId']}"
    assert entry["reference"] == order["orderId"]


def test_case_02_fifty_concurrent_copies_credit_once(world: World):
    order = world.person.buy()
    answers = world.pay(order, copies=50)
    assert len(answers) == 50
    assert set(answers) <= {204, 503}  # one that cannot wait longer for the lock asks to be sent again
    assert 204 in answers
    assert world.recharges() == [100]
    assert world.notify(order) == [204]


def test_case_02_nothing_is_accepted_before_commit(world: World):
    order = world.person.buy()
    world.pay(order, mode="drop")
    with psycopg.connect(world.addresses.superuser) as blocker:
        blocker.execute("SELECT 1 FROM pay_order FOR UPDATE")
        world.control(f"orders/{number(order)}/notify", {"later": True})
        while not world.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            pass
        assert world.trade(order)["deliveries"] == []
        assert world.recharges() == []
    while not (deliveries := world.trade(order)["deliveries"]):
        pass
    assert [delivery["statuses"] for delivery in deliveries] == [[204]]
    assert world.recharges() == [100]


def test_case_03_same_notification_hour_later_changes_nothing(world: World):
    order = world.person.buy()
    world.pay(order, id="EV-1")
    before = world.person.order(order["orderId"])
    world.advance(hours=1)
    assert world.notify(order, id="EV-1") == [204]
    assert world.person.order(order["orderId"]) == before
    assert world.recharges() == [100]


def test_case_04_key_is_transaction_and_not_notification(world: World):
    order = world.person.buy()
    world.pay(order, id="EV-1")
    assert world.notify(order, id="EV-2") == [204]
    assert world.recharges() == [100]


@pytest.mark.parametrize("kind", ["forge", "leaked", "corrupt", "nosig", "unknown_serial"])
def test_case_05_unsigned_notification_writes_and_queries_nothing(world: World, kind: str):
    order = world.person.buy()
    world.pay(order, mode="drop")
    asked = len(world.requests())
    wish = {"corrupt": True} if kind == "corrupt" else {"kind": kind}
    assert world.notify(order, **wish) == [401]
    assert world.person.order(order["orderId"])["status"] == "PAYING"
    assert world.rows("SELECT 1 FROM points_ledger UNION ALL SELECT 1 FROM pay_transaction") == []
    assert world.alerts() == []
    assert len(world.requests()) == asked
    answer = call("POST", f"{world.base_url}/api/v1/wechat/pay/notify", {"resource": {}})
    assert (answer.status, answer.body["code"]) == (401, "FAIL")


def test_case_05_refusals_are_counted(world: World, function_log: Path):
    order = world.person.buy()
    world.pay(order, kind="forge")
    counted = [json.loads(line) for line in function_log.read_text().splitlines() if '"CallbacksRefused"' in line]
    assert counted[-1]["reason"] == "signature"
    assert counted[-1]["CallbacksRefused"] == [1.0]


def test_case_06_undecryptable_notification_alerts_and_is_resent(world: World):
    order = world.person.buy()
    assert world.pay(order, kind="badaead") == [500]
    assert world.notify(order, kind="badaead") == [500]
    assert world.alerts() == ["CALLBACK_UNDECRYPTABLE"]
    assert world.recharges() == []
    assert world.notify(order) == [204]
    assert world.recharges() == [100]


def test_case_07_probe_fails_and_the_real_one_credits(world: World):
    order = world.person.buy()
    assert world.pay(order, kind="signtest", retry=[0]) == [401, 204]
    assert world.recharges() == [100]
    assert world.alerts() == []


def test_case_08_stale_future_and_replayed_notifications_change_nothing(world: World):
    order = world.person.buy()
    assert world.pay(order, kind="stale") == [401]
    assert world.notify(order, kind="future") == [401]
    assert world.recharges() == []
    assert world.notify(order) == [204]
    world.advance(minutes=4)
    assert world.notify(order, replay=True) == [204]
    world.advance(minutes=1)
    assert world.notify(order, replay=True) == [401]
    assert world.recharges() == [100]


@pytest.mark.parametrize("lie", [{"amount": 1}, {"patch": {"amount": {"currency": "USD"}}}])
def test_case_09_wrong_amount_or_currency_is_flagged(world: World, lie: dict):
    order = world.person.buy()
    assert world.pay(order, **lie) == [204]
    assert world.notify(order, **lie) == [204]
    found = world.person.order(order["orderId"])
    assert (found["status"], found["flag"]) == ("PAYING", "MISMATCH")
    assert world.alerts() == ["PAYMENT_MISMATCH"]
    assert world.recharges() == []
    # The query returns the real payment, which is credited.
    world.sweep()
    assert world.person.order(order["orderId"])["status"] == "COMPLETED"
    assert world.recharges() == [100]


def test_case_10_coupon_does_not_make_payment_smaller(world: World):
    order = world.person.buy()
    assert world.pay(order, payerTotal=890) == [204]
    assert world.recharges() == [100]
    assert world.rows("SELECT payer_total_fen FROM pay_order") == [{"payer_total_fen": 890}]


@pytest.mark.parametrize("field", ["mchid", "appid"])
def test_case_11_payment_to_another_merchant_is_not_credited(world: World, field: str):
    order = world.person.buy()
    assert world.pay(order, patch={field: "another"}) == [204]
    assert world.alerts() == ["PAYMENT_FOREIGN"]
    assert world.recharges() == []
    assert world.person.order(order["orderId"])["status"] == "PAYING"


def test_case_11_payment_by_another_payer_credits_and_alerts(world: World):
    order = world.person.buy(channel="jsapi", openid="oOrdered")
    assert world.pay(order, openid="oPaid") == [204]
    assert world.alerts() == ["PAYMENT_BY_ANOTHER"]
    assert world.recharges() == [100]


def test_case_12_unpaid_state_inside_success_uses_up_no_key(world: World):
    order = world.person.buy()
    assert world.pay(order, patch={"trade_state": "NOTPAY"}) == [204]
    assert world.recharges() == []
    assert world.rows("SELECT 1 FROM pay_transaction") == []
    assert world.notify(order) == [204]
    assert world.recharges() == [100]


def test_case_13_payment_for_no_order_is_kept_as_orphan(world: World):
    order = world.person.buy()
    unknown = {"patch": {"out_trade_no": "never-ordered-1"}}
    assert world.pay(order, **unknown) == [204]
    assert world.notify(order, **unknown) == [204]
    assert world.alerts() == ["PAYMENT_ORPHAN"]
    (kept,) = world.rows("SELECT outcome, out_trade_no, amount_fen, tenant_id FROM pay_transaction")
    assert kept == {"outcome": "ORPHAN", "out_trade_no": "never-ordered-1", "amount_fen": 990, "tenant_id": None}
    assert len(world.rows("SELECT 1 FROM pay_order")) == 1


def test_case_14_second_payment_of_an_order_alerts(world: World):
    order = world.person.buy()
    world.pay(order)
    first = world.person.order(order["orderId"])["transactionId"]
    assert world.pay(order, force=True) == [204]
    found = world.person.order(order["orderId"])
    assert (found["transactionId"], found["flag"]) == (first, "OVERPAID")
    assert world.alerts() == ["PAYMENT_TWICE"]
    assert world.recharges() == [100]
    outcomes = world.rows("SELECT outcome FROM pay_transaction ORDER BY outcome")
    assert [row["outcome"] for row in outcomes] == ["CREDITED", "OVERPAID"]


def of_another(world: World, order: dict) -> dict:
    """What makes a notification name the transaction that paid for this order."""
    paid = world.trade(order)
    facts = {"transaction_id": paid["transaction_id"], "success_time": paid["success_time"]}
    return {"trade_state": "SUCCESS", **facts}


@pytest.mark.parametrize("is_colleague", [True, False], ids=["same tenant", "another tenant"])
def test_case_41_transaction_of_another_order_completes_nothing(world: World, is_colleague: bool):
    first = world.person.buy()
    world.pay(first)
    other = world.new_person(world.person.tenant_id if is_colleague else None)
    second = other.buy()
    for _ in range(2):
        assert world.notify(second, patch=of_another(world, first)) == [204]
    found = other.order(second["orderId"])
    assert (found["status"], found["flag"], found.get("transactionId")) == ("PAYING", "MISMATCH", None)
    assert world.alerts() == ["PAYMENT_OF_ANOTHER_ORDER"]
    assert (world.recharges(), world.person.balance, other.balance) == ([100], 100, 0)
    (kept,) = world.rows("SELECT outcome, out_trade_no FROM pay_transaction")
    assert kept == {"outcome": "CREDITED", "out_trade_no": number(first)}
    # A payment of its own completes it.
    assert world.pay(second) == [204]
    found = other.order(second["orderId"])
    assert (found["status"], found.get("flag"), other.balance) == ("COMPLETED", None, 100)


def test_case_41_paid_order_is_not_overpaid_by_it(world: World):
    first, second = world.person.buy(), world.person.buy()
    world.pay(first)
    world.pay(second)
    assert world.notify(second, patch=of_another(world, first)) == [204]
    found = world.person.order(second["orderId"])
    assert (found["status"], found["transactionId"]) == ("COMPLETED", world.trade(second)["transaction_id"])
    assert world.alerts() == ["PAYMENT_OF_ANOTHER_ORDER"]
    assert world.recharges() == [100, 100]


def test_case_41_of_two_orders_at_once_one_is_completed(world: World):
    orders = [world.person.buy(), world.new_person().buy()]
    facts = {"trade_state": "SUCCESS", "transaction_id": "4200000001", "success_time": "2026-03-02T12:00:00+08:00"}
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda order: world.notify(order, patch=facts), orders))
    assert answers == [[204], [204]]
    states = world.rows("SELECT status FROM pay_order ORDER BY status")
    assert [row["status"] for row in states] == ["COMPLETED", "PAYING"]
    assert world.recharges() == [100]
    assert world.alerts() == ["PAYMENT_OF_ANOTHER_ORDER"]


REFUND_LIES = {
    "merchant": {"mchid": "another"},
    "amount": {"amount": {"refund": 1}},
    "total": {"amount": {"total": 1}},
    "currency": {"amount": {"currency": "USD"}},
    "transaction": {"transaction_id": "4200000001"},
}


@pytest.mark.parametrize("lie", REFUND_LIES.values(), ids=REFUND_LIES.keys())
def test_case_42_refund_report_that_disagrees_changes_nothing(world: World, lie: dict):
    order = world.person.buy()
    world.pay(order)
    numbers = refund(world, order, 500)["refundId"].removeprefix("ref_")
    balance = world.person.balance
    for _ in range(2):
        answer = world.control(f"refunds/{numbers}/finish", {"status": "SUCCESS", "patch": lie})
        assert answer["statuses"] == [204]
    assert refund_status(world) == ["PROCESSING"]
    assert world.person.order(order["orderId"])["status"] == "REFUNDING"
    assert world.alerts() == ["REFUND_MISMATCH"]
    (alert,) = world.rows("SELECT details FROM pay_alert")
    assert (alert["details"]["ourRefundFen"], alert["details"]["ourTotalFen"]) == (500, 990)
    world.control(f"refunds/{numbers}/finish", {"status": "SUCCESS"})
    assert refund_status(world) == ["SUCCESS"]
    assert world.person.balance == balance


def test_case_42_answer_to_query_is_compared_too(world: World):
    order = world.person.buy()
    world.pay(order)
    world.behave(refunds="success", notify="drop")
    refund(world, order, 500)
    world.fault({"kind": "", "path": "refund/domestic/refunds/", "method": "GET", "patch": {"amount": {"refund": 1}}})
    world.sweep()
    assert refund_status(world) == ["PROCESSING"]
    assert world.alerts() == ["REFUND_MISMATCH"]
    world.sweep()
    assert refund_status(world) == ["SUCCESS"]


@pytest.mark.parametrize("lie", [{"mchid": "another"}, {"amount": {"total": 1}}, {"amount": {"refund": 991}}], ids=str)
def test_case_42_refund_begun_elsewhere_must_agree(world: World, lie: dict):
    order = world.person.buy()
    world.pay(order)
    wish = {"trade": number(order), "refund": 990, "status": "SUCCESS", "patch": lie}
    assert world.control("refunds/external", wish)["statuses"] == [204]
    assert world.rows("SELECT 1 FROM pay_refund") == []
    assert world.alerts() == ["REFUND_MISMATCH"]
    assert world.person.balance == 100


def test_case_42_refund_of_another_order_changes_nothing(world: World):
    first, second = world.person.buy(), world.person.buy()
    world.pay(first)
    world.pay(second)
    numbers = refund(world, first, 990)["refundId"].removeprefix("ref_")
    wish = {"trade": number(second), "refund": 990, "status": "SUCCESS", "patch": {"out_refund_no": numbers}}
    assert world.control("refunds/external", wish)["statuses"] == [204]
    assert refund_status(world) == ["PROCESSING"]
    assert world.person.order(second["orderId"])["refundedFen"] == 0
    assert world.alerts() == ["REFUND_MISMATCH"]


def test_case_15_notification_before_the_prepay_answer_is_credited(world: World):
    world.behave(autopay="before")
    order = world.person.buy()
    assert order["status"] == "COMPLETED"
    assert world.trade(order)["deliveries"][0]["statuses"] == [204]
    assert world.recharges() == [100]


@pytest.mark.parametrize("kind", ["drop", "badsig", "signtest", "tamper"])
def test_case_16_unverified_prepay_is_repeated_with_same_bytes(world: World, kind: str):
    world.fault({"kind": kind, "path": "transactions/native", "method": "POST"})
    order = world.person.buy()
    assert order["status"] == "PAYING"
    first, second = world.requests()
    assert first == second
    assert json.loads(first["body"])["out_trade_no"] == number(order)


def test_case_16_repeated_request_returns_the_same_order(world: World):
    world.fault({"kind": "drop", "path": "transactions/native", "method": "POST", "times": 2})
    wanted = {"packageId": "starter", "channel": "native"}
    answer = world.person.call("POST", "/orders", wanted, "k1")
    assert (answer.status, answer.body["code"]) == (503, "ORDER_503_PAYMENT_AWAY")
    order = world.person.buy(key="k1")
    assert order["status"] == "PAYING"
    assert len(world.rows("SELECT 1 FROM pay_order")) == 1
    assert len({request["body"] for request in world.requests()}) == 1
    other = world.person.call("POST", "/orders", {**wanted, "packageId": "pro"}, "k1")
    assert (other.status, other.body["code"]) == (422, "IDEM_422_KEY_REUSED")


def test_case_17_kill_before_commit_leaves_no_credit(
    world: World, function_variables: dict[str, str], clock_file: Path, valkey: redis.Redis
):
    order = world.person.buy()
    world.pay(order, mode="drop")
    script = Path(__file__).with_name("crash_child.py")
    arguments = ["notify", world.sim_url, number(order), "--before-sql", "INSERT INTO points_account"]
    child = subprocess.run(
        [sys.executable, str(script), str(clock_file), *arguments],
        env={**function_variables, "PYTHONPATH": f"{script.parents[3]}/layers/core:{script.parents[3]}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    assert world.person.order(order["orderId"])["status"] == "PAYING"
    assert world.recharges() == []
    assert world.notify(order) == [503]  # the dead one's lock runs out before WeChat's next try
    valkey.delete(f"lock:order:{number(order)}")
    assert world.notify(order) == [204]
    assert world.recharges() == [100]


def test_case_18_without_lock_unique_key_still_prevents_double_credit(world: World, valkey: redis.Redis):
    """The lock is lost during the work: every copy enters, and one credits."""
    order = world.person.buy()
    world.pay(order, mode="drop")
    with psycopg.connect(world.addresses.superuser) as blocker:
        # No copy can finish while this row is locked, so they wait; the lock's owner loses it meanwhile.
        blocker.execute("SELECT 1 FROM pay_order FOR UPDATE")
        world.control(f"orders/{number(order)}/notify", {"copies": 6, "later": True})
        waiting = (
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%pay_order%'"
        )
        seen = 0
        while seen < 2:  # the owner of the lock, and a copy that entered after the loss
            valkey.delete(f"lock:order:{number(order)}")
            seen = world.rows(waiting)[0]["n"]
    assert world.notify(order) == [204]
    assert world.recharges() == [100]


def test_case_19_wechat_retries_while_the_database_is_down(world: World):
    order = world.person.buy()
    name = conninfo_to_dict(world.addresses.superuser)["dbname"]
    # This database alone: other tests share the server.
    elsewhere = make_conninfo(world.addresses.superuser, dbname="postgres")
    with psycopg.connect(elsewhere, autocommit=True) as superuser:
        superuser.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = 'artiway_app'",
            [name],
        )
        try:
            answers = world.pay(order)
        finally:
            superuser.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
    assert answers == [503]
    assert world.notify(order) == [204]
    assert world.recharges() == [100]


def test_case_20_refund_reports_in_any_order_debit_once(world: World):
    order = world.person.buy()
    world.pay(order)
    world.behave(refunds="manual")
    made = refund(world, order, 990)
    assert made["status"] == "PROCESSING"
    assert world.person.balance == 0
    numbers = made["refundId"].removeprefix("ref_")
    assert world.control(f"refunds/{numbers}/finish", {"status": "ABNORMAL"})["statuses"] == [204]
    assert refund_status(world) == ["ABNORMAL"]
    assert world.control(f"refunds/{numbers}/finish", {"status": "SUCCESS", "copies": 5})["statuses"] == [204] * 5
    assert world.control(f"refunds/{numbers}/finish", {"status": "ABNORMAL"})["statuses"] == [204]
    assert refund_status(world) == ["SUCCESS"]
    assert world.person.order(order["orderId"])["status"] == "REFUNDED"
    assert world.person.balance == 0
    assert world.alerts() == ["REFUND_ABNORMAL"]


def test_case_20_refund_reported_before_our_answer_debits_once(world: World):
    order = world.person.buy()
    world.pay(order)
    world.behave(refunds="success", notify="drop")  # a notification would race the sweep
    world.fault({"kind": "drop", "path": "refund/domestic/refunds$", "method": "POST"})
    made = refund(world, order, 495)
    world.sweep()
    assert refund_status(world) == ["SUCCESS"]
    found = world.person.order(order["orderId"])
    assert (found["status"], found["refundedFen"]) == ("COMPLETED", 495)
    assert world.person.balance == 50
    assert refund(world, order, 495)["refundId"] == made["refundId"]


def test_case_20_refund_that_wechat_closes_gives_points_back(world: World):
    order = world.person.buy()
    world.pay(order)
    made = refund(world, order, 990)
    numbers = made["refundId"].removeprefix("ref_")
    assert world.control(f"refunds/{numbers}/finish", {"status": "CLOSED", "copies": 3})["statuses"] == [204] * 3
    assert world.person.balance == 100
    found = world.person.order(order["orderId"])
    assert (found["status"], found["refundedFen"]) == ("COMPLETED", 0)
    assert world.alerts() == ["REFUND_CLOSED"]


def test_case_20_refunds_never_pass_payment_and_need_points(world: World):
    order = world.person.buy()
    path = f"/orders/{order['orderId']}/refunds"
    body = {"amountFen": 990, "reason": "x"}
    assert world.person.call("POST", path, body, "a").body["code"] == "ORDER_409_NOT_PAID"
    world.pay(order)
    too_much = world.person.call("POST", path, {"amountFen": 991, "reason": "x"}, "b")
    assert too_much.body["code"] == "ORDER_422_REFUND_TOO_LARGE"
    refund(world, order, 300, "c")
    assert world.person.balance == 69  # 30.3 points, rounded up
    other = world.new_person(world.person.tenant_id)
    spent = world.person.call("POST", "/points/transfers", {"toUserId": f"usr_{other.user_id.hex}", "amount": 60})
    assert spent.status == 201
    short = world.person.call("POST", path, {"amountFen": 690, "reason": "x"}, "d")
    assert (short.status, short.body["code"]) == (402, "POINTS_402_INSUFFICIENT")
    assert world.person.balance == 9


def test_case_21_refund_reported_before_its_payment_nets_out(world: World):
    order = world.person.buy()
    world.pay(order, mode="drop")
    wish = {"trade": number(order), "refund": 990, "status": "SUCCESS"}
    assert world.control("refunds/external", wish)["statuses"] == [204]
    assert world.recharges() == []
    assert world.notify(order, patch={"trade_state": "SUCCESS"}) == [204]
    assert world.recharges() == [100]
    assert world.person.balance == 0
    assert world.person.order(order["orderId"])["status"] == "REFUNDED"


def test_case_21_external_refund_takes_available_points_and_alerts(world: World):
    order = world.person.buy()
    world.pay(order)
    other = world.new_person(world.person.tenant_id)
    world.person.call("POST", "/points/transfers", {"toUserId": f"usr_{other.user_id.hex}", "amount": 60})
    wish = {"trade": number(order), "refund": 990, "status": "SUCCESS", "copies": 3}
    assert world.control("refunds/external", wish)["statuses"] == [204] * 3
    assert world.person.balance == 0
    assert world.alerts() == ["REFUND_BEGUN_ELSEWHERE", "REFUND_POINTS_SPENT"]


def test_case_22_both_platform_keys_verify_while_merchant_migrates(world: World):
    for sign_with in ("cert", "pub", "cert"):
        world.behave(sign_with=sign_with)
        order = world.person.buy()
        assert world.pay(order) == [204]
    assert world.recharges() == [100] * 3


def test_unknown_verified_notification_changes_nothing(world: World, addresses: Addresses):
    order = world.person.buy()
    assert world.pay(order, eventType="SECURITY_ECHO.SUCCESS") == [204]
    assert world.recharges() == []
