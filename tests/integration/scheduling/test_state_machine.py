"""Random scripts of operations keep the Lua and the oracle equal, in every answer and every clock."""

from __future__ import annotations

import itertools

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from artiway.scheduling.model import (
    Cancelled,
    Completion,
    Dispatched,
    Enqueued,
    Lane,
    Node,
    Pool,
    Priority,
    Running,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
    Track,
)
from tests.conftest import soaked
from tests.integration.scheduling.support import LEASE_MS, Twins

TENANTS = st.sampled_from(["t1", "t2", "t3"])
USERS = st.sampled_from(["u1", "u2"])
KINDS = st.sampled_from(["cutout", "model"])
LANES = st.sampled_from(["vip", "free"])
MODELS = st.sampled_from(["", "", "sdxl", "flux"])
STEPS = st.sampled_from(["", "scene", "style"])
TRACKS = st.builds(Track, KINDS, LANES, MODELS, STEPS)
COSTS = st.sampled_from([1, 2, 3, 7, 1_000_000, 6_000_000, 8_000_000, 34_000_000])
WEIGHTS = st.sampled_from([1, 2, 3, 5, 10])
CAPS = st.none() | st.integers(0, 3)
PRIORITIES = st.sampled_from([Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW])
READY = st.tuples(TENANTS, USERS, TRACKS, COSTS, PRIORITIES)


class Database:
    """What PostgreSQL would know: enough to rebuild the queue from."""

    def __init__(self) -> None:
        self.policies: dict[str, TenantPolicy] = {}
        self.user_caps: dict[tuple[str, str], int] = {}
        self.pool = Pool()
        self.waiting: dict[str, Node] = {}
        self.running: dict[str, Running] = {}
        self.last: dict[str, int] = {}

    def dispatched(self, chosen: list[Dispatched], now_ms: int) -> None:
        for one in chosen:
            del self.waiting[one.node.node_id]
            self.running[one.node.node_id] = Running(one.node, one.charged_us, now_ms + LEASE_MS)
            self.last[one.node.tenant_id] = max(self.last.get(one.node.tenant_id, 0), one.tag_us)

    def snapshot(self) -> Snapshot:
        known = self.pool
        pool = Pool(dict(known.slots), dict(known.lanes), dict(known.models), known.capacity, dict(known.steps))
        return Snapshot(
            pool,
            list(self.policies.values()),
            dict(self.user_caps),
            list(self.running.values()),
            list(self.waiting.values()),
            clock_us=max(self.last.values(), default=0),
            last_us=dict(self.last),
        )


