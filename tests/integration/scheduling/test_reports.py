"""Explain, forecast, fairness, log and what-if, on a queue that really ran."""

from __future__ import annotations

import random
import statistics

import pytest
import redis

from artiway.scheduling import fairness
from artiway.scheduling.forecast import Changes, Forecast, Speed, compute, simulate
from artiway.scheduling.model import (
    Arrival,
    Completion,
    Lane,
    Pool,
    Snapshot,
    TenantPolicy,
    Track,
    WaitingFor,
    microseconds,
)
from artiway.scheduling.queue import FairQueue
from tests.integration.scheduling.support import Twins, node, nodes

POOL = Pool(slots={"cutout": 2, "model": 2})


def test_explain_names_what_a_node_waits_for(valkey: redis.Redis) -> None:
    policies = [TenantPolicy("A", cap=1), TenantPolicy("B")]
    twins = Twins(valkey, Snapshot(Pool({"cutout": 2}, {"slow": Lane("slow")}), policies))
    twins.enqueue([*nodes("a", 3, "A", 1), *nodes("b", 3, "B", 1), node("p", "B", 1, lane="slow")])
    twins.dispatch(9)

    def reason(name: str) -> WaitingFor:
        return twins.queue.explain(name, now_ms=0).waiting_for

    assert reason("a0") is WaitingFor.NONE
    assert reason("nobody") is WaitingFor.NONE
    assert reason("a1") is WaitingFor.TENANT_CAP
    assert reason("b1") is WaitingFor.TURN
    twins.pause("slow")
    assert reason("p") is WaitingFor.LANE_PAUSED
    assert twins.queue.explain("b2", now_ms=0).detail["before_of_user"] == 1


def test_only_tenants_before_a_node_are_counted(valkey: redis.Redis) -> None:
    twins = Twins(
        valkey, Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("A"), TenantPolicy("B", 5), TenantPolicy("C", 5)])
    )
    twins.enqueue([*nodes("b", 2, "B", 4), *nodes("c", 1, "C", 3), *nodes("a", 1, "A", 2)])

    def before() -> int:
        return int(twins.queue.explain("a0", now_ms=0).detail["tenants_before"])

    assert before() == 2
    for weight in (1, 5, 1, 5):  # tagged anew four times, to the same tags
        twins.set_tenant(TenantPolicy("B", weight))
    assert before() == 2
    twins.cancel(["c0"])
    assert before() == 1
    twins.cancel(["b0", "b1"])
    assert before() == 0


def test_forecast_is_near_what_then_happens(valkey: redis.Redis) -> None:
    dice = random.Random(5)
    policies = [TenantPolicy(f"t{i}", 1 + i, cap=3) for i in range(4)]
    queue = FairQueue(valkey, "gpu")
    waiting = [node(f"n{i}", f"t{dice.randrange(4)}", dice.randint(1, 9)) for i in range(80)]
    queue.rebuild(Snapshot(POOL, policies), now_ms=0)
    queue.enqueue(waiting, now_ms=0)
    running = [(dice.randrange(one.charged_us), one.node.node_id) for one in queue.dispatch(9, now_ms=0)]
    made = compute(queue.backlog(), Speed())
    expected = {
        one.node_id: Forecast(made.tables, made.rows[one.tenant_id]).start(
            one.track, queue.explain(one.node_id, now_ms=0).detail["before_of_tenant"]
        )
        for one in waiting
        if one.node_id not in {name for _, name in running}
    }
    now, position, late, misplaced = 0, 0, [], []
    while running:
        running.sort()
        now, ended = running.pop(0)
        for one in queue.complete([Completion(ended)], now_ms=0, dispatch=9).dispatched:
            found = expected[one.node.node_id]
            assert found is not None
            late.append(abs(found.start_us - now))
            misplaced.append(abs(found.position - position))
            position += 1
            running.append((now + one.charged_us, one.node.node_id))
    assert statistics.median(late) <= microseconds(9)
    assert max(late) <= now // 4
    assert max(misplaced) <= 20


