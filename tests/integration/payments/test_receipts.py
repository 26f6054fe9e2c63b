"""Lists of refunds, and receipts of paid orders."""

from __future__ import annotations

from tests.integration.payments.conftest import World


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