class QueueMachine(RuleBasedStateMachine):
    client: redis.Redis

    @initialize(
        weights=st.lists(WEIGHTS, min_size=3, max_size=3),
        caps=st.lists(CAPS, min_size=3, max_size=3),
    )
    def begin(self, weights: list[int], caps: list[int | None]) -> None:
        self.client.flushall()
        self.names = itertools.count()
        self.known: list[str] = []
        self.database = Database()
        self.database.pool = Pool({"cutout": 3, "model": 2}, {"free": Lane("free", share_percent=50)}, {"flux": 1})
        for i, (weight, cap) in enumerate(zip(weights, caps, strict=True), 1):
            self.database.policies[f"t{i}"] = TenantPolicy(f"t{i}", weight, cap)
        self.twins = Twins(self.client, self.database.snapshot())

    @rule(ready=st.lists(READY, min_size=1, max_size=6), limit=st.sampled_from([0, 0, 1, 3]))
    def enqueue(self, ready: list[tuple[str, str, Track, int, Priority]], limit: int) -> None:
        batch = [Node(f"n{next(self.names)}", *row) for row in ready]
        admitted = self.twins.admit(batch, limit)
        assert admitted.enqueued == (Enqueued.QUEUED,) * len(batch)
        self.database.waiting |= {node.node_id: node for node in batch}
        self.database.dispatched(list(admitted.dispatched), self.twins.now_ms)
        self.known += [node.node_id for node in batch]

    @rule(pick=st.randoms(use_true_random=False))
    def enqueue_again(self, pick) -> None:
        known = [*self.database.waiting.values(), *(run.node for run in self.database.running.values())]
        if known:
            assert self.twins.enqueue([pick.choice(known)]) == [Enqueued.DUPLICATE]

    @rule(limit=st.integers(1, 4))
    def dispatch(self, limit: int) -> None:
        self.database.dispatched(self.twins.dispatch(limit), self.twins.now_ms)

    @rule(
        picks=st.lists(st.tuples(st.integers(0, 50), st.none() | COSTS), min_size=1, max_size=3),
        limit=st.integers(0, 3),
    )
    def complete(self, picks: list[tuple[int, int | None]], limit: int) -> None:
        running = list(self.database.running) or ["nobody"]
        ends = [Completion(running[place % len(running)], measured) for place, measured in picks]
        chosen = self.twins.complete(ends, limit)
        for end in ends:
            self.database.running.pop(end.node_id, None)
        self.database.dispatched(chosen, self.twins.now_ms)

    @rule(picks=st.lists(st.integers(0, 200), min_size=1, max_size=3))
    def cancel(self, picks: list[int]) -> None:
        ids = [self.known[place % len(self.known)] for place in picks] if self.known else ["nobody"]
        for node_id, verdict in zip(ids, self.twins.cancel(ids), strict=True):
            assert (self.database.waiting.pop(node_id, None) is not None) == (verdict is Cancelled.CANCELLED)

    @rule(tenant=TENANTS, weight=WEIGHTS, cap=CAPS, user_cap=CAPS)
    def change_tenant(self, tenant: str, weight: int, cap: int | None, user_cap: int | None) -> None:
        policy = TenantPolicy(tenant, weight, cap, user_cap)
        self.twins.set_tenant(policy)
        self.database.policies[tenant] = policy

    @rule(tenant=TENANTS, user=USERS, cap=CAPS)
    def change_user(self, tenant: str, user: str, cap: int | None) -> None:
        self.twins.set_user_cap(tenant, user, cap)
        self.database.user_caps.pop((tenant, user), None)
        if cap is not None:
            self.database.user_caps[tenant, user] = cap

    @rule(lane=LANES, is_paused=st.booleans())
    def pause(self, lane: str, is_paused: bool) -> None:
        self.twins.pause(lane, is_paused)
        self.database.pool = self.twins.oracle.pool

    @rule(lane=LANES, parallelism=st.none() | st.integers(0, 4), share=st.none() | st.integers(1, 100))
    def change_lane(self, lane: str, parallelism: int | None, share: int | None) -> None:
        self.twins.set_lane(lane, parallelism, share)
        self.database.pool = self.twins.oracle.pool

    @rule(
        kind=KINDS, count=st.integers(0, 5), limit=st.none() | st.integers(0, 2), capacity=st.none() | st.integers(1, 8)
    )
    def change_workers(self, kind: str, count: int, limit: int | None, capacity: int | None) -> None:
        self.twins.set_slots(kind, count)
        self.twins.set_model("flux", limit)
        self.twins.set_capacity(capacity)
        self.database.pool = self.twins.oracle.pool

    @rule(step=st.sampled_from(["scene", "style"]), limit=st.none() | st.integers(0, 1))
    def stop_step(self, step: str, limit: int | None) -> None:
        self.twins.set_step(step, limit)
        self.database.pool = self.twins.oracle.pool

    @rule(seconds=st.integers(1, 40), is_sent=st.booleans())
    def time_passes(self, seconds: int, is_sent: bool) -> None:
        if is_sent:
            self.twins.confirm(list(self.database.running))
            for node_id, run in self.database.running.items():
                self.database.running[node_id] = Running(run.node, run.charged_us)
        self.twins.now_ms += seconds * 1000
        for node_id in self.twins.reclaim():
            # The database has no record of the dispatch, so to it the node still waits where it did.
            back = self.database.running.pop(node_id).node
            waiting = {**self.database.waiting, node_id: back}
            self.database.waiting = dict(sorted(waiting.items(), key=lambda item: int(item[0][1:])))

    @rule()
    def lose_redis(self) -> None:
        self.client.flushall()
        with pytest.raises(StaleEpoch):
            self.twins.queue.dispatch(1, now_ms=self.twins.now_ms)
        assert self.client.dbsize() == 0
        self.twins.rebuild(self.database.snapshot())

    @invariant()
    def both_agree(self) -> None:
        self.twins.check()
        assert self.twins.oracle.waiting.keys() == self.database.waiting.keys()
        assert self.twins.oracle.running.keys() == self.database.running.keys()


@pytest.mark.soak
def test_random_operations_keep_lua_and_oracle_equal(valkey: redis.Redis) -> None:
    QueueMachine.client = valkey
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=soaked(200),
            stateful_step_count=50,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
