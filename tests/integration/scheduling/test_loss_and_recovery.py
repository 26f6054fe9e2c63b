"""Redis may go at any moment and a scheduler may die between any two steps: nothing is lost, nothing goes twice."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pytest
import redis

from artiway.scheduling import scripts
from artiway.scheduling.keys import Keys
from artiway.scheduling.model import (
    CLOCK_LIMIT_US,
    Cancelled,
    Completion,
    Ended,
    Node,
    Pool,
    Running,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
    TooManyTracks,
    Track,
    UnknownTenant,
    microseconds,
)
from artiway.scheduling.oracle import Oracle
from artiway.scheduling.queue import FairQueue
from tests.conftest import soaked
from tests.integration.scheduling.support import LEASE_MS, Twins, node, nodes

POOL = Pool(slots={"cutout": 4})


def test_verbs_without_an_epoch_write_nothing(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    assert not queue.attach()
    calls = [
        lambda: queue.enqueue([node("n", "A", 1)], now_ms=0, policies=[TenantPolicy("A")]),
        lambda: queue.dispatch(1, now_ms=0),
        lambda: queue.complete([Completion("n")], now_ms=0, dispatch=1),
        lambda: queue.cancel(["n"], now_ms=0),
        lambda: queue.reclaim(now_ms=0),
        lambda: queue.adopt([Running(node("n", "A", 1), 1)], now_ms=0),
        lambda: queue.set_tenants([TenantPolicy("A")], now_ms=0),
        lambda: queue.set_user_cap("A", "u", 1, now_ms=0),
        lambda: queue.set_slots({"cutout": 1}, now_ms=0),
        lambda: queue.pause_lane("vip_short", now_ms=0),
        lambda: queue.explain("n", now_ms=0),
    ]
    for call in calls:
        with pytest.raises(StaleEpoch):
            call()
    assert valkey.dbsize() == 0


def test_older_epoch_is_stale_until_attached_again(valkey: redis.Redis) -> None:
    mine, yours = FairQueue(valkey, "gpu"), FairQueue(valkey, "gpu")
    mine.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    assert yours.attach()
    yours.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 3, "A", 1)), now_ms=0)
    with pytest.raises(StaleEpoch):
        mine.dispatch(1, now_ms=0)
    assert mine.attach()
    assert len(mine.dispatch(9, now_ms=0)) == 3


def test_rebuild_deletes_the_old_epoch(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    old = queue.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 30, "A", 1)), now_ms=0)
    queue.dispatch(3, now_ms=0)
    new = queue.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    assert old != new
    assert not [key for key in valkey.scan_iter() if old in key]
    assert valkey.get(Keys("gpu").loading) is None


def test_leftovers_of_a_crashed_rebuild_are_swept(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process died while it loaded: nothing was committed, nothing was deleted."""
    whole = Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 2500, "A", 1))
    dying, next_one = FairQueue(valkey, "gpu"), FairQueue(valkey, "gpu")
    with monkeypatch.context() as patch:
        patch.setattr(dying, "sweep", lambda: 0)
        patch.setattr(dying, "_run", stop_after(dying._run, calls=4))
        with pytest.raises(KeyboardInterrupt):
            dying.rebuild(whole, now_ms=0)
    left = {key for key in valkey.scan_iter() if dying.epoch in key}
    assert left
    next_one.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    assert not [key for key in valkey.scan_iter() if dying.epoch in key]
    assert next_one.sweep() == 0


def stop_after(act: Callable[..., str], *, calls: int) -> Callable[..., str]:
    left = itertools.repeat(act, calls)

    def run(*arguments: str | int) -> str:
        if (one := next(left, None)) is None:
            raise KeyboardInterrupt
        return one(*arguments)

    return run


def test_lost_race_for_a_rebuild_rebuilds_nothing(valkey: redis.Redis) -> None:
    """Both found the queue lost. The second one comes when the first has finished."""
    first, second = FairQueue(valkey, "gpu"), FairQueue(valkey, "gpu")
    first.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    assert second.attach()
    first.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    with pytest.raises(StaleEpoch):
        second.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    assert second.attach()
    assert second.epoch == first.epoch


def test_later_of_two_rebuilds_wins_whole(valkey: redis.Redis) -> None:
    first, second = FairQueue(valkey, "gpu"), FairQueue(valkey, "gpu")

    class Interrupting(list[Node]):
        """The second rebuild runs from start to end while the first is loading its nodes."""

        def __iter__(self):
            second.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("b", 2, "A", 1)), now_ms=0)
            return super().__iter__()

    with pytest.raises(StaleEpoch):
        first.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=Interrupting(nodes("a", 5, "A", 1))), now_ms=0)
    assert first.attach()
    assert {one.node.node_id for one in first.dispatch(9, now_ms=0)} == {"b0", "b1"}


