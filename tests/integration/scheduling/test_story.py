"""The ten-node story: a VIP's seven nodes beside a free tenant's three, on one worker."""

from __future__ import annotations

import redis

from artiway.scheduling.model import Node, Pool, Snapshot, TenantPolicy, charge_us
from tests.integration.scheduling.support import Twins, node

SECONDS = {"cutout": 6, "model": 8, "compose": 4}
WEIGHTS = {"vip": 5, "free": 1}
NAMES = {"vip": ["cutout", "model1", "model2", "model3", "compose1", "compose2", "compose3"]}
NAMES["free"] = ["cutout", "model1", "compose1"]
AFTER = {"model": "cutout", "compose": "model"}
# docs/fair-queue.md shows both, with their tags.
ORDER_BY_HEAD = [
    ("vip-cutout", 1.2),
    ("vip-model1", 2.8),
    ("vip-model2", 4.4),
    ("vip-compose1", 5.2),
    ("free-cutout", 6.0),
    ("vip-model3", 6.8),
    ("vip-compose2", 7.6),
    ("vip-compose3", 8.4),
    ("free-model1", 14.0),
    ("free-compose1", 18.0),
]
ORDER_BY_ARRIVAL = [
    ("vip-cutout", 1.2),
    ("vip-model1", 2.8),
    ("vip-model2", 4.4),
    ("free-cutout", 6.0),
    ("vip-model3", 6.0),
    ("vip-compose1", 6.8),
    ("vip-compose2", 7.6),
    ("vip-compose3", 8.4),
    ("free-model1", 14.0),
    ("free-compose1", 18.0),
]


def made(tenant: str, name: str) -> Node:
    kind = name.rstrip("0123456789")
    return node(f"{tenant}-{name}", tenant, SECONDS[kind], kind=kind)


def ready_after(ended: str) -> list[Node]:
    """A cutout makes its tenant's models ready, a model its own compose."""
    tenant, _, name = ended.partition("-")
    kind, number = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return [
        made(tenant, other)
        for other in NAMES[tenant]
        if AFTER.get(other.rstrip("0123456789")) == kind and (not number or other.endswith(number))
    ]


def test_story_plays_in_its_exact_order(valkey: redis.Redis) -> None:
    """Only heads are tagged."""
    policies = [TenantPolicy(tenant, weight) for tenant, weight in WEIGHTS.items()]
    twins = Twins(valkey, Snapshot(Pool(slots=dict.fromkeys(SECONDS, 1), capacity=1), policies))
    twins.enqueue([made("vip", "cutout"), made("free", "cutout")])
    order, running = [], twins.dispatch(1)
    while running:
        (one,) = running
        order.append((one.node.node_id, one.tag_us / 1e6))
        twins.end(running)
        if ready := ready_after(one.node.node_id):
            twins.enqueue(ready)
        running = twins.dispatch(1)
    assert order == ORDER_BY_HEAD
    reasons = [decision.reason for decision in reversed(twins.queue.decisions())]
    assert reasons == ["smallest_tag"] * 8 + ["only_candidate"] * 2


def test_tags_at_arrival_give_the_other_order() -> None:
    """The textbook's rule: every node is tagged when it becomes ready, and equal tags go in order of arrival."""
    clock, last, waiting, order = 0, dict.fromkeys(WEIGHTS, 0), [], []

    def arrive(nodes: list[Node]) -> None:
        for one in nodes:
            charge = charge_us(one.cost_us, WEIGHTS[one.tenant_id])
            last[one.tenant_id] = max(clock, last[one.tenant_id]) + charge
            waiting.append((last[one.tenant_id], len(order) * 10 + len(waiting), one.node_id))

    arrive([made("vip", "cutout"), made("free", "cutout")])
    while waiting:
        tag, place, name = min(waiting)
        waiting.remove((tag, place, name))
        clock = max(clock, tag)
        order.append((name, tag / 1e6))
        arrive(ready_after(name))
    assert order == ORDER_BY_ARRIVAL
