"""Lists of refunds, and receipts of paid orders."""

from __future__ import annotations

from artiway.ids import to_wire
from tests.integration.payments.conftest import ALL_PERMISSIONS, World


def test_refunds_are_listed_by_tenant_and_order(world: World) -> None:
    person = world.new_person()
    first, second = person.buy(), person.buy("basic")
    for order, amounts in ((first, (100, 200)), (second, (300,))):
        world.pay(order)
        for amount in amounts:
            body = {"amountFen": amount, "reason": f"refund {amount}"}
            assert person.call("POST", f"/orders/{order['orderId']}/refunds", body, key=str(amount)).status == 202
    listed = person.call("GET", "/refunds").body["items"]
    assert [(one["orderId"], one["amountFen"], one["reason"]) for one in listed] == [
        (second["orderId"], 300, "refund 300"),
        (first["orderId"], 200, "refund 200"),
        (first["orderId"], 100, "refund 100"),
    ]
    of_order = person.call("GET", f"/refunds?orderId={first['orderId']}&limit=1").body
    assert [one["amountFen"] for one in of_order["items"]] == [200]
    rest = person.call("GET", f"/refunds?orderId={first['orderId']}&cursor={of_order['nextCursor']}").body
    assert [one["amountFen"] for one in rest["items"]] == [100]
    assert world.new_person().call("GET", "/refunds").body["items"] == []


def test_receipt_shows_payment_and_refunds(world: World) -> None:
    person = world.new_person()
    order = person.buy()
    assert person.call("GET", f"/orders/{order['orderId']}/receipt").status == 409
    world.pay(order)
    person.call("POST", f"/orders/{order['orderId']}/refunds", {"amountFen": 100, "reason": "part"}, key="k")
    receipt = person.call("GET", f"/orders/{order['orderId']}/receipt").body
    assert (receipt["amountFen"], receipt["points"]) == (order["amountFen"], order["points"])
    assert receipt["receiptNumber"] == order["orderId"].removeprefix("ord_")
    assert receipt["transactionId"]
    assert receipt["paidAt"]
    assert [one["amountFen"] for one in receipt["refunds"]] == [100]
    assert world.new_person().call("GET", f"/orders/{order['orderId']}/receipt").status == 404


def test_administrator_refunds_order_of_another_tenant(world: World) -> None:
    person, stranger, administrator = world.new_person(), world.new_person(), world.new_person()
    administrator.permissions = f"{ALL_PERMISSIONS} tenant.manage"
    order = person.buy()
    world.pay(order)
    path = f"/orders/{order['orderId']}/refunds"
    body = {"amountFen": 100, "reason": "goodwill", "tenantId": to_wire("tnt", person.tenant_id)}
    assert stranger.call("POST", path, body, key="k").status == 404
    assert administrator.call("POST", path, {"amountFen": 100, "reason": "no tenant"}, key="k0").status == 404
    assert administrator.call("POST", path, {**body, "tenantId": "tnt_x"}, key="k1").status == 404
    first = administrator.call("POST", path, body, key="k")
    assert first.status == 202
    assert administrator.call("POST", path, body, key="k").body["refundId"] == first.body["refundId"]
    listed = person.call("GET", "/refunds").body["items"]
    assert [(one["amountFen"], one["reason"]) for one in listed] == [(100, "goodwill")]