def test_pools_have_one_hash_tag_each(valkey: redis.Redis) -> None:
    gpu, enterprise = FairQueue(valkey, "gpu"), FairQueue(valkey, "enterprise")
    gpu.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 3, "A", 1)), now_ms=0)
    enterprise.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    gpu.dispatch(1, now_ms=0)
    assert enterprise.dispatch(9, now_ms=0) == []
    tags = {key[: key.index("}") + 1] for key in valkey.scan_iter()}
    assert tags == {Keys("gpu").tag, Keys("enterprise").tag}


def test_unconfirmed_node_returns_to_its_old_place(valkey: redis.Redis) -> None:
    twins = Twins(valkey, Snapshot(POOL, [TenantPolicy("A", cap=2), TenantPolicy("B")]))
    twins.enqueue([*nodes("a", 4, "A", 5), *nodes("b", 2, "B", 5)])
    taken = [one.node.node_id for one in twins.dispatch(2)]
    assert taken == ["a0", "b0"]
    twins.confirm(["b0"])
    twins.now_ms += LEASE_MS - 1
    assert twins.reclaim() == []
    twins.now_ms += 1
    assert twins.reclaim() == ["a0"]
    twins.check()
    assert twins.queue.running_ids() == {"b0"}
    assert [one.node.node_id for one in twins.dispatch(9)] == ["a0", "b1", "a1"]  # b1 became head before a1
    assert twins.reclaim() == []


def test_confirmed_node_stays_taken(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu", lease_ms=LEASE_MS)
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 3, "A", 1)), now_ms=0)
    queue.dispatch(3, now_ms=0)
    queue.complete([Completion("a0")], now_ms=0, confirmed=["a0", "a1", "nobody"])
    assert queue.reclaim(now_ms=LEASE_MS) == ["a2"]


def test_reclaimed_node_is_not_charged_twice(valkey: redis.Redis) -> None:
    """One tenant's dispatches are lost again and again; it still gets half of what is really run."""
    twins = Twins(valkey, Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("unlucky"), TenantPolicy("lucky")]))
    twins.enqueue([*nodes("u", 60, "unlucky", 5), *nodes("l", 60, "lucky", 5)])
    ran: Counter[str] = Counter()
    for turn in range(120):
        for one in twins.dispatch(1):
            if one.node.tenant_id == "unlucky" and turn % 3:
                twins.now_ms += LEASE_MS
                twins.reclaim()
            else:
                ran[one.node.tenant_id] += 1
                twins.end([one])
    assert abs(ran["lucky"] - ran["unlucky"]) <= 2


def test_ending_a_node_twice_frees_its_slot_once(valkey: redis.Redis) -> None:
    twins = Twins(valkey, Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("A", cap=1)]))
    twins.enqueue(nodes("a", 5, "A", 1))
    (first,) = twins.dispatch(1)
    (second,) = twins.end([first, first], dispatch=5)
    assert twins.queue.complete([Completion(first.node.node_id)], now_ms=0, dispatch=5).ended == (Ended.NOT_RUNNING,)
    assert twins.queue.running_ids() == {second.node.node_id}


def test_cancel_names_running_and_unknown_nodes(valkey: redis.Redis) -> None:
    twins = Twins(valkey, Snapshot(Pool(slots={"cutout": 1}), [TenantPolicy("A")]))
    twins.enqueue(nodes("a", 3, "A", 1))
    twins.dispatch(1)
    assert twins.cancel(["a0", "a1", "nobody", "a1"]) == [
        Cancelled.RUNNING,
        Cancelled.CANCELLED,
        Cancelled.UNKNOWN,
        Cancelled.UNKNOWN,
    ]


def test_unknown_tenant_is_refused_and_nothing_written(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    with pytest.raises(UnknownTenant) as refused:
        queue.enqueue([node("a", "A", 1), node("x", "X", 1)], now_ms=0)
    assert refused.value.tenant_ids == ("X",)
    assert queue.dispatch(9, now_ms=0) == []
    queue.enqueue([node("a", "A", 1), node("x", "X", 1)], now_ms=0, policies=[TenantPolicy("X", 3)])
    assert len(queue.dispatch(9, now_ms=0)) == 2


def test_too_many_tracks_are_refused(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    with pytest.raises(TooManyTracks):
        queue.enqueue([node(f"n{i}", "A", 1, model=f"m{i}") for i in range(257)], now_ms=0)
    assert queue.waiting_by_track() == {}


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("enqueue", ["A|1||", "n|A|u|cutout|vip_short|||1", "", "0", "30000"]),
        ("enqueue", ["A|0||", "n|A|u|cutout|vip_short|||5|1", "", "0", "30000"]),
        ("enqueue", ["A|1|-1|", "n|A|u|cutout|vip_short|||5|1", "", "0", "30000"]),
        ("enqueue", ["A|1||", "n|A|u|cutout|vip_short|||5|3", "", "0", "30000"]),
        ("enqueue", ["A|1||", "n|A|u|cutout|vip_short|||5|1", "", "all", "30000"]),
        ("dispatch", ["-1", "30000"]),
        ("dispatch", ["1", "soon"]),
        ("complete", ["1", "30000", "n|fast", ""]),
        ("set_tenants", ["A|5||", "A|-4"]),
        ("set_user", ["A", "u", "many"]),
        ("configure", ["slots:cutout|-1"]),
        ("configure", ["seq|0"]),
        ("adopt", ["n|A|u|cutout|vip_short|||5|1|5"]),
        ("reclaim", ["0.5"]),
    ],
)
def test_malformed_argument_changes_nothing(valkey, verb: str, arguments: list[str]) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 2, "A", 1)), now_ms=0)
    before = {key: valkey.dump(key) for key in valkey.scan_iter()}
    with pytest.raises(redis.ResponseError, match="INVALID"):
        scripts.run(valkey, verb, Keys("gpu").of(queue.epoch), queue.epoch, 0, *arguments)
    assert {key: valkey.dump(key) for key in valkey.scan_iter()} == before


