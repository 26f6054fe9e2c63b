"""Acceptance cases 23 to 30: payments that WeChat did not report."""

from __future__ import annotations

import threading
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from tests.integration.payments.conftest import World, number

QUERY = {"path": "out-trade-no/[0-9a-f]+\\?", "method": "GET"}


def state(world: World, order: dict) -> str:
    return str(world.person.order(order["orderId"])["status"])


def test_case_23_sweep_credits_a_dropped_notification(world: World):
    order = world.person.buy()
    world.pay(order, mode="drop")
    world.advance(minutes=4)
    world.invoke("orders")
    assert state(world, order) == "PAYING"  # too young to be asked for
    assert world.sweep(after_minutes=1)["asked"] == 1
    assert state(world, order) == "COMPLETED"
    assert world.recharges() == [100]
    assert world.notify(order) == [204]
    assert world.recharges() == [100]


@pytest.mark.parametrize("fault", [{"kind": "status"}, *({"kind": k} for k in ("drop", "badsig", "nosig", "tamper"))])
def test_case_24_unverified_answer_changes_only_its_own_order(world: World, fault: dict):
    orders = [world.person.buy() for _ in range(3)]
    for order in orders:
        world.pay(order, mode="drop")
    world.fault({**fault, "path": number(orders[0]), "method": "GET"})
    done = world.sweep()
    assert (done["asked"], done["unknown"]) == (2, 1)
    assert [state(world, order) for order in orders] == ["PAYING", "COMPLETED", "COMPLETED"]
    assert world.sweep(after_minutes=1)["asked"] == 0  # it is left alone for a while
    assert world.sweep(after_minutes=5)["asked"] == 1
    assert state(world, orders[0]) == "COMPLETED"


def test_case_24_server_that_hangs_is_given_up_on(world: World):
    orders = [world.person.buy() for _ in range(2)]
    world.pay(orders[1], mode="drop")
    world.fault({"kind": "hang", "path": number(orders[0]), "method": "GET"})
    done = world.sweep()
    assert (done["asked"], done["unknown"]) == (1, 1)
    assert state(world, orders[1]) == "COMPLETED"


def test_case_24_next_question_comes_later_each_time(world: World):
    order = world.person.buy()
    world.fault({"kind": "status", **QUERY, "times": 3})
    waits = []
    world.advance(minutes=5)
    for _ in range(3):
        asked_at = world.clock.now()
        assert world.invoke("orders")["unknown"] == 1
        (row,) = world.rows("SELECT next_query_at FROM pay_order")
        waits.append(row["next_query_at"] - asked_at)
        world.clock.set(row["next_query_at"])
    assert waits == [timedelta(minutes=5), timedelta(minutes=10), timedelta(minutes=20)]
    assert state(world, order) == "PAYING"


def test_case_25_payment_wins_over_stale_not_paid(world: World):
    order = world.person.buy()
    world.advance(minutes=40)
    # The query's answer is from before the payment, and the order is old enough to be closed for it.
    world.fault({"kind": "", **QUERY, "patch": {"trade_state": "NOTPAY", "transaction_id": None, "success_time": None}})
    world.pay(order)
    with psycopg.connect(world.addresses.superuser, autocommit=True) as superuser:
        superuser.execute("UPDATE pay_order SET next_query_at = created_at")
    world.invoke("orders")
    assert state(world, order) == "COMPLETED"
    assert world.recharges() == [100]


def test_case_25_closing_yields_to_callback_that_lands_in_between(world: World):
    order = world.person.buy()
    world.advance(minutes=40)
    stale = {"trade_state": "NOTPAY", "transaction_id": None, "success_time": None}
    world.fault({"kind": "", **QUERY, "patch": stale})
    world.pay(order, mode="drop")  # paid, but the query answers NOTPAY and the close ORDER_PAID
    world.invoke("orders")
    assert state(world, order) == "COMPLETED"
    assert world.recharges() == [100]


@pytest.mark.parametrize("is_legacy", [False, True])
def test_case_26_order_unknown_at_wechat_is_closed_late(world: World, is_legacy: bool):
    world.behave(legacy_codes=is_legacy)
    world.fault({"kind": "drop_before", "path": "native", "method": "POST", "times": 2})
    assert world.person.call("POST", "/orders", {"packageId": "starter", "channel": "native"}, "k").status == 503
    (made,) = world.person.call("GET", "/orders").body["items"]
    assert made["status"] == "CREATED"
    world.sweep()
    assert state(world, made) == "CREATED"  # its prepay may still be on its way
    world.sweep(after_minutes=30)
    found = world.person.order(made["orderId"])
    assert (found["status"], found["closeReason"]) == ("CLOSED", "NEVER_PREPAID")


def test_case_27_expired_order_is_closed_there_and_then_here(world: World):
    order = world.person.buy()
    world.advance(minutes=30)
    world.invoke("orders")
    assert state(world, order) == "PAYING"  # within the grace
    world.sweep(after_minutes=5)
    found = world.person.order(order["orderId"])
    assert (found["status"], found["closeReason"]) == ("CLOSED", "EXPIRED")
    assert world.trade(order)["state"] == "CLOSED"


def test_case_27_order_open_at_wechat_stays_open_here(world: World):
    order = world.person.buy()
    world.advance(minutes=36)
    world.fault({"kind": "status", "path": "/close"})
    assert world.invoke("orders")["unknown"] == 1
    assert state(world, order) == "PAYING"
    answer = world.person.call("POST", f"/orders/{order['orderId']}/close")
    assert (answer.status, answer.body["status"]) == (200, "CLOSED")


