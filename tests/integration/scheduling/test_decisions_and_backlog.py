"""What the queue says about itself: its last decisions, its backlog by tenant and track, its service by minute."""

from __future__ import annotations

import pytest
import redis

from artiway.scheduling.model import (
    Completion,
    DecisionReason,
    Pool,
    Snapshot,
    StaleEpoch,
    TenantPolicy,
    Track,
    TrackBacklog,
    microseconds,
)
from artiway.scheduling.queue import FairQueue
from tests.integration.scheduling.support import Twins, node, nodes

POOL = Pool(slots={"cutout": 3, "model": 1})
CUTOUT, MODEL = Track("cutout", "vip_short"), Track("model", "vip_short")


class TestDecisions:
    def test_chosen_tenant_and_runner_up_are_named(self, valkey: redis.Redis) -> None:
        twins = Twins(valkey, Snapshot(POOL, [TenantPolicy("A", 2), TenantPolicy("B", 1)]))
        twins.now_ms = 7_000
        twins.enqueue([node("a0", "A", 8), node("b0", "B", 4), node("a1", "A", 6, kind="model")])
        twins.dispatch(3)
        third, second, first = twins.queue.decisions()
        assert (first.at_ms, first.node_id, first.tenant_id, first.user_id, first.track) == (
            7_000,
            "a0",
            "A",
            "u",
            CUTOUT,
        )
        assert (first.charged_us, first.tag_us) == (microseconds(8), microseconds(4))
        assert (first.runner_up_tenant_id, first.runner_up_tag_us) == ("B", microseconds(4))
        assert first.reason is DecisionReason.TIE_EARLIER_ARRIVAL
        assert (second.node_id, second.runner_up_tenant_id, second.reason) == ("b0", "A", DecisionReason.SMALLEST_TAG)
        assert (third.node_id, third.runner_up_tenant_id, third.runner_up_tag_us) == ("a1", None, None)
        assert third.reason is DecisionReason.ONLY_CANDIDATE

    def test_runner_up_is_another_tenant(self, valkey: redis.Redis) -> None:
        """The chosen tenant's own head on another track does not count."""
        twins = Twins(valkey, Snapshot(POOL, [TenantPolicy("A", 9), TenantPolicy("B", 1)]))
        twins.enqueue([node("a0", "A", 1), node("a1", "A", 1, kind="model"), node("b0", "B", 4)])
        twins.dispatch(2)
        assert [(d.node_id, d.runner_up_tenant_id) for d in twins.queue.decisions()] == [("a1", "B"), ("a0", "B")]

    def test_the_last_thousand_are_kept(self, valkey: redis.Redis) -> None:
        queue = FairQueue(valkey, "gpu")
        queue.rebuild(Snapshot(Pool(slots={"cutout": 9_999}), [TenantPolicy("A")]), now_ms=0)
        for part in range(12):
            queue.admit(nodes(f"n{part}-", 100, "A", 1), now_ms=part, dispatch=100)
        found = queue.decisions()
        assert len(found) == 1_000
        assert (found[0].node_id, found[-1].node_id) == ("n11-99", "n2-0")
        assert [one.node_id for one in queue.decisions(2)] == ["n11-99", "n11-98"]


class TestBacklog:
    def test_counts_and_sums_by_tenant_and_track(self, valkey: redis.Redis) -> None:
        twins = Twins(valkey, Snapshot(POOL, [TenantPolicy("A", 2, cap=2), TenantPolicy("B"), TenantPolicy("idle")]))
        twins.enqueue([*nodes("a", 5, "A", 4), *nodes("m", 2, "A", 6, kind="model"), *nodes("b", 3, "B", 4)])
        taken = twins.dispatch(9)
        assert [one.node.node_id for one in taken] == ["a0", "b0", "m0", "b1"]
        found = twins.queue.backlog()
        assert found.clock_us == twins.oracle.clock
        assert found.tenants.keys() == {"A", "B"}
        assert found.tenants["A"].tracks == {
            CUTOUT: TrackBacklog(4, microseconds(16), None, 1, microseconds(4)),  # at its cap, so without a head
            MODEL: TrackBacklog(1, microseconds(6), None, 1, microseconds(6)),
        }
        head = twins.oracle.tenants["B"].heads[CUTOUT]
        tag = head.tag + twins.oracle.lag[CUTOUT]
        assert found.tenants["B"].tracks == {CUTOUT: TrackBacklog(1, microseconds(4), tag, 2, microseconds(8))}
        assert (found.tenants["A"].policy.cap, found.tenants["A"].running) == (2, 2)
        assert found.running_by_track() == {CUTOUT: 3, MODEL: 1}
        assert found.pool.slots == POOL.slots

    def test_its_commands_do_not_grow_with_nodes(self, valkey: redis.Redis) -> None:
        queue = FairQueue(valkey, "gpu")

        def read_bytes(count: int) -> int:
            queue.rebuild(Snapshot(POOL, [TenantPolicy("A")], waiting=nodes("n", count, "A", 1)), now_ms=0)
            before = valkey.info("stats")["total_net_output_bytes"]
            assert queue.backlog().tenants["A"].tracks[CUTOUT].waiting == count
            return int(valkey.info("stats")["total_net_output_bytes"]) - int(before)

        assert read_bytes(5_000) <= read_bytes(10) + 100


def test_reads_of_a_lost_queue_are_stale(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(POOL, [TenantPolicy("A")]), now_ms=0)
    valkey.flushall()
    reads = [queue.backlog, queue.decisions, queue.tenants, queue.snapshot, queue.pool, queue.running_ids]
    for read in [*reads, queue.tenant_ids, queue.clock_us, queue.waiting_by_track, lambda: queue.service_us(1)]:
        with pytest.raises(StaleEpoch):
            read()


def test_service_of_many_minutes_is_summed(valkey: redis.Redis) -> None:
    queue = FairQueue(valkey, "gpu")
    queue.rebuild(Snapshot(Pool(slots={"cutout": 9}), [TenantPolicy("A"), TenantPolicy("B")]), now_ms=0)
    queue.enqueue([*nodes("a", 3, "A", 1), node("b", "B", 2)], now_ms=0)
    for minute in (4, 5, 6, 9):
        queue.dispatch(1, now_ms=minute * 60_000)
    assert sum(queue.service_us(4, 9).values()) == microseconds(5)
    assert queue.service_us(7, 8) == {}
    taken = [Completion("a0", microseconds(3))]
    queue.complete(taken, now_ms=9 * 60_000)
    assert sum(queue.service_us(9).values()) == sum(queue.service_us(4, 9).values()) - sum(
        queue.service_us(4, 6).values()
    )