def test_fairness_report_shows_shares_and_worst_pair(valkey: redis.Redis) -> None:
    weights = {"vip": 5, "standard": 2, "free": 1}
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, [TenantPolicy(t, w) for t, w in weights.items()]), now_ms=0)
    for tenant in weights:
        queue.enqueue(nodes(tenant, 600, tenant, 6), now_ms=1_000)
    running = queue.dispatch(2, now_ms=60_000)
    for step in range(400):
        ends = [Completion(one.node.node_id) for one in running]
        running = list(queue.complete(ends, now_ms=60_000 + step * 250, dispatch=2).dispatched)
    found = fairness.report(queue, now_ms=160_000, window_s=100)
    assert {t.tenant_id: round(t.ideal_share, 3) for t in found.tenants} == {
        "vip": 0.625,
        "standard": 0.25,
        "free": 0.125,
    }
    for tenant in found.tenants:
        assert tenant.is_contending
        assert tenant.share == pytest.approx(tenant.ideal_share, rel=0.02)
    assert found.worst is not None
    assert 0 <= found.worst.gap_us <= found.worst.bound_us <= found.bound_us
    assert found.jain >= 0.999


def test_service_is_counted_in_its_own_minute(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(Pool(slots={"cutout": 9}), [TenantPolicy("A")]), now_ms=0)
    queue.enqueue(nodes("a", 6, "A", 1), now_ms=0)
    for minute in (5, 4, 5, 4, 5, 9):
        queue.dispatch(1, now_ms=minute * 60_000)
    assert {minute: queue.service_us(minute) for minute in (4, 5, 6, 9)} == {
        4: {"A": microseconds(2)},
        5: {"A": microseconds(3)},
        6: {},
        9: {"A": microseconds(1)},
    }
    queue.complete([Completion("a0", microseconds(4))], now_ms=5 * 60_000)  # it ran three seconds longer
    assert queue.service_us(5) == {"A": microseconds(6)}


def test_tenant_that_was_idle_is_not_compared(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A"), TenantPolicy("guest")]), now_ms=0)
    queue.enqueue(nodes("a", 50, "A", 6), now_ms=0)
    queue.enqueue([node("g", "guest", 6)], now_ms=61_000)
    queue.dispatch(2, now_ms=61_000)
    found = fairness.report(queue, now_ms=62_000, window_s=60)
    assert {t.tenant_id: t.is_contending for t in found.tenants} == {"A": True, "guest": False}
    assert found.worst is None


def test_what_if_shows_waits_under_other_weights(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("A"), TenantPolicy("B")]), now_ms=0)
    queue.enqueue([*nodes("a", 30, "A", 2), *nodes("b", 30, "B", 2)], now_ms=5_000)
    recorded = [Arrival(0, waiting, waiting.cost_us) for waiting in queue.snapshot().waiting]
    before = {key: valkey.dump(key) for key in valkey.scan_iter()}
    found = simulate(queue.snapshot(), recorded, Changes(tenants=[TenantPolicy("A", 9)]))
    assert found.after["A"].mean_us < found.before["A"].mean_us
    assert found.after["B"].mean_us > found.before["B"].mean_us
    assert found.before["A"].started == found.after["A"].started == 30
    doubled = simulate(queue.snapshot(), recorded, Changes(slots={"cutout": 2}))
    assert doubled.after["B"].worst_us <= found.before["B"].worst_us // 2
    assert {key: valkey.dump(key) for key in valkey.scan_iter()} == before


def test_measured_costs_replace_estimate_after_twenty_samples(valkey: redis.Redis) -> None:
    twins = Twins(valkey, Snapshot(Pool(slots={"cutout": 1, "model": 1}), [TenantPolicy("A")]))
    twins.enqueue([*nodes("a", 30, "A", 6), *nodes("m", 3, "A", 8, kind="model")])
    charged = []
    for _ in range(26):
        for one in twins.dispatch(2):
            if one.node.track == Track("cutout", "vip_short"):
                charged.append(one.charged_us)
                twins.complete([Completion(one.node.node_id, microseconds(9))])
    # A node is priced when it becomes a head, which is one dispatch before its own.
    assert charged == [microseconds(6)] * 21 + [microseconds(9)] * 5