def test_case_27_close_that_finds_order_paid_credits_it(world: World):
    order = world.person.buy()
    world.pay(order, mode="drop")
    answer = world.person.call("POST", f"/orders/{order['orderId']}/close")
    assert (answer.status, answer.body["status"]) == (200, "COMPLETED")
    assert world.recharges() == [100]


def test_case_28_payment_for_closed_order_is_credited_and_alert(world: World):
    order = world.person.buy()
    assert world.person.call("POST", f"/orders/{order['orderId']}/close").body["status"] == "CLOSED"
    assert world.pay(order, force=True) == [204]
    found = world.person.order(order["orderId"])
    assert (found["status"], found["flag"]) == ("COMPLETED", "PAID_LATE")
    assert world.recharges() == [100]
    assert world.alerts() == ["PAYMENT_AFTER_CLOSE"]


def make_orders(world: World, count: int) -> None:
    """Open orders that WeChat never saw, as bare rows."""
    with psycopg.connect(world.addresses.superuser, autocommit=True) as superuser:
        superuser.execute(
            """
            INSERT INTO pay_order (tenant_id, order_id, user_id, out_trade_no, mchid, appid, package_id, amount_fen,
                                   points, channel, status, prepay_body, created_at, expires_at, next_query_at)
            SELECT %(tenant)s, id, %(user)s, replace(id::text, '-', ''), 'm', 'a', 'starter', 990,
                   100, 'native', 'PAYING', '{}', %(at)s, %(at)s + interval '1 day', %(at)s + interval '5 minutes'
              FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %(count)s)) AS made
            """,
            {"tenant": world.person.tenant_id, "user": world.person.user_id, "at": world.clock.now(), "count": count},
        )


def test_case_29_backlog_is_queried_within_the_time_limit(world: World):
    """Ten thousand orders: WeChat says stop after a while, later runs go on where this one ended."""
    make_orders(world, 10_000)
    young = world.new_person().buy()
    world.advance(minutes=5)
    world.clock.set(world.clock.now() - timedelta(seconds=1))
    with psycopg.connect(world.addresses.superuser, autocommit=True) as superuser:
        superuser.execute("UPDATE pay_order SET next_query_at = next_query_at - interval '1 hour' WHERE mchid = 'm'")
    world.fault(
        {"kind": "", **QUERY, "times": 200}, {"kind": "status", "status": 429, "code": "RATELIMIT_EXCEEDED", "times": 9}
    )
    first = world.invoke("orders")
    assert first["asked"] == 200
    assert first["limited"] >= 1
    asked = {request["path"] for request in world.requests() if "out-trade-no" in request["path"]}
    assert len(asked) <= 200 + 4  # those that were on their way
    assert not any(number(young) in path for path in asked)
    # What was asked for is not due again; what was put off is.
    (left,) = world.rows("SELECT count(*) AS n FROM pay_order WHERE next_query_at <= %s", world.clock.now())
    assert left["n"] == 10_000 - first["asked"]


def test_case_29_runs_that_overlap_share_work(world: World):
    make_orders(world, 120)
    world.advance(minutes=6)
    done: list[dict] = []
    runs = [threading.Thread(target=lambda: done.append(world.invoke("orders"))) for _ in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sum(run["asked"] for run in done) == 120
    assert len([one for one in world.requests() if "out-trade-no" in one["path"]]) == 120


def test_case_30_paying_again_renews_the_code_only(world: World):
    native = world.person.buy()
    again = f"/orders/{native['orderId']}/pay"
    assert world.person.call("POST", again).body["codeUrl"] == native["codeUrl"]
    h5 = world.person.buy(channel="h5")
    path = f"/orders/{h5['orderId']}/pay"
    assert world.person.call("POST", path).body["h5Url"] == h5["h5Url"]
    world.advance(minutes=5)
    fresh = world.person.call("POST", path).body["h5Url"]
    assert fresh != h5["h5Url"]
    assert world.person.call("POST", again).body["codeUrl"] == native["codeUrl"]
    bodies = [one["body"] for one in world.requests() if one["path"].endswith("/h5")]
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
    world.person.call("POST", f"/orders/{h5['orderId']}/close")
    closed = world.person.call("POST", path)
    assert (closed.status, closed.body["code"]) == (409, "ORDER_409_NOT_OPEN")
    assert world.person.buy(channel="h5")["orderId"] != h5["orderId"]


def test_mini_program_gets_parameters_that_wechat_would_accept(world: World):
    import base64

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding

    order = world.person.buy(channel="jsapi", openid="oPayer")
    given = order["payParams"]
    assert given["package"].startswith("prepay_id=wx")
    key = serialization.load_pem_private_key(world.sim.keys.merchant_pem.encode(), None)
    text = "".join(f"{given[name]}\n" for name in ("appId", "timeStamp", "nonceStr", "package")).encode()
    key.public_key().verify(base64.b64decode(given["paySign"]), text, padding.PKCS1v15(), hashes.SHA256())
    answer = world.person.call("POST", "/orders", {"packageId": "starter", "channel": "jsapi"}, str(uuid4()))
    assert answer.status == 422
    assert answer.body["details"]["fields"][0]["field"] == "openid"
