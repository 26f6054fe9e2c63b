"""Idempotency-Key on every route that takes one: the same request many times at once, and the keys of two users."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from artiway.platform import openapi
from artiway.platform.http import BASE
from tests.integration.payments.conftest import Answer, Person, World
from tools.openapi import apis

Json = dict[str, Any]
COPIES = 8
ROUNDS = 3


@dataclass(frozen=True)
class Wish:
    """A request, another one for the same route, and the rows that show how often it took effect."""

    path: str
    body: Json
    other_body: Json
    effects: str
    status: int = 201


def order(_world: World, _person: Person) -> Wish:
    body = {"packageId": "starter", "channel": "native"}
    return Wish("/orders", body, {**body, "packageId": "basic"}, "SELECT 1 FROM pay_order WHERE transaction_id IS NULL")


def refund(world: World, person: Person) -> Wish:
    paid = person.buy()
    world.pay(paid)
    body = {"amountFen": 990, "reason": "changed my mind"}
    return Wish(f"/orders/{paid['orderId']}/refunds", body, {**body, "amountFen": 1}, "SELECT 1 FROM pay_refund", 202)


def grant(_world: World, person: Person) -> Wish:
    body = {"userId": f"usr_{person.user_id.hex}", "amount": 5, "reason": "thanks"}
    effects = "SELECT 1 FROM points_ledger WHERE kind = 'GIFT' AND reference = 'thanks'"
    return Wish("/points/grants", body, {**body, "reason": "sorry"}, effects)


def transfer(world: World, person: Person) -> Wish:
    give(person, 100)
    receiver = world.new_person(person.tenant_id)
    body = {"toUserId": f"usr_{receiver.user_id.hex}", "amount": 30}
    effects = "SELECT 1 FROM points_ledger WHERE kind = 'TRANSFER_OUT'"
    return Wish("/points/transfers", body, {**body, "amount": 31}, effects)


def task(world: World, person: Person) -> Wish:
    give(person, 100)
    input_id = uuid4()
    world.database.execute(
        "INSERT INTO upload (tenant_id, input_id, user_id, key, content_type, bytes, width, height, expires_at)"
        " VALUES (%s, %s, %s, %s, 'image/png', 100, 10, 10, now() + interval '1 day')",
        [person.tenant_id, input_id, person.user_id, f"inputs/{input_id}"],
    )
    body = {"tool": "cutout", "inputs": {"product": f"inp_{input_id.hex}"}}
    return Wish("/tasks", body, {**body, "params": {"trim": True}}, "SELECT 1 FROM task", 202)


def flow(_world: World, person: Person) -> Wish:
    give(person, 100)
    body = {"name": "mine", "nodes": [{"name": "a", "tool": "scene"}]}
    return Wish("/flows", body, {**body, "name": "other"}, "SELECT 1 FROM task", 202)


def give(person: Person, amount: int) -> None:
    body = {"userId": f"usr_{person.user_id.hex}", "amount": amount, "reason": "test"}
    assert person.call("POST", "/points/grants", body).status == 201


Prepare = Callable[[World, Person], Wish]
ROUTES = {
    "/orders": order,
    "/orders/{order_id}/refunds": refund,
    "/points/grants": grant,
    "/points/transfers": transfer,
    "/tasks": task,
    "/flows": flow,
}
every_route = pytest.mark.parametrize("prepare", ROUTES.values(), ids=ROUTES.keys())


def at_once(person: Person, wish: Wish, key: str) -> list[Answer]:
    together = threading.Barrier(COPIES)

    def send(_: int) -> Answer:
        together.wait()
        return person.call("POST", wish.path, wish.body, key)

    with ThreadPoolExecutor(COPIES) as pool:
        return list(pool.map(send, range(COPIES)))


@every_route
def test_concurrent_copies_have_one_effect_and_answer(world: World, prepare: Prepare):
    for round_number in range(ROUNDS):
        wish = prepare(world, world.person)
        before = len(world.rows(wish.effects))
        answers = at_once(world.person, wish, f"key {round_number}")
        done = [answer.body for answer in answers if answer.status == wish.status]
        others = {(answer.status, answer.body["code"]) for answer in answers if answer.status != wish.status}
        assert others <= {(409, "IDEM_409_IN_PROGRESS")}
        assert done
        assert all(body == done[0] for body in done)
        again = world.person.call("POST", wish.path, wish.body, f"key {round_number}")
        assert (again.status, again.body) == (wish.status, done[0])
        assert len(world.rows(wish.effects)) == before + 1


@every_route
def test_another_body_under_used_key_is_refused(world: World, prepare: Prepare):
    wish = prepare(world, world.person)
    assert world.person.call("POST", wish.path, wish.body, "k").status == wish.status
    before = len(world.rows(wish.effects))
    other = world.person.call("POST", wish.path, wish.other_body, "k")
    assert (other.status, other.body["code"]) == (422, "IDEM_422_KEY_REUSED")
    assert len(world.rows(wish.effects)) == before


@every_route
def test_two_users_may_choose_same_key(world: World, prepare: Prepare):
    colleague = world.new_person(world.person.tenant_id)
    mine, theirs = prepare(world, world.person), prepare(world, colleague)
    before = len(world.rows(mine.effects))
    assert world.person.call("POST", mine.path, mine.body, "k").status == mine.status
    other = colleague.call("POST", theirs.path, theirs.other_body, "k")
    assert other.status == theirs.status, other
    assert len(world.rows(mine.effects)) >= before + 1
    assert colleague.call("POST", theirs.path, theirs.other_body, "k").body == other.body


def test_key_for_refunds_of_two_orders_is_refused(world: World):
    """Concurrent refunds: each order has its own lock, so only the key shows that one is a repetition."""
    wishes = [refund(world, world.person) for _ in range(2)]
    together = threading.Barrier(2)

    def send(wish: Wish) -> Answer:
        together.wait()
        return world.person.call("POST", wish.path, wish.body, "k")

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(send, wishes))
    assert sorted(answer.status for answer in answers) == [202, 422]
    assert {answer.body.get("code") for answer in answers} == {None, "IDEM_422_KEY_REUSED"}
    assert len(world.rows("SELECT 1 FROM pay_refund")) == 1


def test_grant_under_a_used_key_is_refused(world: World):
    wish = grant(world, world.person)
    stranger = world.new_person()
    assert world.person.call("POST", wish.path, wish.body, "k").status == 201
    elsewhere = replace(wish, body={**wish.body, "userId": f"usr_{stranger.user_id.hex}"})
    other = world.person.call("POST", elsewhere.path, elsewhere.body, "k")
    assert (other.status, other.body["code"]) == (422, "IDEM_422_KEY_REUSED")
    assert stranger.balance == 0


def test_grant_whose_answer_was_lost_is_found_again(world: World):
    """As after a crash between the gift's commit and that of its answer."""
    wish = grant(world, world.person)
    first = world.person.call("POST", wish.path, wish.body, "k")
    world.database.execute("DELETE FROM idempotency_key")
    again = world.person.call("POST", wish.path, wish.body, "k")
    assert (again.status, again.body) == (201, first.body)
    assert world.person.balance == 5


def test_routes_with_their_own_keys_are_raced_here():
    """All others share one mechanism, which runs before the route."""
    shared = {key for api in apis().values() for key, rule in api.rules.items() if rule.is_idempotent}
    document = json.loads(openapi.text())["paths"]
    keyed = {
        path.removeprefix(BASE)
        for path, operations in document.items()
        for method, operation in operations.items()
        if any(one["name"] == "Idempotency-Key" for one in operation.get("parameters", []))
        and f"{method.upper()} {path}" not in shared
    }
    # The key of a job is stored for the job's tenant: tests/integration/jobs/test_definitions.py races it.
    assert {"/orders", "/jobs"} <= keyed <= {*ROUTES, "/jobs"}
