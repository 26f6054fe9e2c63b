"""WeChat Pay's simulator, the real handlers, PostgreSQL, Valkey, Secrets Manager and SNS: all over real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from local.emulator import start_emulator
from local.servers import free_port, running
from local.wechat_pay import WechatPayService
from tests.conftest import Addresses
from tests.fakes.clock import NOON
from tests.fakes.users import add_users
from tests.integration.payments import environment
from tests.integration.payments.environment import FileClock
from tests.integration.points.invariants import violations

PROCESSES = 8
ALL_PERMISSIONS = "points.read points.grant points.transfer order.create order.refund task.submit"
Json = dict[str, Any]


@dataclass
class Answer:
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


def call(method: str, url: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data=data, method=method, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status, content, got = answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as refusal:
        status, content, got = refusal.code, refusal.read(), dict(refusal.headers)
    with contextlib.suppress(ValueError):
        return Answer(status, json.loads(content), got)
    return Answer(status, content.decode(), got)


@dataclass
class Person:
    """A user of the API."""

    base_url: str
    tenant_id: UUID
    user_id: UUID
    permissions: str = ALL_PERMISSIONS

    def call(self, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        found = {"tenantId": str(self.tenant_id), "userId": str(self.user_id), "permissions": self.permissions}
        headers = {"X-Identity": json.dumps(found)}
        if key is not None:
            headers["Idempotency-Key"] = key
        return call(method, f"{self.base_url}/api/v1{path}", body, headers)

    def buy(self, package: str = "starter", channel: str = "native", key: str | None = None, **more: Any) -> Json:
        answer = self.call("POST", "/orders", {"packageId": package, "channel": channel, **more}, key or str(uuid4()))
        assert answer.status == 201, answer
        return dict(answer.body)

    def order(self, order_id: str) -> Json:
        answer = self.call("GET", f"/orders/{order_id}")
        assert answer.status == 200, answer
        return dict(answer.body)

    @property
    def balance(self) -> int:
        answer = self.call("GET", "/points")
        assert answer.status == 200, answer
        return int(answer.body["balance"])


@dataclass
class World:
    """Everything a case needs."""

    base_url: str
    sim_url: str
    sim: WechatPayService
    clock: FileClock
    database: psycopg.Connection[Any]
    person: Person
    addresses: Addresses

    def control(self, path: str, wish: Any = None) -> Any:
        answer = call("POST", f"{self.sim_url}/sim/{path}", wish if wish is not None else {})
        assert answer.status < 500, answer
        return answer.body

    def pay(self, order: Json, **wish: Any) -> list[int]:
        """The payer pays; returns how the notifications were answered."""
        return list(self.control(f"orders/{number(order)}/pay", wish)["statuses"])

    def notify(self, order: Json, **wish: Any) -> list[int]:
        return list(self.control(f"orders/{number(order)}/notify", wish)["statuses"])

    def fault(self, *faults: Json) -> None:
        self.control("faults", list(faults))

    def behave(self, **changes: Any) -> None:
        self.control("behaviour", changes)

    def bill(self, day: str, **settings: Any) -> None:
        self.control(f"bills/{day}", settings)

    def invoke(self, action: str, **event: Any) -> Json:
        answer = call("POST", f"{self.base_url}/invoke/reconcile", {"action": action, **event})
        assert answer.status == 200, answer
        return dict(answer.body)

    def sweep(self, *, after_minutes: float = 6) -> Json:
        self.advance(minutes=after_minutes)
        return self.invoke("orders")

    def advance(self, **parts: float) -> None:
        self.clock.set(self.clock.now() + timedelta(**parts))

    def at(self, moment: str) -> None:
        self.clock.set(datetime.fromisoformat(moment))

    def rows(self, query: str, *parameters: Any) -> list[Json]:
        return [dict(row) for row in self.database.execute(query, parameters or None).fetchall()]

    def alerts(self) -> list[str]:
        """The kinds of all alerts so far; each of them must have reached SNS."""
        rows = self.rows("SELECT kind, sent_at FROM pay_alert ORDER BY created_at, alert_key")
        assert all(row["sent_at"] for row in rows), rows
        return [row["kind"] for row in rows]

    def requests(self) -> list[Json]:
        """What the simulator was asked so far."""
        with urllib.request.urlopen(f"{self.sim_url}/sim/state", timeout=10) as answer:
            return list(json.load(answer)["log"])

    def trade(self, order: Json) -> Json:
        with urllib.request.urlopen(f"{self.sim_url}/sim/state", timeout=10) as answer:
            return next(one for one in json.load(answer)["trades"] if one["number"] == number(order))

    def recharges(self) -> list[int]:
        rows = self.rows("SELECT balance_delta FROM points_ledger WHERE kind = 'RECHARGE' ORDER BY version")
        return [row["balance_delta"] for row in rows]

    def new_person(self, tenant_id: UUID | None = None) -> Person:
        person = Person(self.base_url, tenant_id or uuid4(), uuid4())
        add_users(self.addresses.superuser, person.tenant_id, [person.user_id])
        return person


def number(order: Json) -> str:
    return str(order["orderId"]).removeprefix("ord_")


@pytest.fixture(scope="session")
def clock_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("clock") / "now"
    FileClock(file).set(NOON)
    return file


@pytest.fixture(scope="session")
def simulator(clock_file: Path) -> Iterator[WechatPayService]:
    service = WechatPayService(port=free_port(), now=FileClock(clock_file).now)
    service.start({})
    yield service
    service.stop()


@pytest.fixture(scope="session")
def function_variables(
    tmp_path_factory: pytest.TempPathFactory,
    worker_addresses: Addresses,
    valkey_url: str,
    simulator: WechatPayService,
) -> Iterator[dict[str, str]]:
    """The environment of the functions, with Secrets Manager and SNS from the emulator."""
    import boto3

    with running(start_emulator(tmp_path_factory.mktemp("aws"), free_port())) as emulator:
        aws = {
            "AWS_ENDPOINT_URL": emulator.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        session = boto3.Session("test", "test", region_name="us-east-1")
        secret = session.client("secretsmanager", endpoint_url=emulator.url).create_secret(
            Name="wechat", SecretString=json.dumps(simulator.secret)
        )
        topic = session.client("sns", endpoint_url=emulator.url).create_topic(Name="alarms")
        yield {
            **aws,
            "ARTIWAY_ORIGIN_HASHES": "off",
            "ARTIWAY_DATABASE_URL": worker_addresses.app,
            "ARTIWAY_SERVICE_DATABASE_URL": worker_addresses.service,
            "ARTIWAY_REDIS_URL": valkey_url,
            "ARTIWAY_WECHAT_PAY_SECRET_ARN": secret["ARN"],
            "ARTIWAY_ALARM_TOPIC_ARN": topic["TopicArn"],
            "ARTIWAY_SWEEP_CONCURRENCY": "4",
        }


@pytest.fixture(scope="session")
def function_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("functions") / "log"


@pytest.fixture(scope="session")
def functions_url(function_variables: dict[str, str], clock_file: Path, function_log: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        root = str(environment.ROOT)
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ARTIWAY_"))},
            **function_variables,
            "ARTIWAY_PUBLIC_URL": url,
            "PYTHONPATH": f"{root}/layers/core:{root}",
        }
        arguments = [str(listener.fileno()), str(PROCESSES), str(clock_file)]
        with function_log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, environment.__file__, *arguments],
                pass_fds=[listener.fileno()],
                env=variables,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        yield url
        process.terminate()
        process.wait()


@pytest.fixture
def world(
    addresses: Addresses,
    valkey: object,
    functions_url: str,
    simulator: WechatPayService,
    clock_file: Path,
) -> Iterator[World]:
    """An empty world at noon. Afterwards the records are true, whatever the case did."""
    clock = FileClock(clock_file)
    clock.set(NOON)
    call("POST", f"{simulator.url}/sim/reset", {})
    person = Person(functions_url, uuid4(), uuid4())
    add_users(addresses.superuser, person.tenant_id, [person.user_id])
    with psycopg.connect(addresses.superuser, autocommit=True, row_factory=dict_row) as database:
        yield World(functions_url, simulator.url, simulator, clock, database, person, addresses)
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        assert violations(connection) == []
        assert money_violations(connection) == []


def money_violations(connection: psycopg.Connection[Any]) -> list[str]:
    """Ledger, orders and refunds are consistent (R-REC-6)."""
    checks = {
        "one credit per paid order": """
            SELECT o.order_id FROM pay_order o
              LEFT JOIN points_ledger l ON l.tenant_id = o.tenant_id AND l.kind = 'RECHARGE'
                    AND l.idempotency_key = 'wxpay:' || o.mchid || ':' || o.transaction_id
             GROUP BY o.tenant_id, o.order_id, o.points, o.transaction_id
            HAVING count(l.version) <> (o.transaction_id IS NOT NULL)::int
                OR coalesce(sum(l.balance_delta), o.points) <> o.points""",
        "recharged minus taken back equals paid minus refunded": """
            SELECT tenant_id FROM pay_order o
             GROUP BY tenant_id
            HAVING coalesce(sum(points) FILTER (WHERE transaction_id IS NOT NULL), 0)
                   - (SELECT coalesce(sum(points_taken), 0) FROM pay_refund r
                       WHERE r.tenant_id = o.tenant_id AND r.status <> 'CLOSED')
                <> (SELECT coalesce(sum(balance_delta), 0) FROM points_ledger l
                     WHERE l.tenant_id = o.tenant_id AND kind IN ('RECHARGE', 'REFUND'))""",
        "refunds never pass the payment": """
            SELECT order_id FROM pay_refund r JOIN pay_order o USING (tenant_id, order_id)
             WHERE r.status <> 'CLOSED'
             GROUP BY tenant_id, order_id, o.amount_fen HAVING sum(r.amount_fen) > o.amount_fen""",
    }
    found = []
    for name, query in checks.items():
        rows = connection.execute(query).fetchall()
        if rows:
            found.append(f"{name}: {rows[:3]}")
    return found
