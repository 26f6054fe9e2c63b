"""A long backlog waits as text: the same is done to it, and little is left for Lua's collector to walk through."""

from __future__ import annotations

import itertools

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artiway.scheduling import queue as module
from artiway.scheduling.model import Cancelled, Completion, Enqueued, Pool, Running, Snapshot, StaleEpoch, TenantPolicy
from artiway.scheduling.queue import FairQueue
from tests.conftest import soaked
from tests.integration.scheduling.support import LEASE_MS, Twins, node, nodes

ONE_SLOT = Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("A"), TenantPolicy("B")])
LONG = "x" * 60  # some fourteen of these fill a chunk


def long_nodes(prefix: str, count: int, tenant: str = "A", **track: str) -> list:
    return [node(f"{prefix}{i}-{LONG}", tenant, 1, **track) for i in range(count)]


@pytest.fixture
def twins(valkey: redis.Redis) -> Twins:
    return Twins(valkey, ONE_SLOT, table_limit=0)


def drain(twins: Twins) -> list[str]:
    order = []
    while chosen := twins.dispatch(1):
        order.append(chosen[0].node.node_id)
        twins.end(chosen)
    twins.check()
    return order


def test_beyond_the_limit_only_the_first_of_each_line_is_a_table(valkey: redis.Redis) -> None:
    twins = Twins(valkey, ONE_SLOT, table_limit=100)
    for user in ("u1", "u2", "u3"):
        twins.enqueue(nodes(user, 1_000, "A", 1, user=user))
    assert twins.queue.waiting_forms() == (102, 2_898)
    for _ in range(500):
        twins.end(twins.dispatch(1))
    tables, texts = twins.queue.waiting_forms()
    assert tables <= 102
    assert tables + texts == 2_500
    twins.enqueue(nodes("more", 3, "A", 1, user="u1"))  # behind text they are text, however few tables there are
    assert twins.queue.waiting_forms() == (tables, texts + 3)
    twins.check()


def test_text_is_served_in_order_of_arrival_through_every_chunk(twins: Twins) -> None:
    waiting = long_nodes("n", 95)
    for part in range(0, 95, 10):
        twins.enqueue(waiting[part : part + 10])
    assert drain(twins) == [one.node_id for one in waiting]
    assert twins.queue.waiting_forms() == (0, 0)


@pytest.mark.parametrize("step", [2, 3, 11])
def test_what_is_cancelled_leaves_from_wherever_it_stands(twins: Twins, step: int) -> None:
    waiting = [one.node_id for one in long_nodes("n", 60)]
    twins.enqueue(long_nodes("n", 60))
    assert set(twins.cancel(waiting[::step])) == {Cancelled.CANCELLED}
    assert set(twins.cancel(waiting[::step])) == {Cancelled.UNKNOWN}
    twins.check()
    assert drain(twins) == [name for place, name in enumerate(waiting) if place % step]


def test_whole_chunks_that_are_cancelled_are_passed_over(twins: Twins) -> None:
    waiting = [one.node_id for one in long_nodes("n", 60)]
    twins.enqueue(long_nodes("n", 60))
    twins.cancel(waiting[5:55])
    assert twins.queue.explain(waiting[55], now_ms=0).detail["before_of_user"] == 5
    assert drain(twins) == waiting[:5] + waiting[55:]
    twins.enqueue(long_nodes("m", 30))
    twins.cancel([one.node_id for one in long_nodes("m", 30)])
    assert twins.queue.waiting_forms() == (0, 0)
    twins.check()


def test_cancelling_one_twice_in_a_call_takes_it_once(twins: Twins) -> None:
    twins.enqueue(nodes("n", 5, "A", 1))
    assert twins.cancel(["n3", "n3", "n0", "n0", "n1", "n1"]) == [Cancelled.CANCELLED, Cancelled.UNKNOWN] * 3
    assert drain(twins) == ["n2", "n4"]


def test_a_node_that_waits_as_text_is_known_and_stays_where_it_is(twins: Twins) -> None:
    twins.enqueue(nodes("n", 4, "A", 1))
    assert twins.enqueue(nodes("n", 5, "A", 1)) == [Enqueued.DUPLICATE] * 4 + [Enqueued.QUEUED]
    again = [*nodes("m", 2, "A", 1), *nodes("m", 2, "A", 1)]
    assert twins.enqueue(again) == [Enqueued.QUEUED] * 2 + [Enqueued.DUPLICATE] * 2
    twins.adopt([Running(node("n3", "A", 1), 1_000_000)])
    twins.check()
    assert drain(twins) == ["n0", "n1", "n2", "n3", "n4", "m0", "m1"]


