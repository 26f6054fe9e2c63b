"""kill -9 before every side effect of everything that moves money: no credit is lost, none is doubled.

The points are found by running each act once and numbering what leaves the process. A new side effect is a new point.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from tests.integration.payments.conftest import ALL_PERMISSIONS, World, number

Json = dict[str, Any]
MOST_POINTS = 120


OPEN_TRANSACTIONS = """
SELECT 1 FROM pg_stat_activity
 WHERE datname = current_database() AND usename IN ('artiway_app', 'artiway_service') AND xact_start IS NOT NULL
"""


class Crasher:
    """Performs a scenario in a process that dies before a given side effect."""

    def __init__(self, process: subprocess.Popen[str], answers: Any) -> None:
        self._process, self._answers = process, answers

    def run(self, scenario: list[str], at: int | None) -> Json:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"scenario": scenario, "at": at}) + "\n")
        self._process.stdin.flush()
        answer: Json = json.loads(self._answers.readline())
        assert answer["killed"] or answer["status"] == 0, answer
        return answer


@pytest.fixture(scope="module")
def crasher(
    function_variables: dict[str, str], functions_url: str, clock_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crasher]:
    script = Path(__file__).with_name("crash_child.py")
    root = script.parents[3]
    reader, writer = os.pipe()
    log = (tmp_path_factory.mktemp("crash") / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, str(script), str(clock_file)],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        text=True,
        pass_fds=[writer],
        env={
            **function_variables,
            "ARTIWAY_PUBLIC_URL": functions_url,
            "PYTHONPATH": f"{root}/layers/core:{root}",
            "CRASH_ANSWERS": str(writer),
        },
    )
    os.close(writer)
    with os.fdopen(reader) as answers, log:
        yield Crasher(process, answers)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def wait_for_rollback(world: World) -> None:
    """PostgreSQL ends a dead client's transaction when its backend gets a core; until then a sweep skips its rows."""
    for _ in range(3_000):
        if not world.rows(OPEN_TRANSACTIONS):
            return
        time.sleep(0.01)
    raise AssertionError("the transaction of a dead process stays open")


def crash_everywhere(
    world: World,
    crasher: Crasher,
    valkey: redis.Redis,
    begin: Callable[[], tuple[list[str], Json]],
    end: Callable[[Json], None],
) -> tuple[int, list[str]]:
    """Die before the first side effect, before the second, and so on; recover and look each time.

    Returns the number of runs and the effects of the last, which was not killed. A run on a slow machine may have one
    more, because caches renew themselves by time.
    """
    for at in range(MOST_POINTS):
        scenario, subject = begin()
        answer = crasher.run(scenario, at)
        wait_for_rollback(world)
        valkey.flushall()  # the dead one's lock runs out
        end(subject)
        if not answer["killed"]:
            effects: list[str] = answer["effects"]
            assert at - 2 <= len(effects) <= at
            return at + 1, effects
    raise AssertionError("it never ends")


def test_payment_callback_survives_kill_at_every_point(world: World, crasher: Crasher, valkey: redis.Redis):
    def begin() -> tuple[list[str], Json]:
        order = world.person.buy()
        world.pay(order, mode="drop")
        return ["notify", world.sim_url, number(order)], order

    def end(order: Json) -> None:
        assert world.person.order(order["orderId"])["status"] in {"PAYING", "COMPLETED"}
        assert world.notify(order) == [204]
        assert world.person.order(order["orderId"])["status"] == "COMPLETED"

    runs, effects = crash_everywhere(world, crasher, valkey, begin, end)
    assert world.recharges() == [100] * runs
    assert {effect.split()[0] for effect in effects} == {"aws", "sql", "redis"}
    assert [effect for effect in effects if effect.startswith("sql COMMIT")]


def test_alert_of_a_killed_callback_is_published(world: World, crasher: Crasher, valkey: redis.Redis):
    def begin() -> tuple[list[str], Json]:
        order = world.person.buy()
        assert world.person.call("POST", f"/orders/{order['orderId']}/close").body["status"] == "CLOSED"
        world.pay(order, mode="drop", force=True)
        return ["notify", world.sim_url, number(order)], order

    def end(order: Json) -> None:
        assert world.notify(order) == [204]
        world.invoke("orders")  # whose last act is to send the alerts that are left

    runs, _ = crash_everywhere(world, crasher, valkey, begin, end)
    assert world.alerts() == ["PAYMENT_AFTER_CLOSE"] * runs
    assert world.recharges() == [100] * runs


