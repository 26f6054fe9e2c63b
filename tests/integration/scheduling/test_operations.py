"""Operations over a real PostgreSQL and a real Redis."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.outbox.repository import Outbox
from artiway.scheduling.dispatcher import Dispatcher
from artiway.scheduling.model import LaneChange, TenantPolicy
from artiway.scheduling.operations import OperationsService
from artiway.scheduling.queue import FairQueue
from artiway.scheduling.repository import PostgresSchedulingStore
from artiway.tasks import catalogue
from artiway.tasks.repository import PostgresNodes
from tests.fakes.nodes import Yard

pytestmark = pytest.mark.breaks_invariants("no task is paid for", "live_tasks_have_holds")

ACTOR = uuid4()


class Now:
    def now(self) -> datetime:
        return datetime.now(UTC)


@pytest.fixture
def yard(addresses):
    with contextlib.closing(Yard(addresses.superuser)) as yard:
        yield yard


@pytest.fixture
def platform(service_database, valkey):
    queues = {pool: FairQueue(valkey, pool) for pool in ("gpu", "enterprise")}
    store = PostgresSchedulingStore(
        service_database, AuditLog(), silence_s=3600, window_s=3600, samples=100, prefetch=0
    )
    nodes = PostgresNodes(service_database, Outbox(lambda *_: None))
    scheduler = Dispatcher(nodes, store, queues.__getitem__, Now())
    models = catalogue.load().models
    return scheduler, OperationsService(store, queues.__getitem__, scheduler, Now(), models, records=store)


def test_lanes_show_waiting_and_running_nodes(platform, yard):
    scheduler, operations = platform
    yard.worker(1)
    scheduler.ready(yard.task(yard.tenant(), 3))
    lanes = {lane.lane: lane for lane in operations.lanes()}
    assert (lanes["vip_short"].depth, lanes["vip_short"].running, lanes["vip_short"].is_paused) == (2, 1, False)
    assert (lanes["vip_long"].share_percent, lanes["enterprise_exclusive"].pool) == (50, "enterprise")
    assert len(lanes) == 14


def test_pause_and_resume_act_at_once(platform, yard):
    scheduler, operations = platform
    yard.worker(2)
    operations.change_lane("vip_short", LaneChange(is_paused=True), actor_id=ACTOR, reason="driver crash")
    nodes = yard.task(yard.tenant(), 2)
    assert scheduler.ready(nodes) == 0
    state = operations.change_lane("vip_short", LaneChange(parallelism=1), actor_id=ACTOR)
    assert (state.is_paused, state.parallelism, state.running) == (True, 1, 0)
    state = operations.change_lane("vip_short", LaneChange(is_paused=False), actor_id=ACTOR)
    assert (state.running, len(yard.dispatched(nodes))) == (1, 1)
    query = "SELECT action, target, actor_id, details->>'reason' FROM audit_log ORDER BY at"
    actions = yard.connection.execute(query).fetchall()
    assert actions == [("lane.changed", "vip_short", ACTOR, reason) for reason in ("driver crash", None, None)]


def test_unknown_lane_is_not_found(platform, yard):
    _, operations = platform
    with pytest.raises(NotFound):
        operations.change_lane("fast_lane", LaneChange(is_paused=True), actor_id=ACTOR)
    assert yard.connection.execute("SELECT count(*) FROM lane_setting").fetchone() == (0,)


def test_clocks_survive_the_loss_of_redis(platform, yard, valkey):
    scheduler, operations = platform
    yard.worker(1)
    tenant = yard.tenant("vip")
    scheduler.ready(yard.task(tenant, 2, cost_s=10))
    for _ in range(2):
        gpu = next(pool for pool in operations.pools() if pool.pool == "gpu")
        (state,) = gpu.tenants
        assert (state.policy.tenant_id, state.policy.weight, state.waiting, state.running) == (str(tenant), 5, 1, 1)
        assert (gpu.clock_us, state.last_us, gpu.slots["cutout"], gpu.running) == (2_000_000, 2_000_000, 1, 1)
        valkey.flushall()


def test_shares_of_service_are_reported_against_weights(platform, yard):
    scheduler, operations = platform
    yard.worker(6)
    a, b = yard.tenant("vip"), yard.tenant("free")
    scheduler.ready(yard.task(a, 10, cost_s=1) + yard.task(b, 10, cost_s=1, lane="free_default"))
    found = operations.fairness(pool="gpu", window_s=3600)
    service = {share.tenant_id: share.service_us for share in found.tenants}
    assert service == {str(a): 5_000_000, str(b): 1_000_000}


def test_what_if_changes_nothing(platform, yard, valkey):
    scheduler, operations = platform
    yard.worker(1)
    a, b = yard.tenant("free"), yard.tenant("free")
    nodes = yard.task(a, 10, cost_s=1, lane="free_default") + yard.task(b, 10, cost_s=1, lane="free_default")
    scheduler.ready(nodes)
    before = yard.states(nodes)
    heavier = [TenantPolicy(str(b), weight=9, cap=2)]
    outcomes = {o.tenant_id: o for o in operations.simulate(tenants=heavier, slots={}, window_s=3600)}
    assert outcomes[str(b)].after.mean_us < outcomes[str(b)].before.mean_us
    assert outcomes[str(a)].after.mean_us > outcomes[str(a)].before.mean_us
    more = {o.tenant_id: o for o in operations.simulate(tenants=[], slots={"gpu": {"cutout": 20}}, window_s=3600)}
    assert more[str(a)].after.mean_us < more[str(a)].before.mean_us
    assert yard.states(nodes) == before


def test_silent_workers_are_not_shown(platform, yard):
    _, operations = platform
    alive, silent = yard.worker(2), yard.worker(1)
    yard.connection.execute("UPDATE worker SET beat_at = now() - interval '2 hours' WHERE worker_id = %s", (silent,))
    assert [worker.worker_id for worker in operations.workers()] == [alive]


def test_load_of_each_pool_is_measured(platform, yard, capsys):
    scheduler, operations = platform
    yard.worker(1)
    scheduler.ready(yard.task(yard.tenant(), 3))
    operations.pools()  # both queues are there: a rebuild is a metric too
    capsys.readouterr()
    operations.measure()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    pools = {
        (line["pool"], name): line[name][0] for line in lines if "pool" in line for name in line if name[0].isupper()
    }
    assert pools == {
        ("gpu", "NodesWaiting"): 2,
        ("gpu", "SlotsInUse"): 1,
        ("gpu", "Slots"): 1,
        ("gpu", "FairnessJain"): 1.0,
        ("enterprise", "NodesWaiting"): 0,
        ("enterprise", "SlotsInUse"): 0,
        ("enterprise", "Slots"): 0,
        ("enterprise", "FairnessJain"): 1.0,
    }
    lanes = {line["lane"]: line["LaneDepth"][0] for line in lines if "lane" in line}
    assert lanes == {"enterprise_exclusive": 0, "vip_short": 2, "vip_long": 0, "free_default": 0}
