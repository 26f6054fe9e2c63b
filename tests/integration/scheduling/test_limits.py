"""Every limit of R-WFQ-2 on the real queue: it holds its nodes back, and other nodes pass."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from artiway.audit.repository import AuditLog
from artiway.errors import NotFound
from artiway.identity.model import Actor
from artiway.identity.people.repository import PostgresPeople
from artiway.identity.people.service import PeopleService
from artiway.outbox.repository import Outbox
from artiway.scheduling.dispatcher import Dispatcher
from artiway.scheduling.model import Completion, LaneChange, WaitingFor
from artiway.scheduling.operations import OperationsService
from artiway.scheduling.queue import FairQueue
from artiway.scheduling.repository import PostgresSchedulingStore
from artiway.tasks import catalogue
from artiway.tasks.lifecycle import NodeService, Rules
from artiway.tasks.model import WorkerCard
from artiway.tasks.repository import PostgresNodes
from tests.fakes.identity import QuickPasswords, RecordedRevocations
from tests.fakes.nodes import Yard

pytestmark = pytest.mark.breaks_invariants(
    "no task is paid for, and no picture is made", "live_tasks_have_holds", "artefacts_have_nodes"
)
POOLS = ("gpu", "enterprise")
ACTOR = uuid4()


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 11, 17, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


class Desk:
    """A scheduler, the services that set limits, and the rows behind them."""

    def __init__(self, database, service_database, valkey, yard) -> None:
        self.database, self.service_database, self.valkey, self.yard = database, service_database, valkey, yard
        self.clock = Clock()
        self.store = PostgresSchedulingStore(
            service_database, AuditLog(), silence_s=3600, window_s=3600, samples=100, prefetch=0
        )
        self.nodes = PostgresNodes(service_database, Outbox(lambda *_: None))
        self.scheduler = self.process()
        self.operations = OperationsService(
            self.store, self.queue, self.scheduler, self.clock, catalogue.load().models, records=self.store
        )
        self.people = PeopleService(PostgresPeople(database, AuditLog()), QuickPasswords(), RecordedRevocations())

    def process(self) -> Dispatcher:
        """A scheduler that knows nothing of the others."""
        queues = {pool: FairQueue(self.valkey, pool) for pool in POOLS}
        return Dispatcher(self.nodes, self.store, queues.__getitem__, self.clock)

    def queue(self, pool: str = "gpu") -> FairQueue:
        queue = FairQueue(self.valkey, pool)
        queue.attach()
        return queue

    def owner(self, tenant_id, user_id) -> Actor:
        return Actor(tenant_id, user_id, frozenset({"user.manage"}))

    def later(self) -> int:
        """Two seconds later the next event dispatches what may run."""
        self.clock.at += timedelta(seconds=2)
        return self.scheduler.dispatch("gpu")

    def waits_for(self, node_id) -> WaitingFor:
        return self.queue().explain(str(node_id), now_ms=0).waiting_for

    def end(self, node_id) -> int:
        self.yard.end(node_id)
        return self.scheduler.release([Released(node_id)])

    def audited(self) -> list[tuple[str, str]]:
        rows = self.yard.connection.execute("SELECT action, details::text FROM audit_log ORDER BY at, audit_id")
        return [(action, details) for action, details in rows]


class Released:
    def __init__(self, node_id) -> None:
        self.node_id, self.pool, self.gpu_us = node_id, "gpu", None


@pytest.fixture
def yard(addresses):
    with contextlib.closing(Yard(addresses.superuser)) as yard:
        yield yard


@pytest.fixture
def desk(database, service_database, valkey, yard):
    return Desk(database, service_database, valkey, yard)


class TestUserCaps:
    @pytest.fixture
    def tenant(self, yard):
        yard.worker(10)
        return yard.tenant("vip")

    @pytest.fixture
    def ann(self, yard, tenant):
        return yard.user(tenant)

    @pytest.fixture
    def bob(self, yard, tenant):
        return yard.user(tenant)

    def test_cap_of_each_user_holds(self, desk, yard, tenant, ann, bob):
        desk.people.change_organisation(desk.owner(tenant, ann), {"user_concurrency": 2})
        of_ann, of_bob = yard.task(tenant, 4, user_id=ann), yard.task(tenant, 1, user_id=bob)
        stranger = yard.task(yard.tenant("free"), 1, lane="free_default")
        desk.scheduler.ready(of_ann + of_bob + stranger)
        assert set(yard.dispatched(of_ann + of_bob + stranger)) == {*of_ann[:2], *of_bob, *stranger}
        assert desk.waits_for(of_ann[2]) is WaitingFor.USER_CAP
        assert desk.end(of_ann[0]) == 1

    def test_changed_cap_reaches_the_queue_within_seconds(self, desk, yard, tenant, ann):
        nodes = yard.task(tenant, 5, user_id=ann)
        desk.people.change_organisation(desk.owner(tenant, ann), {"user_concurrency": 1})
        assert desk.scheduler.ready(nodes) == 1
        desk.people.change_organisation(desk.owner(tenant, ann), {"user_concurrency": 3})
        assert desk.later() == 2
        desk.people.change_organisation(desk.owner(tenant, ann), {"user_concurrency": None})
        assert desk.later() == 2

    def test_own_value_replaces_the_tenants(self, desk, yard, tenant, ann, bob):
        owner = desk.owner(tenant, ann)
        desk.people.change_organisation(owner, {"user_concurrency": 1})
        desk.people.change(owner, bob, concurrency=3)
        of_ann, of_bob = yard.task(tenant, 5, user_id=ann), yard.task(tenant, 5, user_id=bob)
        desk.scheduler.ready(of_ann + of_bob)
        assert set(yard.dispatched(of_ann + of_bob)) == {of_ann[0], *of_bob[:3]}
        desk.people.change(owner, bob, concurrency=0)
        assert desk.later() == 0
        assert desk.end(of_bob[0]) == 0
        assert desk.waits_for(of_bob[3]) is WaitingFor.USER_CAP
        desk.people.change(owner, bob, concurrency=None)
        assert desk.end(of_bob[1]) == desk.end(of_bob[2]) == 0
        assert desk.later() == 1  # the tenant's value holds again

    def test_caps_survive_the_loss_of_redis(self, desk, yard, valkey, tenant, ann, bob):
        owner = desk.owner(tenant, ann)
        desk.people.change_organisation(owner, {"user_concurrency": 1})
        desk.people.change(owner, bob, concurrency=2)
        nodes = yard.task(tenant, 3, user_id=ann) + yard.task(tenant, 4, user_id=bob)
        assert desk.scheduler.ready(nodes) == 3
        valkey.flushall()
        assert desk.later() == 0
        assert desk.queue().user_caps() == {(str(tenant), str(bob)): 2}

    def test_cap_of_idle_user_comes_with_the_node(self, desk, yard, tenant, ann, bob):
        """The cap was set long ago, and Redis has never had a node of the tenant."""
        desk.people.change(desk.owner(tenant, ann), bob, concurrency=1)
        yard.connection.execute("UPDATE app_user SET concurrency_set_at = now() - interval '1 day'")
        assert desk.scheduler.ready(yard.task(tenant, 3, user_id=bob)) == 1
        assert desk.process().ready(yard.task(tenant, 3, user_id=bob)) == 0

    def test_comparison_corrects_caps_of_users(self, desk, yard, tenant, ann, bob):
        desk.people.change(desk.owner(tenant, ann), ann, concurrency=1)
        nodes = yard.task(tenant, 2, user_id=ann) + yard.task(tenant, 2, user_id=bob)
        assert desk.scheduler.ready(nodes) == 3
        yard.connection.execute("UPDATE app_user SET concurrency_set_at = now() - interval '1 day'")
        desk.queue().set_user_cap(str(tenant), str(ann), 7, now_ms=0)
        desk.queue().set_user_cap(str(tenant), str(bob), 7, now_ms=0)
        desk.scheduler.reconcile("gpu")
        assert desk.queue().user_caps() == {(str(tenant), str(ann)): 1}

    def test_changes_are_audited(self, desk, tenant, ann, bob):
        owner = desk.owner(tenant, ann)
        desk.people.change_organisation(owner, {"user_concurrency": 4})
        desk.people.change(owner, bob, concurrency=3)
        desk.people.change(owner, bob, concurrency=3)  # no change, no entry
        assert desk.audited() == [
            ("tenant.changed", '{"after": {"user_concurrency": 4}, "before": {"user_concurrency": null}}'),
            ("user.concurrency_changed", '{"after": 3, "before": null}'),
        ]


class TestModels:
    def test_limit_holds_and_other_models_pass(self, desk, yard):
        yard.worker(10)
        desk.operations.limit_model("diffusion", 1, actor_id=ACTOR)
        a, b = yard.tenant("vip"), yard.tenant("vip")
        limited = yard.task(a, 2, kind="model", model="diffusion") + yard.task(b, 2, kind="model", model="diffusion")
        others = yard.task(a, 1, kind="model", model="segment") + yard.task(a, 1) + yard.task(b, 1, model="upscale")
        desk.scheduler.ready(limited + others)
        assert len(yard.dispatched(limited)) == 1
        assert set(yard.dispatched(others)) == set(others)
        assert desk.waits_for(limited[1]) is WaitingFor.MODEL_CAP
        running = yard.dispatched(limited)[0]
        assert desk.end(running) == 1

    def test_change_acts_at_once_and_is_audited(self, desk, yard):
        yard.worker(10)
        desk.operations.limit_model("diffusion", 0, actor_id=ACTOR)
        nodes = yard.task(yard.tenant("vip"), 4, kind="model", model="diffusion")
        assert desk.scheduler.ready(nodes) == 0
        state = desk.operations.limit_model("diffusion", 3, actor_id=ACTOR)
        ((gpu,), limit) = state.pools, state.limit
        assert (limit, gpu.pool, gpu.running, gpu.waiting) == (3, "gpu", 3, 1)
        state = desk.operations.limit_model("diffusion", None, actor_id=ACTOR)
        assert (state.limit, len(yard.dispatched(nodes))) == (None, 4)
        assert [action for action, _ in desk.audited()] == ["model.changed"] * 3

    def test_limit_survives_the_loss_of_redis(self, desk, yard, valkey):
        yard.worker(10)
        desk.operations.limit_model("diffusion", 1, actor_id=ACTOR)
        assert desk.scheduler.ready(yard.task(yard.tenant(), 3, kind="model", model="diffusion")) == 1
        valkey.flushall()
        assert desk.later() == 0
        assert desk.queue().pool().models == {"diffusion": 1}

    def test_unknown_model_is_not_found(self, desk, yard):
        for name in ("sd9", "", "diffusion\x00"):
            with pytest.raises(NotFound):
                desk.operations.limit_model(name, 1, actor_id=ACTOR)
        assert desk.store.model_limits() == {}

    def test_every_model_of_the_catalogue_is_listed(self, desk):
        models = {state.model: state for state in desk.operations.models()}
        assert models.keys() == {"segment", "diffusion", "inpaint", "upscale"}
        assert {"figure", "scene"} <= set(models["diffusion"].steps)


class TestLanes:
    def test_parallelism_is_set_and_unset(self, desk, yard):
        yard.worker(10)
        desk.operations.change_lane("vip_short", LaneChange(parallelism=1), actor_id=ACTOR)
        nodes, other = yard.task(yard.tenant("vip"), 4), yard.task(yard.tenant("free"), 1, lane="free_default")
        desk.scheduler.ready(nodes + other)
        assert set(yard.dispatched(nodes + other)) == {nodes[0], *other}
        assert desk.waits_for(nodes[1]) is WaitingFor.LANE_CAP
        state = desk.operations.change_lane("vip_short", LaneChange(parallelism=None), actor_id=ACTOR)
        assert (state.parallelism, state.running) == (None, 4)

    def test_parallelism_of_zero_runs_nothing(self, desk, yard):
        yard.worker(10)
        desk.operations.change_lane("vip_short", LaneChange(parallelism=0), actor_id=ACTOR)
        assert desk.scheduler.ready(yard.task(yard.tenant("vip"), 2)) == 0
        assert desk.operations.change_lane("vip_short", LaneChange(parallelism=None), actor_id=ACTOR).running == 2

    def test_absent_field_is_unchanged(self, desk):
        desk.operations.change_lane(
            "vip_long", LaneChange(parallelism=3, share_percent=20, depth_limit=7), actor_id=ACTOR
        )
        state = desk.operations.change_lane("vip_long", LaneChange(is_paused=True), actor_id=ACTOR)
        assert (state.is_paused, state.parallelism, state.share_percent, state.depth_limit) == (True, 3, 20, 7)

    def test_null_restores_the_defaults(self, desk):
        desk.operations.change_lane(
            "vip_long", LaneChange(parallelism=3, share_percent=20, depth_limit=7), actor_id=ACTOR
        )
        state = desk.operations.change_lane(
            "vip_long", LaneChange(parallelism=None, share_percent=None, depth_limit=None), actor_id=ACTOR
        )
        assert (state.parallelism, state.share_percent, state.depth_limit) == (None, 50, 10_000)


class TestDrain:
    @pytest.fixture
    def service(self, desk):
        return NodeService(None, desk.nodes, None, None, Rules(), jitter=lambda: 0)

    def test_slots_leave_the_pool_at_once(self, desk, yard):
        leaving, staying = yard.worker(2), yard.worker(1)
        nodes = yard.task(yard.tenant(), 5)
        assert desk.scheduler.ready(nodes) == 3
        state = desk.operations.drain_worker(leaving, actor_id=ACTOR)
        assert (state.is_draining, desk.queue().pool().slots["cutout"]) == (True, 1)
        for node_id in yard.dispatched(nodes)[:2]:
            assert desk.end(node_id) == 0
        assert desk.end(yard.dispatched(nodes)[0]) == 1  # the other worker's slot
        states = {worker.worker_id: worker.is_draining for worker in desk.operations.workers()}
        assert states == {leaving: True, staying: False}
        assert [action for action, _ in desk.audited()] == ["worker.drained"]

    def test_heartbeat_is_answered_with_drain(self, desk, yard, service):
        card = WorkerCard("w1", "gpu", ("cutout",), 2)
        service.register(card, engine="fake")
        assert service.beat(card, []) == ({}, False, {})
        desk.operations.drain_worker("w1", actor_id=ACTOR)
        assert service.beat(card, []) == ({}, True, {})
        assert desk.operations.workers()[0].is_draining
        service.release(worker_id="w1", held=[])
        assert desk.operations.workers() == []

    def test_worker_shows_the_nodes_that_it_runs(self, desk, yard):
        worker = yard.worker(2)
        (node_id, _) = nodes = yard.task(yard.tenant(), 2)
        desk.scheduler.ready(nodes)
        yard.connection.execute(
            "UPDATE task_node SET status = 'PROCESSING', version = version + 1, worker_id = %s, started_at = now(),"
            " lease_until = now() + interval '1 minute' WHERE node_id = %s",
            (worker, node_id),
        )
        (state,) = desk.operations.workers()
        assert [(node.name, node.type, node.attempt) for node in state.nodes] == [("n1", "cutout", 1)]

    def test_unknown_or_silent_worker_is_not_found(self, desk, yard):
        silent = yard.worker(1)
        yard.connection.execute("UPDATE worker SET beat_at = now() - interval '2 hours'")
        for name in ("nobody", silent, "a\x00b", "x" * 400):
            with pytest.raises(NotFound):
                desk.operations.drain_worker(name, actor_id=ACTOR)
        assert desk.audited() == []


class TestComparison:
    """What a promoted replica lacks or has too much is corrected by the watchdog."""

    @pytest.fixture
    def nodes(self, desk, yard):
        yard.worker(2)
        nodes = yard.task(yard.tenant(), 6)
        assert desk.scheduler.ready(nodes) == 2
        return nodes

    def test_missing_and_surplus_waiting_nodes_are_corrected(self, desk, yard, nodes):
        queue = desk.queue()
        queue.cancel([str(nodes[4]), str(nodes[5])], now_ms=0)
        gone = yard.task(yard.tenant(), 2)
        desk.scheduler.ready(gone)
        yard.connection.execute(
            "UPDATE task_node SET status = 'CANCELLED', version = version + 1, ended_at = now()"
            " WHERE node_id = ANY (%s)",
            (gone,),
        )
        corrections = desk.scheduler.reconcile("gpu")
        assert (corrections.requeued, corrections.removed) == (2, 2)
        listed, cursor = queue.waiting_ids(0, 100)
        assert (set(listed), cursor) == ({str(node_id) for node_id in nodes[2:]}, 0)

    def test_slots_are_corrected_both_ways(self, desk, yard, nodes):
        queue, (ended, held) = desk.queue(), yard.dispatched(nodes)
        yard.end(ended)
        node = next(one.node for one in desk.store.running("gpu") if one.node.node_id == str(held))
        queue.complete([Completion(str(held))], now_ms=0)
        queue.enqueue([node], now_ms=0)  # as a replica that missed the dispatch has it
        corrections = desk.scheduler.reconcile("gpu")
        assert (corrections.freed, corrections.adopted) == (1, 1)
        assert queue.running_ids() == {str(node_id) for node_id in yard.dispatched(nodes)}
        assert str(held) not in queue.waiting_ids(0, 100)[0]
        assert desk.scheduler.reconcile("gpu") == type(corrections)()

    def test_one_pass_is_bounded(self, desk, yard, nodes, monkeypatch):
        monkeypatch.setattr("artiway.scheduling.dispatcher.COMPARE_MANY", 2)
        monkeypatch.setattr("artiway.scheduling.dispatcher.COMPARE_FEW", 2)
        desk.queue().cancel([str(node_id) for node_id in nodes[2:]], now_ms=0)
        assert [desk.scheduler.reconcile("gpu").requeued for _ in range(4)] == [2, 2, 0, 0]
