"""Nodes come, leave, return and are found anywhere in a long queue of one user."""

from __future__ import annotations

import itertools

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artiway.scheduling import queue as module
from artiway.scheduling.model import (
    Cancelled,
    Completion,
    Enqueued,
    Pool,
    Priority,
    Running,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
)
from artiway.scheduling.queue import FairQueue
from tests.conftest import soaked
from tests.integration.scheduling.support import LEASE_MS, Twins, node, nodes

ONE_SLOT = Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("A"), TenantPolicy("B")])


@pytest.fixture
def twins(valkey: redis.Redis) -> Twins:
    return Twins(valkey, ONE_SLOT)


def drain(twins: Twins) -> list[str]:
    order = []
    while chosen := twins.dispatch(1):
        order.append(chosen[0].node.node_id)
        twins.end(chosen)
    twins.check()
    return order


def test_nodes_go_in_order_of_arrival(twins: Twins) -> None:
    waiting = nodes("n", 300, "A", 1)
    for part in range(0, 300, 70):
        twins.enqueue(waiting[part : part + 70])
    twins.check()
    assert drain(twins) == [one.node_id for one in waiting]


@pytest.mark.parametrize("step", [2, 3, 11])
def test_cancelled_nodes_leave_from_any_place(twins: Twins, step: int) -> None:
    waiting = [one.node_id for one in nodes("n", 200, "A", 1)]
    twins.enqueue(nodes("n", 200, "A", 1))
    assert set(twins.cancel(waiting[::step])) == {Cancelled.CANCELLED}
    assert set(twins.cancel(waiting[::step])) == {Cancelled.UNKNOWN}
    twins.check()
    assert drain(twins) == [name for place, name in enumerate(waiting) if place % step]


def test_cancelling_twice_in_a_call_counts_once(twins: Twins) -> None:
    twins.enqueue(nodes("n", 5, "A", 1))
    assert twins.cancel(["n3", "n3", "n0", "n0", "n1", "n1"]) == [Cancelled.CANCELLED, Cancelled.UNKNOWN] * 3
    assert drain(twins) == ["n2", "n4"]


def test_known_nodes_stay_where_they_are(twins: Twins) -> None:
    twins.enqueue(nodes("n", 4, "A", 1))
    assert twins.enqueue(nodes("n", 5, "A", 1)) == [Enqueued.DUPLICATE] * 4 + [Enqueued.QUEUED]
    again = [*nodes("m", 2, "A", 1), *nodes("m", 2, "A", 1)]
    assert twins.enqueue(again) == [Enqueued.QUEUED] * 2 + [Enqueued.DUPLICATE] * 2
    twins.adopt([Running(node("n3", "A", 1), 1_000_000)])
    twins.check()
    assert drain(twins) == ["n0", "n1", "n2", "n3", "n4", "m0", "m1"]


def test_returned_node_finds_its_old_place(twins: Twins) -> None:
    twins.enqueue(nodes("a", 3, "A", 1))
    twins.adopt([Running(node("late", "A", 1), 1_000_000, LEASE_MS)])
    twins.enqueue(nodes("b", 3, "A", 1))
    twins.now_ms = LEASE_MS
    assert twins.reclaim() == ["late"]
    twins.check()
    assert drain(twins) == ["a0", "a1", "a2", "late", "b0", "b1", "b2"]


