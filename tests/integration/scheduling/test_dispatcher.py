"""The scheduler between a real PostgreSQL and a real Redis, with a crash between any two of its steps."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
import redis

from artiway.audit.repository import AuditLog
from artiway.errors import Conflict, Refused, Unavailable
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database
from artiway.scheduling.dispatcher import BATCH, Corrections, Dispatcher, QueueAway
from artiway.scheduling.model import LaneChange, NewerLayout, QueueMemoryFull, StaleEpoch, TooManyTracks, UnknownTenant
from artiway.scheduling.queue import FairQueue
from artiway.scheduling.repository import PostgresSchedulingStore
from artiway.tasks.repository import PostgresNodes
from tests.conftest import Addresses
from tests.fakes.nodes import Yard

pytestmark = pytest.mark.breaks_invariants(
    "no task is paid for, and no picture is made", "live_tasks_have_holds", "artefacts_have_nodes"
)

POOLS = ("gpu", "enterprise")


@dataclass
class Gone:
    node_id: UUID
    pool: str = "gpu"
    gpu_us: int | None = None


class Clock:
    def __init__(self) -> None:
        self.at = datetime(2026, 11, 16, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Crash(Exception):
    pass


class Fuse:
    """Lists the points between side effects, and crashes at the one that is armed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.armed: str | None = None

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if point == self.armed:
            self.armed = None
            raise Crash(point)


@pytest.fixture
def yard(addresses: Addresses):
    with contextlib.closing(Yard(addresses.superuser)) as yard:
        yield yard


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fuse():
    return Fuse()


@pytest.fixture
def make(service_database: Database, valkey: redis.Redis, yard: Yard, clock: Clock, fuse: Fuse):
    """A scheduler as a new process would have it; they share the servers and nothing else."""

    def make(prefetch: int = 0) -> Dispatcher:
        queues = {pool: FairQueue(valkey, pool) for pool in POOLS}
        return Dispatcher(
            PostgresNodes(service_database, Outbox(yard.deliver)),
            PostgresSchedulingStore(
                service_database, AuditLog(), silence_s=3600, window_s=3600, samples=100, prefetch=prefetch
            ),
            queues.__getitem__,
            clock,
            crash_point=fuse,
        )

    return make


def test_ready_nodes_get_free_slots_by_turn(make, yard):
    yard.worker(4)
    vip, free = yard.tenant("vip"), yard.tenant("free")
    vip_nodes = yard.task(vip, 3, cost_s=10)
    free_nodes = yard.task(free, 2, cost_s=10, lane="free_default")
    scheduler = make()
    assert scheduler.ready(free_nodes + vip_nodes) == 4
    # SPEC 8.2, weights 5 and 1: A A A B B; the fifth has no slot.
    assert yard.dispatched(vip_nodes + free_nodes) == [*vip_nodes, free_nodes[0]]
    assert yard.states([free_nodes[1]]) == [("QUEUED", 0, False)]
    assert sorted(yard.sent()) == sorted((node_id, 1) for node_id in [*vip_nodes, free_nodes[0]])


def test_ended_node_makes_room_for_the_next(make, yard):
    yard.worker(1)
    first, second = yard.task(yard.tenant(), 2)
    scheduler = make()
    assert scheduler.ready([first, second]) == 1
    yard.end(first)
    assert scheduler.release([Gone(first, gpu_us=5_000_000)]) == 1
    assert yard.states([second]) == [("QUEUED", 1, True)]
    assert scheduler.release([Gone(first, gpu_us=5_000_000)]) == 0  # repeated


def test_repeated_ready_message_dispatches_once(make, yard):
    yard.worker(5)
    nodes = yard.task(yard.tenant(), 2)
    assert make().ready(nodes) == 2
    assert make().ready(nodes) == 0
    assert yard.states(nodes) == [("QUEUED", 1, True)] * 2
    assert len(yard.sent()) == 2


def test_waiting_node_is_enqueued_with_new_ones(make, yard):
    yard.worker(5)
    nodes = yard.task(yard.tenant(), 3)
    make()._nodes.mark_ready(nodes[1:2])  # and the process died
    assert make().ready(nodes) == 3
    assert yard.dispatched(nodes) == [nodes[1], nodes[0], nodes[2]]  # in the order in which they became ready