def test_a_node_that_ran_may_wait_again_beside_its_old_record(twins: Twins) -> None:
    """A retry has the id of the first try, and what is read of a chunk stays in it until all of it is."""
    twins.enqueue(nodes("n", 6, "A", 1))
    for _ in range(3):
        twins.end(twins.dispatch(1))
    twins.enqueue([node("n1", "A", 1), node("n2", "A", 1)])
    assert twins.queue.explain("n2", now_ms=0).detail["before_of_user"] == 4
    assert twins.cancel(["n1"]) == [Cancelled.CANCELLED]
    assert drain(twins) == ["n3", "n4", "n5", "n2"]


def test_one_that_comes_back_finds_its_old_place_among_text(twins: Twins) -> None:
    twins.enqueue(nodes("a", 3, "A", 1))
    twins.adopt([Running(node("late", "A", 1), 1_000_000, LEASE_MS)])
    twins.enqueue(nodes("b", 3, "A", 1))
    twins.now_ms = LEASE_MS
    assert twins.reclaim() == ["late"]
    twins.check()
    assert drain(twins) == ["a0", "a1", "a2", "late", "b0", "b1", "b2"]


def test_explain_counts_who_is_before_a_node_in_any_chunk(twins: Twins) -> None:
    waiting = [one.node_id for one in long_nodes("n", 40)]
    twins.enqueue(long_nodes("n", 40))
    twins.end(twins.dispatch(1))
    twins.cancel([waiting[20]])
    for place, name in enumerate(waiting):
        found = twins.queue.explain(name, now_ms=0).detail
        if place in (0, 20):
            assert found == {"state": "unknown"}
        else:
            assert found["before_of_user"] == place - 1 - (place > 20)


@pytest.mark.parametrize("part", [1, 3, 7])
def test_a_snapshot_in_parts_has_every_node_once(twins: Twins, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    twins.enqueue([*long_nodes("a", 25), *long_nodes("b", 25, "B"), *long_nodes("c", 9, user="v"), *long_nodes("d", 5)])
    twins.end(twins.dispatch(1))
    monkeypatch.setattr(module, "LOAD_CHUNK", part)
    assert twins.queue.snapshot().waiting == [waiting.node for waiting in twins.oracle.waiting.values()]


def test_reading_goes_on_in_a_line_that_began_anew_meanwhile(twins: Twins) -> None:
    twins.enqueue(nodes("n", 4, "A", 1))
    _, *lines = twins.queue._run("waiting", 0, 100, "A", "A|u|1|2|99").split(
        "\n"
    )  # from its 99th chunk, of which there is one
    assert [line.split("|")[1] for line in lines] == ["n2", "n3"]


def test_places_that_were_deleted_are_noticed_and_cost_a_rebuild(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu", table_limit=0)
    waiting = nodes("n", 5, "A", 1)
    queue.rebuild(Snapshot(ONE_SLOT.pool, ONE_SLOT.tenants, waiting=waiting), now_ms=0)
    valkey.delete(next(key for key in valkey.scan_iter() if "places" in str(key)))
    with pytest.raises(StaleEpoch):
        queue.enqueue(waiting, now_ms=0)
    assert not queue.attach()
    queue.rebuild(Snapshot(ONE_SLOT.pool, ONE_SLOT.tenants, waiting=waiting), now_ms=0)
    assert queue.enqueue(waiting, now_ms=0) == [Enqueued.DUPLICATE] * 5


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enqueue", "dispatch", "end", "cancel", "back"]), st.integers(1, 40), st.integers(0, 999)
    ),
    min_size=20,
    max_size=60,
)


@pytest.mark.soak
@settings(max_examples=soaked(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, table_limit=st.sampled_from([0, 10]))
def test_whatever_happens_to_one_long_line_its_order_is_the_oracles(
    valkey: redis.Redis, steps: list[tuple[str, int, int]], table_limit: int
) -> None:
    twins = Twins(valkey, Snapshot(Pool(slots={"cutout": 9}), [TenantPolicy("A")]), table_limit=table_limit)
    names = itertools.count()
    for what, count, place in steps:
        waiting = list(twins.oracle.waiting)
        if what == "enqueue":
            twins.enqueue([node(f"{next(names)}-{LONG}", "A", 1) for _ in range(count)])
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