class TestExplain:
    def test_it_counts_a_users_nodes_before(self, twins: Twins) -> None:
        waiting = [one.node_id for one in nodes("n", 40, "A", 1)]
        twins.enqueue(nodes("n", 40, "A", 1))
        twins.end(twins.dispatch(1))
        twins.cancel([waiting[20]])
        for place, name in enumerate(waiting):
            found = twins.queue.explain(name, now_ms=0).detail
            if place in (0, 20):
                assert found == {"state": "unknown"}
            else:
                assert found["before_of_user"] == found["before_of_tenant"] == place - 1 - (place > 20)

    def test_it_counts_a_tenants_nodes_before(self, twins: Twins) -> None:
        """With equal costs, what goes before a node is what explain says."""
        high, low = Priority.HIGH, Priority.LOW
        twins.enqueue([*nodes("u", 7, "A", 5, user="u"), *nodes("v", 3, "A", 5, user="v")])
        twins.enqueue([*nodes("w", 2, "A", 5, user="w", priority=low), *nodes("h", 2, "A", 5, user="v", priority=high)])
        twins.enqueue([*nodes("z", 4, "A", 5, user="z"), node("low", "A", 5, user="u", priority=low)])
        found = {name: twins.queue.explain(name, now_ms=0).detail for name in list(twins.oracle.waiting)}
        assert {found[name]["priority"] for name in ("h0", "u0", "w1")} == {"HIGH", "NORMAL", "LOW"}
        order = drain(twins)
        assert [found[name]["before_of_tenant"] for name in order] == pytest.approx(list(range(len(order))), abs=2)
        assert [found[name]["before_of_tenant"] for name in ("h0", "h1")] == [0, 1]


def test_snapshot_in_parts_has_every_node_once(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    twins.enqueue([*nodes("a", 250, "A", 1), *nodes("b", 25, "B", 1), *nodes("c", 9, "A", 1, user="v")])
    twins.end(twins.dispatch(1))
    monkeypatch.setattr(module, "LOAD_CHUNK", 1)
    monkeypatch.setattr(module, "SCAN_COUNT", 3)
    assert twins.queue.snapshot().waiting == [waiting.node for waiting in twins.oracle.waiting.values()]


@pytest.mark.parametrize("kind", ["nodes", "users", "pool"])
def test_deleted_keys_cost_a_rebuild(valkey: redis.Redis, kind: str) -> None:
    queue = FairQueue(valkey, "gpu")
    whole = Snapshot(ONE_SLOT.pool, ONE_SLOT.tenants, waiting=nodes("n", 5, "A", 1))
    queue.rebuild(whole, now_ms=0)
    valkey.delete(*valkey.scan_iter(f"{queue._part(kind)}*"))
    if kind != "pool":
        assert queue.dispatch(1, now_ms=0) == []
    with pytest.raises(StaleEpoch):
        queue.dispatch(1, now_ms=0)
    assert not queue.attach()
    queue.rebuild(whole, now_ms=0)
    assert len(queue.dispatch(1, now_ms=0)) == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enqueue", "dispatch", "end", "cancel", "back"]), st.integers(1, 40), st.integers(0, 999)
    ),
    min_size=20,
    max_size=60,
)


@pytest.mark.soak
@settings(max_examples=soaked(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_one_long_queue_keeps_the_oracles_order(valkey: redis.Redis, steps: list[tuple[str, int, int]]) -> None:
    twins = Twins(valkey, Snapshot(Pool(slots={"cutout": 9}), [TenantPolicy("A")]))
    names = itertools.count()
    for what, count, place in steps:
        waiting = list(twins.oracle.waiting)
        if what == "enqueue":
            priority = list(Priority)[place % 3]
            twins.enqueue([node(f"{next(names)}", "A", 1, priority=priority) for _ in range(count)])
        elif what == "dispatch":
            twins.dispatch(count % 5)
        elif what == "end":
            twins.complete([Completion(name) for name in list(twins.oracle.running)[: count % 5]], dispatch=count % 3)
        elif what == "cancel" and waiting:
            twins.cancel([waiting[(place + i * count) % len(waiting)] for i in range(5)])
        elif what == "back":
            twins.now_ms += LEASE_MS
            twins.reclaim()
        twins.check()
    drain(twins)


def test_thousands_leave_in_one_call(twins: Twins) -> None:
    twins.enqueue(nodes("n", 3_000, "A", 1))
    assert twins.cancel([f"n{i}" for i in range(3_000)]) == [Cancelled.CANCELLED] * 3_000
    twins.check()