def test_ready_node_brings_its_tenants_present_policy(make, yard, valkey):
    yard.worker(5)
    tenant = yard.tenant("free")
    scheduler = make()
    scheduler.ready(yard.task(tenant, 1, lane="free_default"))
    queue = FairQueue(valkey, "gpu")
    queue.attach()
    assert [(state.policy.weight, state.policy.cap) for state in queue.tenants()] == [(1, 2)]
    yard.connection.execute("UPDATE tenant SET weight = 7, concurrency = 9 WHERE tenant_id = %s", (tenant,))
    scheduler.ready(yard.task(tenant, 1, lane="free_default"))
    assert [(state.policy.weight, state.policy.cap) for state in queue.tenants()] == [(7, 9)]
    yard.connection.execute("UPDATE tenant SET status = 'SUSPENDED' WHERE tenant_id = %s", (tenant,))
    assert scheduler.ready(yard.task(tenant, 1, lane="free_default")) == 0
    assert [(state.policy.weight, state.policy.cap) for state in queue.tenants()] == [(7, 0)]


def test_ready_and_dispatch_use_an_index(yard, service_database):
    nodes = PostgresNodes(service_database, Outbox(lambda *_: None))
    with service_database.service_transaction() as tx:
        for node_id in yard.task(yard.tenant(), 10):  # a plan is kept from the sixth call on
            nodes.mark_ready([node_id])
            assert nodes.dispatch([(str(node_id), 1, 1)]) == [str(node_id)]
        read = tx.one(b"SELECT seq_scan, idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'task_node'")
    # For each node: made ready, its priority, dispatched.
    assert read == {"seq_scan": 0, "idx_scan": 30}


def test_depth_of_lane_counts_unstarted_nodes(make, yard, service_database):
    yard.worker(1)
    nodes = yard.task(yard.tenant("vip"), 4)
    make().ready(nodes[:3])
    assert len(yard.dispatched(nodes)) == 1
    (lane,) = make()._store.lanes("vip_short")
    load = PostgresNodes(service_database, Outbox(lambda *_: None)).lane_load("vip_short")
    assert (load.depth, lane.depth, lane.running) == (3, 3, 1)


def test_load_of_lane_reads_no_old_nodes(yard, service_database):
    ended = yard.task(yard.tenant("vip"), 20)
    yard.connection.execute(
        "UPDATE task_node SET status = 'CANCELLED', version = version + 1, ended_at = now() - interval '1 day'"
        " WHERE node_id = ANY (%s)",
        (ended,),
    )
    yard.connection.execute("VACUUM task_node")  # without the entries of rows that other tests deleted
    with service_database.service_transaction() as tx:
        tx.run(b"SET LOCAL enable_seqscan = off")  # so few rows would be read in one go
        load = PostgresNodes(service_database, Outbox(lambda *_: None)).lane_load("vip_short")
        read = tx.one(b"SELECT pg_stat_get_xact_tuples_returned('task_node_ended'::regclass) AS entries")
    # The first entry behind the range may be read to find its end; all 20 were, before the search had a start.
    assert load.ended_lately == 0
    assert read["entries"] <= 1


def test_nothing_is_dispatched_before_a_worker_registers(make, yard, clock):
    nodes = yard.task(yard.tenant(), 1)
    scheduler = make()
    assert scheduler.ready(nodes) == 0
    yard.worker(1)
    clock.pass_by(5)
    assert scheduler.dispatch("gpu") == 1


def test_worker_without_slots_gets_nothing(make, yard):
    yard.worker(0)
    nodes = yard.task(yard.tenant(), 1)
    assert make(prefetch=1).ready(nodes) == 0


def test_tenant_at_its_cap_blocks_no_other(make, yard):
    yard.worker(10)
    capped, other = yard.tenant("enterprise", concurrency=1), yard.tenant("free")
    a, b = yard.task(capped, 3, lane="vip_short"), yard.task(other, 1, lane="free_default")
    make().ready(a + b)
    assert set(yard.dispatched(a + b)) == {a[0], b[0]}


def test_pools_do_not_share_workers(make, yard):
    yard.worker(3, pool="enterprise")
    rich, poor = yard.tenant("enterprise"), yard.tenant("free")
    a = yard.task(rich, 1, lane="enterprise_exclusive", pool="enterprise")
    b = yard.task(poor, 1, lane="free_default")
    assert make().ready(a + b) == 1
    assert yard.dispatched(a + b) == a


def test_slot_offered_to_cancelled_node_is_free(make, yard):
    yard.worker(1)
    first, second = yard.task(yard.tenant(), 2)
    scheduler = make()
    scheduler.ready([first, second])
    yard.connection.execute(
        "UPDATE task_node SET status = 'CANCELLED', version = version + 1, ended_at = now() WHERE node_id = %s",
        (second,),
    )
    yard.end(first)
    assert scheduler.release([Gone(first)]) == 0  # the queue offers the cancelled one, the database refuses it
    third = yard.task(yard.tenant(), 1)
    assert scheduler.ready(third) == 1  # and the slot is free again


