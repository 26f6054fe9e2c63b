"""A process may crash between any two effects. One run collects the points; then one run crashes at each of them."""

from __future__ import annotations

import contextlib

import pytest

from tests.integration.tasks.test_calls import submit
from tests.simulation.chaos import Crash
from tests.simulation.world import MANAGER, World, flow, http_node

SEED = 9
SHARDS = 4  # for as many processes
# All actors of the run. A new actor must be listed, or its crashes would not be tested.
ACTORS = {"submit", "lane", "work", "progress", "run_calls", "settle", "relay", "quick sweep", "cancel"}


def play(world, crash_at=None):
    """Two tasks: one fails once and then succeeds with a call, one is cancelled while it runs. A crashed process is
    replaced."""
    world.use_fair_queue()
    world.worker(slots=8)
    tenant = world.tenant(points=1_000)
    world.chaos.crash_at = crash_at
    world.chaos.refuse = 0.15  # so that the relay has messages to send
    tasks = []
    for nodes in ([*flow("a", "a>b"), http_node("notify", "a", body="{{nodes.a.url}}")], flow("x", "x>y")):
        world.chaos.act("submit")
        with contextlib.suppress(Crash):
            tasks.append(submit(world, tenant, nodes))
    has_failed = False
    for turn in range(45):
        world.deliver_one()
        worker = world.workers[0]
        if worker.held and turn % 3 == 2:
            holding = worker.held[0]
            if holding.order["name"] == "a" and not has_failed:
                has_failed = True
                world.fail(worker, holding, is_retryable=True)
            elif holding.order["name"] != "y":
                world.report(worker, holding, "progress", progress=50)
                world.finish(worker, holding)
        if turn % 15 == 14:
            world.advance(31)
            world.beat()
            world.sweep()
    world.chaos.act("cancel")
    with contextlib.suppress(Crash, IndexError):  # without a task if the submission crashed
        world.tasks.cancel(tenant_id=tenant[0], task_id=tasks[-1].task_id, requester=MANAGER)
    return tenant


@pytest.fixture(scope="module")
def points(make_addresses, valkey_url):
    """Every point of the run, in order."""
    import redis

    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        client.flushall()
        world = World(make_addresses("crash_points"), client, seed=SEED)
        with contextlib.closing(world):
            play(world)
            world.run_to_end()
            points = list(world.chaos.points)
            world.assert_invariants()
            return points


def test_run_passes_points_of_all_actors(points):
    assert {point.partition(": ")[0].rpartition(" ")[0] for point in points} >= ACTORS
    effects = {point.partition(": ")[2] for point in points}
    assert {"before commit", "after commit", "before event stream", "before progress stream"} <= effects
    assert {f"before message to {kind}" for kind in ("machine", "lane", "work", "push")} <= effects


@pytest.mark.parametrize("shard", range(SHARDS))
def test_crash_at_any_point_loses_nothing(addresses, valkey, points, subtests, shard):
    for number, point in enumerate(points[shard::SHARDS]):
        world = World(addresses, valkey, seed=SEED)
        with contextlib.closing(world), subtests.test(point):
            valkey.flushall()
            tenant = play(world, crash_at=point)
            world.run_to_end()
            balance, frozen = world.balance(*tenant)
            assert frozen == 0
            charged = world.rows(
                "SELECT coalesce(sum(charged_points), 0) AS points FROM task WHERE tenant_id = %s", tenant[0]
            )
            assert balance == 1_000 - charged[0]["points"]
            assert world.rows("SELECT 1 FROM slot_in_use") == []
            if number % 10 == 0:
                world.assert_invariants()
    world = World(addresses, valkey, seed=SEED)
    with contextlib.closing(world):
        world.assert_invariants()
