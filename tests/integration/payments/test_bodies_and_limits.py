"""What a body may hold, and how many orders may be open."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.payments.conftest import Answer, Person, World
from tests.integration.payments.test_cases_sweep import make_orders

PER_USER, PER_TENANT = 20, 200
NO_INTEGERS = ["5", True, 5.0, None, [5]]


def changes(world: World) -> list[Any]:
    return world.rows("SELECT 1 FROM points_ledger UNION ALL SELECT 1 FROM pay_refund")


@pytest.mark.parametrize("amount", NO_INTEGERS, ids=repr)
def test_points_must_be_integers(world: World, amount: Any):
    other = f"usr_{world.new_person(world.person.tenant_id).user_id.hex}"
    bodies = {
        "/points/grants": {"userId": other, "amount": amount, "reason": "thanks"},
        "/points/transfers": {"toUserId": other, "amount": amount},
    }
    for path, body in bodies.items():
        answer = world.person.call("POST", path, body, "k")
        assert (answer.status, answer.body["code"]) == (422, "REQUEST_422_INVALID")
        assert [one["field"].partition(".")[0] for one in answer.body["details"]["fields"]] == ["amount"]
    assert changes(world) == []


@pytest.mark.parametrize("amount", NO_INTEGERS, ids=repr)
def test_refund_is_whole_number_of_fen(world: World, amount: Any):
    order = world.person.buy()
    world.pay(order)
    before = changes(world)
    body = {"amountFen": amount, "reason": "x"}
    answer = world.person.call("POST", f"/orders/{order['orderId']}/refunds", body, "k")
    assert (answer.status, answer.body["details"]["fields"][0]["field"]) == (422, "amountFen")
    assert changes(world) == before


def test_names_in_bodies_are_camel_case_only(world: World):
    order = world.person.buy()
    world.pay(order)
    before = changes(world)
    other = f"usr_{world.new_person(world.person.tenant_id).user_id.hex}"
    bodies = {
        "/points/grants": {"user_id": other, "amount": 5, "reason": "thanks"},
        "/points/transfers": {"to_user_id": other, "amount": 5},
        "/orders": {"package_id": "starter", "channel": "native"},
        f"/orders/{order['orderId']}/refunds": {"amount_fen": 5, "reason": "x"},
    }
    for path, body in bodies.items():
        assert world.person.call("POST", path, body, "k").status == 422, path
    assert changes(world) == before
    assert len(world.rows("SELECT 1 FROM pay_order")) == 1


def order(person: Person, key: str | None = None) -> Answer:
    return person.call("POST", "/orders", {"packageId": "starter", "channel": "native"}, key or str(uuid4()))


def open_orders(world: World) -> int:
    return len(world.rows("SELECT 1 FROM pay_order WHERE status IN ('CREATED', 'PAYING')"))


def test_user_has_so_many_open_orders(world: World):
    make_orders(world, PER_USER - 1)
    last = order(world.person, "last")
    assert last.status == 201
    refused = order(world.person, "one more")
    assert (refused.status, refused.body["code"]) == (409, "ORDER_409_TOO_MANY_OPEN")
    assert refused.body["details"] == {"limit": PER_USER, "scope": "user"}
    assert open_orders(world) == PER_USER
    # A repeated request is no further order, and a colleague has a number of their own.
    assert order(world.person, "last").body == last.body
    assert order(world.new_person(world.person.tenant_id)).status == 201
    world.person.call("POST", f"/orders/{last.body['orderId']}/close")
    assert order(world.person, "one more").status == 201


def test_tenant_has_so_many_open_orders(world: World):
    make_orders(world, PER_TENANT)
    colleague = world.new_person(world.person.tenant_id)
    refused = order(colleague)
    assert (refused.status, refused.body["code"]) == (409, "ORDER_409_TOO_MANY_OPEN")
    assert refused.body["details"] == {"limit": PER_TENANT, "scope": "tenant"}
    assert open_orders(world) == PER_TENANT
    assert order(world.new_person()).status == 201


def test_orders_at_once_do_not_pass_limit(world: World):
    make_orders(world, PER_USER - 3)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: order(world.person), range(8)))
    assert sorted(answer.status for answer in answers) == [201] * 3 + [409] * 5
    assert open_orders(world) == PER_USER