def test_next_node_replaces_a_cancelled_one(make, yard):
    yard.worker(1)
    first, cancelled, third = yard.task(yard.tenant(), 3)
    scheduler = make()
    scheduler.ready([first, cancelled, third])
    yard.connection.execute(
        "UPDATE task_node SET status = 'CANCELLED', version = version + 1, ended_at = now() WHERE node_id = %s",
        (cancelled,),
    )
    yard.end(first)
    assert scheduler.release([Gone(first)]) == 1
    assert yard.dispatched([cancelled, third]) == [third]


def test_more_slots_than_a_batch_are_used(make, yard):
    yard.worker(BATCH * 2 + 50)
    nodes = yard.task(yard.tenant(concurrency=1000), BATCH * 2 + 10)
    assert make().ready(nodes) == len(nodes)
    assert sorted(yard.sent()) == sorted((node_id, 1) for node_id in nodes)


def test_only_the_trigger_writes_history(make, yard, service_database):
    (node_id,) = yard.task(yard.tenant(), 1)
    make().ready([node_id])
    forged = (
        b"INSERT INTO node_history (tenant_id, node_id, version, to_status, attempt)"
        b" SELECT tenant_id, node_id, 99, 'COMPLETED', 1 FROM task_node"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege), service_database.service_transaction() as tx:
        tx.run(forged)
    rows = yard.connection.execute("SELECT to_status FROM node_history WHERE node_id = %s", (node_id,)).fetchall()
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (StaleEpoch("another epoch"), Unavailable, 503),
        (UnknownTenant(["t"]), Conflict, 409),
        (TooManyTracks("one more than 256"), Refused, 422),
        (NewerLayout(2), Unavailable, 503),
        (QueueMemoryFull(), Unavailable, 503),
    ],
    ids=["stale", "unknown", "tracks", "layout", "memory"],
)
def test_refusals_of_the_queue_have_a_status(error, kind, status):
    assert isinstance(error, kind)
    assert (error.status, bool(error.message)) == (status, True)


def test_paused_lane_stays_paused_with_new_parallelism(make, yard, service_database, clock):
    yard.worker(5)
    store = PostgresSchedulingStore(
        service_database, AuditLog(), silence_s=3600, window_s=3600, samples=100, prefetch=0
    )
    store.set_lane("vip_short", LaneChange(is_paused=True), actor_id=None)
    nodes = yard.task(yard.tenant(), 2)
    scheduler = make()
    assert scheduler.ready(nodes) == 0
    store.set_lane("vip_short", LaneChange(parallelism=1), actor_id=None)
    clock.pass_by(5)
    assert scheduler.dispatch("gpu") == 0
    (state,) = store.lanes("vip_short")
    assert (state.is_paused, state.parallelism, state.depth, state.running) == (True, 1, 2, 0)
    store.set_lane("vip_short", LaneChange(is_paused=False), actor_id=None)
    clock.pass_by(5)
    assert scheduler.dispatch("gpu") == 1


def test_changed_weight_acts_on_the_backlog(make, yard, clock):
    yard.worker(1)
    a, b = yard.tenant("free"), yard.tenant("free")
    first = yard.task(a, 6, lane="free_default")
    second = yard.task(b, 6, lane="free_default")
    scheduler = make()
    scheduler.ready(first + second)
    yard.connection.execute("UPDATE tenant SET weight = 100 WHERE tenant_id = %s", (b,))
    scheduler.reconcile("gpu")
    for _ in range(6):
        (running,) = yard.dispatched(first + second)
        yard.end(running)
        scheduler.release([Gone(running, gpu_us=6_000_000)])
    # Nodes that became ready together have no order among themselves.
    assert [status for status, _, _ in yard.states(second)].count("COMPLETED") == 5


def test_flushed_redis_is_rebuilt_without_loss(make, yard, valkey):
    yard.worker(2)
    nodes = yard.task(yard.tenant(), 5)
    scheduler = make()
    assert scheduler.ready(nodes) == 2
    valkey.flushall()
    running = yard.dispatched(nodes)
    for node_id in running:
        yard.end(node_id)
    assert scheduler.release([Gone(node_id) for node_id in running]) == 2
    valkey.flushall()
    assert make().reconcile("gpu").requeued == 0  # the rebuild had them all
    assert len(yard.dispatched(nodes)) == 2
    assert sorted(attempt for _, attempt, _ in yard.states(nodes)) == [0, 1, 1, 1, 1]


def test_overtaken_rebuild_leaves_the_other_queue(make, yard, valkey):
    class Overtaken(FairQueue):
        """Another scheduler begins to rebuild while this one loads its tenants."""

        def rebuild(self, snapshot, *, now_ms):
            def tenants():
                FairQueue(valkey, "gpu").rebuild(whole, now_ms=now_ms)
                yield from whole.tenants

            whole = dataclasses.replace(snapshot)
            return super().rebuild(dataclasses.replace(snapshot, tenants=tenants()), now_ms=now_ms)

    yard.worker(2)
    nodes = yard.task(yard.tenant(), 2)
    scheduler = make()
    scheduler._queue_of = lambda pool: Overtaken(valkey, pool)
    with pytest.raises(QueueAway):
        scheduler.ready(nodes)
    assert make().ready(nodes) == 2  # the message comes again and finds the other's queue


