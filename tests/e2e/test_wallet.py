"""The wallet as a tenant uses it, on the running stack: order, pay at the simulator, see the points."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from local.emulator import client
from tests.e2e.conftest import Platform

Json = dict[str, Any]


def call(method: str, url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        with urlopen(Request(url, data=data, method=method, headers=sent), timeout=35) as answer:
            status, content = answer.status, answer.read()
    except HTTPError as refusal:
        with refusal:
            status, content = refusal.code, refusal.read()
    return status, json.loads(content) if content else None


@dataclass
class Owner:
    """A user who has just registered."""

    facts: Json
    token: str

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        return call(method, f"{self.facts['apiUrl']}{path}", body, Authorization=f"Bearer {self.token}", **headers)

    def buy(self, package: str = "starter") -> Json:
        wanted = {"packageId": package, "channel": "native"}
        status, order = self.call("POST", "/orders", wanted, Idempotency_Key=str(uuid4()))
        assert status == 201, order
        return dict(order)

    def pay(self, order: Json, **wish: Any) -> Any:
        number = order["orderId"].removeprefix("ord_")
        return call("POST", f"{self.facts['wechatSimUrl']}/sim/orders/{number}/pay", wish)[1]["statuses"]

    @property
    def balance(self) -> int:
        return int(self.call("GET", "/points")[1]["balance"])


@pytest.fixture
def owner(platform: Platform) -> Owner:
    email = f"{uuid4().hex}@example.com"
    body = {"tenantName": "a shop", "email": email, "password": "correct horse battery staple"}
    status, made = call("POST", f"{platform.facts['apiUrl']}/auth/register", body)
    assert status == 201, made
    return Owner(platform.facts, made["accessToken"])


def invoke(platform: Platform, **event: Any) -> Any:
    functions = client("lambda", platform.facts["lambdaUrl"])
    answer = functions.invoke(FunctionName="ReconcileFunction", Payload=json.dumps(event).encode())
    assert "FunctionError" not in answer, answer["Payload"].read()
    return json.loads(answer["Payload"].read())


def test_paid_order_is_in_balance_when_payer_looks(owner: Owner):
    order = owner.buy()
    assert (order["status"], owner.balance) == ("PAYING", 0)
    assert owner.pay(order) == [204]
    assert owner.balance == 100
    assert owner.call("GET", f"/orders/{order['orderId']}")[1]["status"] == "COMPLETED"
    (entry,) = owner.call("GET", "/points/ledger")[1]["items"]
    assert (entry["kind"], entry["balanceDelta"], entry["reference"]) == ("RECHARGE", 100, order["orderId"])


def test_dropped_notification_is_made_up_for_by_sweep(platform: Platform, owner: Owner):
    order = owner.buy("basic")
    assert owner.pay(order, mode="drop") == []
    assert owner.balance == 0
    assert invoke(platform, action="orders", early=True)["asked"] >= 1
    assert owner.balance == 520


def test_return_page_of_payer_queries_wechat(owner: Owner):
    order = owner.buy()
    owner.pay(order, mode="drop")
    status, found = owner.call("POST", f"/orders/{order['orderId']}/check")
    assert (status, found["status"]) == (200, "COMPLETED")
    assert owner.balance == 100


def test_refund_takes_points_back_and_returns_money(owner: Owner):
    order = owner.buy()
    owner.pay(order)
    path = f"/orders/{order['orderId']}/refunds"
    status, refund = owner.call("POST", path, {"amountFen": 990, "reason": "too many"}, Idempotency_Key="r1")
    assert (status, refund["status"]) == (202, "PROCESSING")
    assert owner.balance == 0
    number = refund["refundId"].removeprefix("ref_")
    _, finished = call("POST", f"{owner.facts['wechatSimUrl']}/sim/refunds/{number}/finish", {"status": "SUCCESS"})
    assert finished["statuses"] == [204]
    assert owner.call("GET", f"/orders/{order['orderId']}")[1]["status"] == "REFUNDED"


def test_repeated_gift_of_administrator_grants_once(platform: Platform, owner: Owner):
    admin = platform.facts["admin"]
    _, login = call("POST", f"{platform.facts['apiUrl']}/auth/login", admin)
    operator = Owner(platform.facts, login["accessToken"])
    user_id = owner.call("GET", "/me")[1]["userId"]
    gift = {"userId": user_id, "amount": 30, "campaign": "spring", "reason": "spring campaign"}
    for _ in range(2):
        status, entry = operator.call("POST", "/points/grants", gift, Idempotency_Key=f"g-{user_id}")
        assert (status, entry["kind"], entry["balance"]) == (201, "GIFT", 30)
    status, refusal = operator.call("POST", "/points/grants", gift, Idempotency_Key=f"h-{user_id}")
    assert (status, refusal["code"]) == (409, "POINTS_409_CAMPAIGN_GRANTED")
    assert owner.balance == 30
    status, refusal = owner.call("POST", "/points/grants", gift, Idempotency_Key="x")
    assert (status, refusal["code"]) == (403, "AUTH_403_FORBIDDEN")


def test_points_are_transferred_within_tenant_once(owner: Owner):
    order = owner.buy()
    owner.pay(order)
    invited = {"email": f"{uuid4().hex}@example.com", "password": "correct horse battery staple", "roles": ["member"]}
    _, member = owner.call("POST", "/users", invited)
    gift = {"toUserId": member["userId"], "amount": 40}
    for _ in range(2):
        status, entry = owner.call("POST", "/points/transfers", gift, Idempotency_Key="t1")
        assert (status, entry["kind"], entry["balance"]) == (201, "TRANSFER_OUT", 60)
    assert owner.balance == 60
    status, refusal = owner.call("POST", "/points/transfers", {**gift, "amount": 61}, Idempotency_Key="t2")
    assert (status, refusal["code"]) == (402, "POINTS_402_INSUFFICIENT")


def test_ledger_is_exported_as_csv(owner: Owner):
    order = owner.buy()
    owner.pay(order)
    request = Request(f"{owner.facts['apiUrl']}/points/ledger?format=csv&kind=RECHARGE")
    request.add_header("Authorization", f"Bearer {owner.token}")
    with urlopen(request, timeout=35) as answer:
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        lines = answer.read().decode().splitlines()
    assert lines[0] == "entryId,kind,balanceDelta,frozenDelta,balance,frozen,reference,createdAt"
    assert lines[1].split(",")[1:7] == ["RECHARGE", "100", "0", "100", "0", order["orderId"]]
    assert len(lines) == 2