def request(tmp_path: Path, world: World, path: str, body: Json, key: str) -> list[str]:
    file = tmp_path / f"{key}.json"
    identity = {"tenantId": str(world.person.tenant_id), "userId": str(world.person.user_id)}
    headers = {
        "content-type": "application/json",
        "idempotency-key": key,
        "x-identity": json.dumps({**identity, "permissions": ALL_PERMISSIONS}),
    }
    wanted = {"function": "orders", "method": "POST", "path": f"/api/v1{path}", "headers": headers}
    file.write_text(json.dumps({**wanted, "body": json.dumps(body)}))
    return ["request", str(file)]


def test_order_survives_a_kill_at_every_point(world: World, crasher: Crasher, valkey: redis.Redis, tmp_path: Path):
    wanted = {"packageId": "starter", "channel": "native"}

    def begin() -> tuple[list[str], Json]:
        key = str(uuid4())
        return request(tmp_path, world, "/orders", wanted, key), {"key": key}

    def end(subject: Json) -> None:
        order = world.person.buy(key=subject["key"])
        assert order["status"] == "PAYING"
        assert world.pay(order) == [204]

    runs, effects = crash_everywhere(world, crasher, valkey, begin, end)
    assert world.recharges() == [100] * runs
    assert len(world.rows("SELECT 1 FROM pay_order")) == runs
    assert [effect for effect in effects if effect.startswith("http POST /pay/transactions")]


def test_sweep_survives_kill_at_every_point(world: World, crasher: Crasher, valkey: redis.Redis):
    def begin() -> tuple[list[str], Json]:
        order = world.person.buy()
        world.pay(order, mode="drop")
        world.advance(minutes=6)
        return ["invoke", "reconcile", '{"action": "orders"}'], order

    def end(order: Json) -> None:
        world.sweep(after_minutes=3)  # longer than the dead one's lease
        assert world.person.order(order["orderId"])["status"] == "COMPLETED"

    runs, _ = crash_everywhere(world, crasher, valkey, begin, end)
    assert world.recharges() == [100] * runs


def test_repair_of_bill_survives_kill_at_every_point(world: World, crasher: Crasher, valkey: redis.Redis):
    def begin() -> tuple[list[str], Json]:
        world.advance(days=1)
        day = world.clock.now().date().isoformat()
        world.at(f"{day}T12:00:00+08:00")
        order = world.person.buy()
        world.pay(order, mode="drop")
        world.advance(hours=23)
        return ["invoke", "reconcile", json.dumps({"action": "bill", "day": day})], order

    def end(order: Json) -> None:
        assert set(world.invoke("bill").values()) <= {"DONE"}
        assert world.person.order(order["orderId"])["status"] == "COMPLETED"

    runs, _ = crash_everywhere(world, crasher, valkey, begin, end)
    assert world.recharges() == [100] * runs
    assert {row["resolution"] for row in world.rows("SELECT resolution FROM bill_difference")} == {"REPAIRED"}
    assert {row["status"] for row in world.rows("SELECT status FROM bill_day")} == {"DONE"}


def test_refund_survives_a_kill_at_every_point(world: World, crasher: Crasher, valkey: redis.Redis, tmp_path: Path):
    # Without WeChat's notification, which would race the process and make the side effects differ from run to run.
    world.behave(refunds="success", notify="drop")
    wanted = {"amountFen": 990, "reason": "changed my mind"}

    def begin() -> tuple[list[str], Json]:
        order = world.person.buy()
        world.pay(order, mode="send")
        key = str(uuid4())
        path = f"/orders/{order['orderId']}/refunds"
        return request(tmp_path, world, path, wanted, key), {"order": order, "path": path, "key": key}

    def end(subject: Json) -> None:
        assert world.person.call("POST", subject["path"], wanted, subject["key"]).status == 202
        world.sweep(after_minutes=11)
        assert world.person.order(subject["order"]["orderId"])["status"] == "REFUNDED"
        assert world.person.balance == 0

    runs, _ = crash_everywhere(world, crasher, valkey, begin, end)
    refunds = world.rows("SELECT status FROM pay_refund")
    assert [row["status"] for row in refunds] == ["SUCCESS"] * runs