def test_order_survives_the_loss_of_redis(make, yard, valkey):
    yard.worker(1)
    vip, free = yard.tenant("vip"), yard.tenant("free")
    a, b = yard.task(vip, 10, cost_s=1), yard.task(free, 10, cost_s=1, lane="free_default")
    scheduler = make()
    scheduler.ready(a + b)
    order = []
    for turn in range(12):
        (running,) = yard.dispatched(a + b)
        order.append("a" if running in a else "b")
        yard.end(running)
        if turn % 4 == 3:
            valkey.flushall()
        scheduler.release([Gone(running, gpu_us=1_000_000)])
    assert 9 <= order.count("a") <= 11  # weights 5 and 1, within one node of either


def test_comparison_corrects_redis(make, yard, valkey):
    yard.worker(3)
    nodes = yard.task(yard.tenant(), 3)
    scheduler = make()
    scheduler.ready(nodes)
    yard.end(nodes[0])  # and the queue was not informed
    assert scheduler.reconcile("gpu") == Corrections(freed=1)
    late = yard.task(yard.tenant(), 1)
    make()._nodes.mark_ready(late)  # ready in the database, and the process died
    assert scheduler.reconcile("gpu") == Corrections(requeued=1)
    assert yard.dispatched(late) == late
    assert scheduler.reconcile("gpu") == Corrections()


def run_story(make, yard) -> list[UUID]:
    """A ready, an end and a cancel: every side effect of the scheduler happens at least once."""
    yard.worker(2)
    tenant = yard.tenant()
    nodes = yard.task(tenant, 4)
    make().ready(nodes)
    running = yard.dispatched(nodes)
    for node_id in running[:1]:
        yard.end(node_id)
    make().release([Gone(node_id) for node_id in running[:1]])
    return nodes


def crash_points() -> list[str]:
    """Read from the code, so that a new point is covered."""
    import re
    from pathlib import Path

    from artiway.scheduling import dispatcher

    return sorted(set(re.findall(r'_crash_point\("([^"]+)"\)', Path(dispatcher.__file__).read_text())))


@pytest.mark.parametrize("point", crash_points())
@pytest.mark.parametrize("occurrence", [1, 2])
def test_crash_loses_nothing_and_repeats_nothing(make, yard, clock, fuse, point, occurrence):
    yard.worker(2)
    nodes = yard.task(yard.tenant(), 4)

    class Countdown:
        left = occurrence

        def __call__(self, seen: str) -> None:
            fuse.seen.append(seen)
            if seen == point:
                self.left -= 1
                if self.left == 0:
                    raise Crash(seen)

    countdown = Countdown()

    def step(act) -> None:
        scheduler = make()
        scheduler._crash_point = countdown
        with contextlib.suppress(Crash):
            act(scheduler)

    step(lambda scheduler: scheduler.ready(nodes))
    for _ in range(20):  # what the watchdog does, until all is done
        for node_id in yard.dispatched(nodes):
            yard.end(node_id)
            step(lambda scheduler, node_id=node_id: scheduler.release([Gone(node_id, gpu_us=1_000_000)]))
        make()._nodes.mark_ready(nodes)
        clock.pass_by(31)
        step(lambda scheduler: scheduler.reconcile("gpu"))
    assert [(status, attempt) for status, attempt, _ in yard.states(nodes)] == [("COMPLETED", 1)] * 4
    assert sorted(yard.sent()) == sorted((node_id, 1) for node_id in nodes)
    assert make().reconcile("gpu") == Corrections()


def test_story_reaches_every_crash_point(make, yard, fuse):
    run_story(make, yard)
    assert set(fuse.seen) == set(crash_points())


def test_long_backlog_survives_the_loss_of_redis(make, yard, valkey):
    yard.worker(1)
    tenants = [yard.tenant("enterprise", concurrency=5) for _ in range(20)]
    for tenant in tenants:
        yard.connection.execute(
            "UPDATE task_node SET status = 'QUEUED', version = version + 1, ready_at = clock_timestamp()"
            " WHERE node_id = ANY (%s)",
            (yard.task(tenant, 250),),
        )
    scheduler = make()
    assert scheduler.dispatch("gpu") == 1
    queue = FairQueue(valkey, "gpu")
    assert queue.attach()
    assert sum(queue.waiting_by_track().values()) == 4_999
    assert scheduler.reconcile("gpu") == Corrections()
