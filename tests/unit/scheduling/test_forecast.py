"""The forecast from counts against the scheduler itself, run forward node by node."""

from __future__ import annotations

import heapq
import json
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from artiway.scheduling.forecast import Demand, Forecast, Speed, compute
from artiway.scheduling.model import (
    Backlog,
    Completion,
    Lane,
    Node,
    Pool,
    Snapshot,
    TenantBacklog,
    TenantPolicy,
    Track,
    TrackBacklog,
    WaitingFor,
    microseconds,
)
from artiway.scheduling.oracle import Oracle
from tests.conftest import soaked

CUTOUT = Track("cutout", "vip_short")
LONGEST_S = 6
POOLS = soaked(120)


def backlog_of(oracle: Oracle) -> Backlog:
    tenants = {}
    for name, tenant in oracle.tenants.items():
        rows: dict[Track, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        for waiting in oracle.waiting.values():
            if waiting.node.tenant_id == name:
                rows[waiting.node.track][0] += 1
                rows[waiting.node.track][1] += oracle.expected_cost_us(waiting.node)
        for _, run in oracle.running.values():
            if run.node.tenant_id == name:
                rows[run.node.track][2] += 1
                rows[run.node.track][3] += run.charged_us
        heads = {track: head.tag + oracle.lag[track] for track, head in tenant.heads.items()}
        tracks = {t: TrackBacklog(row[0], row[1], heads.get(t), row[2], row[3]) for t, row in rows.items()}
        running = sum(row[2] for row in rows.values())
        tenants[name] = TenantBacklog(tenant.policy, tenant.last, tenant.credit, running, tracks)
    return Backlog(oracle.clock, oracle.pool, oracle.costs, tenants)


class Forecasts:
    """The forecast of each tenant, as a process reads it."""

    def __init__(self, oracle: Oracle, speed: Speed | None = None) -> None:
        self._made = compute(backlog_of(oracle), speed or Speed())

    def of(self, tenant_id: str) -> Forecast:
        tables, row = json.loads(json.dumps([self._made.tables, self._made.rows.get(tenant_id, {})]))
        return Forecast(tables, row)


def run_forward(oracle: Oracle, dice: random.Random) -> Iterator[tuple[Node, int, int, int]]:
    """Each node with its rank in its tenant and track, its position and its start. Running nodes are somewhere."""
    ends = [(dice.random() * oracle.expected_cost_us(run.node), name) for name, (_, run) in oracle.running.items()]
    heapq.heapify(ends)
    now, position = 0.0, 0
    ranks: dict[tuple[str, Track], int] = defaultdict(int)
    while True:
        for chosen in oracle.dispatch(1_000_000):
            node = chosen.node
            yield node, ranks[node.tenant_id, node.track], position, round(now)
            ranks[node.tenant_id, node.track] += 1
            position += 1
            heapq.heappush(ends, (now + oracle.expected_cost_us(node), node.node_id))
        if not ends:
            return
        now, ended = heapq.heappop(ends)
        oracle.complete([Completion(ended)])


def random_pool(dice: random.Random, *, tracks: int) -> Oracle:
    """Up to eight tenants with weights and caps, three types, a lane of half the pool, a limited model."""
    types = ["a", "b", "c"][: dice.randint(1, 3)]
    slots = {kind: dice.randint(1, 6) for kind in types}
    models = {"m": dice.randint(1, 4)} if dice.random() < 0.4 else {}
    total = sum(slots.values())
    capacity = None if dice.random() < 0.5 else dice.randint(max(1, total // 2), total)
    lanes = {"x": Lane("x"), "y": Lane("y", share_percent=50)}
    tenants = [
        TenantPolicy(f"t{n}", dice.choice([1, 1, 2, 5]), dice.choice([None, None, 1, 2, 4]))
        for n in range(dice.randint(1, 8))
    ]
    oracle = Oracle()
    oracle.load(Snapshot(Pool(slots, lanes, models, capacity), tenants))
    arrivals = []
    for tenant in tenants:
        lane = dice.choice("xy")
        for _ in range(dice.randint(1, tracks)):
            track = Track(dice.choice(types), lane, dice.choice(["", *models]))
            arrivals += [(tenant.tenant_id, track) for _ in range(dice.randint(1, 40))]
    dice.shuffle(arrivals)
    oracle.enqueue(
        Node(f"n{n}", tenant, "u", track, microseconds(dice.randint(2, LONGEST_S)))
        for n, (tenant, track) in enumerate(arrivals)
    )
    for _ in range(dice.randint(0, 30)):
        oracle.dispatch(100)
        if oracle.running and dice.random() < 0.8:
            oracle.complete([Completion(dice.choice(sorted(oracle.running)))])
    return oracle


@pytest.mark.parametrize(("tracks", "half", "most", "nearly_all"), [(1, 0.02, 0.15, 0.3), (3, 0.03, 0.2, 0.4)])
def test_forecast_is_near_the_exact_run(tracks: int, half: float, most: float, nearly_all: float) -> None:
    """The errors of 50, 95 and 99 % of all nodes, beside one node, as parts of the time and nodes until the pool is
    empty."""
    late, misplaced = [], []
    for seed in range(POOLS):
        dice = random.Random(seed)
        oracle = random_pool(dice, tracks=tracks)
        forecasts = Forecasts(oracle)
        known = {tenant_id: forecasts.of(tenant_id) for tenant_id in oracle.tenants}
        exact = list(run_forward(oracle, dice))
        drained_us = max((start for *_, start in exact), default=0) + microseconds(LONGEST_S)
        for node, rank, position, start_us in exact:
            found = known[node.tenant_id].start(node.track, rank)
            assert found is not None, (seed, node)
            late.append(max(0, abs(found.start_us - start_us) - microseconds(LONGEST_S)) / drained_us)
            misplaced.append(max(0, abs(found.position - position) - 1) / len(exact))
    for errors in (late, misplaced):
        errors.sort()
        assert errors[len(errors) // 2] <= half
        assert errors[len(errors) * 95 // 100] <= most
        assert errors[len(errors) * 99 // 100] <= nearly_all


def test_forecast_of_one_tenant_is_exact_arithmetic() -> None:
    oracle = Oracle()
    oracle.load(Snapshot(Pool({"cutout": 2}), [TenantPolicy("A")]))
    oracle.enqueue(Node(f"n{n}", "A", "u", CUTOUT, microseconds(4)) for n in range(102))
    oracle.dispatch(2)
    forecast = Forecasts(oracle).of("A")
    for rank in (0, 1, 10, 99):
        found = forecast.start(CUTOUT, rank)
        assert found is not None
        assert found.position == pytest.approx(rank, abs=1)
        assert found.start_us == pytest.approx(microseconds(2 * rank), abs=microseconds(4))


class TestBlocked:
    def forecast(self, pool: Pool, policy: TenantPolicy | None = None) -> Forecasts:
        tenant = policy or TenantPolicy("A")
        oracle = Oracle()
        oracle.load(Snapshot(pool, [tenant, TenantPolicy("B")]))
        oracle.enqueue([Node("a", "A", "u", CUTOUT, 1), Node("b", "B", "u", Track("cutout", "other"), 1)])
        return Forecasts(oracle)

    def test_node_of_paused_lane_has_no_start(self) -> None:
        forecast = self.forecast(Pool({"cutout": 1}, {"vip_short": Lane("vip_short", is_paused=True)}))
        assert forecast.of("A").start(CUTOUT, 0) is None
        assert forecast.of("A").blocked_by(CUTOUT) is WaitingFor.LANE_PAUSED
        assert forecast.of("A").arrival(CUTOUT, cost_us=1, weight=1) is None
        assert forecast.of("B").start(Track("cutout", "other"), 0) is not None

    @pytest.mark.parametrize("pool", [Pool({}), Pool({"cutout": 0}), Pool({"cutout": 1}, capacity=0)])
    def test_node_without_worker_has_no_start(self, pool: Pool) -> None:
        forecast = self.forecast(pool)
        assert forecast.of("A").start(CUTOUT, 0) is None
        assert forecast.of("A").blocked_by(CUTOUT) is WaitingFor.NO_WORKER

    def test_node_of_model_without_slots_has_none(self) -> None:
        track = Track("cutout", "vip_short", "m")
        forecast = self.forecast(Pool({"cutout": 1}, models={"m": 0}))
        assert forecast.of("A").start(track, 0) is None
        assert forecast.of("A").blocked_by(track) is WaitingFor.MODEL_CAP

    @pytest.mark.parametrize("limit", [0, 1])
    def test_node_of_stopped_step_has_no_start(self, limit: int) -> None:
        stopped, other = Track("cutout", "vip_short", "", "cutout"), Track("cutout", "vip_short", "", "crop")
        forecast = self.forecast(Pool({"cutout": 1}, steps={"cutout": limit}))
        assert forecast.of("A").start(stopped, 0) is None
        assert forecast.of("A").blocked_by(stopped) is WaitingFor.CIRCUIT_OPEN
        assert forecast.of("A").start(other, 0) is not None

    def test_suspended_tenant_has_no_start(self) -> None:
        forecast = self.forecast(Pool({"cutout": 1}), TenantPolicy("A", cap=0))
        assert forecast.of("A").start(CUTOUT, 0) is None
        assert forecast.of("B").start(Track("cutout", "other"), 0) is not None


def test_measured_speed_scales_the_start() -> None:
    oracle = Oracle()
    oracle.load(Snapshot(Pool({"cutout": 1}), [TenantPolicy("A")]))
    oracle.enqueue(Node(f"n{n}", "A", "u", CUTOUT, microseconds(6)) for n in range(11))
    oracle.dispatch(1)
    slow, fast = (Forecasts(oracle, Speed({"cutout": scale})).of("A").start(CUTOUT, 9) for scale in (1.0, 0.25))
    assert slow is not None
    assert fast is not None
    assert fast.start_us == pytest.approx(slow.start_us / 4, rel=0.01)
    assert fast.position == slow.position


@pytest.mark.parametrize(("nodes", "completed_s", "expected"), [(9, 12, 10), (9, 0, 1), (0.5, 12, 1), (9, 999, 1)])
def test_lost_slots_slow_the_type_down(nodes: float, completed_s: int, expected: float) -> None:
    """Nodes of 12 s in 120 s: one slot that was wanted all the time got a tenth of it done."""
    window = Demand(nodes, microseconds(completed_s), microseconds(120))
    assert Speed(prefetch=1, demand={"cutout": window}).scale_with("cutout", 2) ** 2 == pytest.approx(expected)


def test_prefetched_nodes_do_not_run_yet() -> None:
    """Two are dispatched to a worker with one slot: the third starts when both have ended."""
    oracle = Oracle()
    oracle.load(Snapshot(Pool({"cutout": 2}, capacity=2), [TenantPolicy("A")]))
    oracle.enqueue(Node(f"n{n}", "A", "u", CUTOUT, microseconds(6)) for n in range(3))
    oracle.dispatch(2)
    found = Forecasts(oracle, Speed(prefetch=1)).of("A").start(CUTOUT, 0)
    assert found is not None
    assert microseconds(6) < found.start_us <= microseconds(12)


def test_later_arrival_waits_for_less() -> None:
    oracle = Oracle()
    oracle.load(Snapshot(Pool({"cutout": 1}), [TenantPolicy("A"), TenantPolicy("B")]))
    oracle.enqueue(Node(f"n{n}", "A", "u", CUTOUT, microseconds(6)) for n in range(5))
    oracle.dispatch(1)
    forecast = Forecasts(oracle)
    waits = []
    for after_s in (0, 12, 60):
        found = forecast.of("B").arrival(CUTOUT, cost_us=microseconds(6), weight=1, after_us=microseconds(after_s))
        assert found is not None
        waits.append(found.start_us - microseconds(after_s))
    assert waits[0] > 0
    assert waits[2] == 0
    own = forecast.of("A").arrival(CUTOUT, cost_us=microseconds(6), weight=1)
    assert own is not None
    assert own.start_us > microseconds(18)
