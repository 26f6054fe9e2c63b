"""The worked examples of the specification, through the Lua and the oracle."""

from __future__ import annotations

import pytest
import redis

from artiway.scheduling.model import Pool, Snapshot, TenantPolicy
from tests.integration.scheduling.support import Twins, node, nodes


@pytest.fixture
def twins(valkey: redis.Redis) -> Twins:
    pool = Pool(slots={"cutout": 50, "model": 50})
    return Twins(valkey, Snapshot(pool, tenants=[TenantPolicy("A", 5), TenantPolicy("B", 1)]))


def test_weight_five_goes_before_weight_one(twins: Twins) -> None:
    twins.enqueue([*nodes("a", 3, "A", 10), *nodes("b", 2, "B", 10)])
    chosen = twins.dispatch(5)
    assert [c.node.node_id for c in chosen] == ["a0", "a1", "a2", "b0", "b1"]
    assert [c.tag_us for c in chosen] == [2_000_000, 4_000_000, 6_000_000, 10_000_000, 20_000_000]


def test_tie_goes_to_the_earlier_head(twins: Twins) -> None:
    twins.enqueue([node("a-cutout", "A", 6), node("b-cutout", "B", 6)])
    (first,) = twins.dispatch(1)
    assert (first.node.node_id, first.tag_us) == ("a-cutout", 1_200_000)
    twins.enqueue([node(f"a-model_{i}", "A", 8, kind="model") for i in (1, 2, 3)])
    chosen = twins.dispatch(4)
    assert [c.node.node_id for c in chosen] == ["a-model_1", "a-model_2", "b-cutout", "a-model_3"]
    assert [c.tag_us for c in chosen] == [2_800_000, 4_400_000, 6_000_000, 6_000_000]


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_order_does_not_depend_on_the_batch(twins: Twins, batch: int) -> None:
    twins.enqueue([*nodes("b", 2, "B", 10), *nodes("a", 3, "A", 10)])
    order = [c.node.node_id for _ in range(5) for c in twins.dispatch(batch)]
    assert order == ["a0", "a1", "a2", "b0", "b1"]


def test_tags_beyond_fourteen_digits_stay_exact(valkey: redis.Redis) -> None:
    clock = 3_141_592_653_589_793
    snapshot = Snapshot(Pool(slots={"cutout": 9}), [TenantPolicy("A", 3), TenantPolicy("B", 7)], clock_us=clock)
    twins = Twins(valkey, snapshot)
    twins.enqueue([*nodes("a", 3, "A", 0.000010), *nodes("b", 3, "B", 0.000010)])
    tags = [(c.node.tenant_id, c.tag_us - clock) for c in twins.dispatch(6)]
    assert tags == [("B", 2), ("A", 4), ("B", 4), ("B", 6), ("A", 8), ("A", 12)]
    twins.check()