def test_clock_near_its_end_asks_for_rebuild(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    snapshot = Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 3, "A", 1), clock_us=CLOCK_LIMIT_US - 1)
    queue.rebuild(snapshot, now_ms=0)
    assert len(queue.dispatch(2, now_ms=0)) == 2
    with pytest.raises(StaleEpoch):
        queue.dispatch(1, now_ms=0)
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("a", 3, "A", 1)), now_ms=0)
    assert len(queue.dispatch(9, now_ms=0)) == 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(soaked(8)))
def test_flush_costs_a_rebuild_within_the_bound(valkey: redis.Redis, seed: int) -> None:
    """The database remembers nodes, slots and tags. Across the flush, service per weight stays within the bound."""
    dice = random.Random(seed)
    weights = {"t1": 1, "t2": 2, "t3": 5}
    policies = [TenantPolicy(name, weight) for name, weight in weights.items()]
    waiting = {
        f"{name}-{i}": Node(f"{name}-{i}", name, "u", Track("cutout", "vip_short"), microseconds(dice.randint(1, 30)))
        for i in range(150)
        for name in weights
    }
    dearest = {name: max(n.cost_us for n in waiting.values() if n.tenant_id == name) for name in weights}
    running: dict[str, Running] = {}
    last: dict[str, int] = {}
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, policies, waiting=list(waiting.values())), now_ms=0)
    level = dict.fromkeys(weights, 0.0)
    spread = {(i, j): [0.0] for i in weights for j in weights}
    flushes, dispatched = 0, 0
    while all(any(n.tenant_id == name for n in waiting.values()) for name in weights):
        if dice.random() < 0.04:
            flushes += 1
            valkey.flushall()
            with pytest.raises(StaleEpoch):
                queue.dispatch(1, now_ms=0)
            clock = max(last.values(), default=0)
            snapshot = Snapshot(POOL, policies, {}, list(running.values()), list(waiting.values()), clock, last)
            queue.rebuild(snapshot, now_ms=0)
            assert queue.running_ids() == set(running)
        for one in queue.dispatch(dice.randint(1, 3), now_ms=0):
            assert one.node.node_id not in running
            running[one.node.node_id] = Running(waiting.pop(one.node.node_id), one.charged_us)
            name = one.node.tenant_id
            last[name] = one.tag_us
            level[name] += one.charged_us / weights[name]
            dispatched += 1
            for pair, gaps in spread.items():
                gaps.append(level[pair[0]] - level[pair[1]])
        ended = dice.choice(list(running))
        del running[ended]
        queue.complete([Completion(ended)], now_ms=0)
    assert flushes
    for (i, j), gaps in spread.items():
        assert max(gaps) - min(gaps) <= dearest[i] / weights[i] + dearest[j] / weights[j] + dispatched


def test_hundred_thousand_nodes_are_rebuilt_in_order(valkey: redis.Redis) -> None:
    weights = {f"t{i}": 1 + i % 5 for i in range(500)}
    tracks = [Track("cutout", "vip_short"), Track("model", "vip_short", "sdxl"), Track("model", "free_default")]
    waiting = [
        Node(f"n{i}", f"t{i * 7919 % 500}", f"u{i % 3}", tracks[i % 3], microseconds(1 + i % 11))
        for i in range(100_000)
    ]
    pool = Pool(slots={"cutout": 50, "model": 50})
    snapshot = Snapshot(pool, [TenantPolicy(n, w) for n, w in weights.items()], waiting=waiting)
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(snapshot, now_ms=0)
    assert sum(queue.waiting_by_track().values()) == 100_000
    assert queue.snapshot().waiting == waiting
    oracle = Oracle()
    oracle.load(snapshot)
    assert queue.dispatch(100, now_ms=0) == oracle.dispatch(100)
