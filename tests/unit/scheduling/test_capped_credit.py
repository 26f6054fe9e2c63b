"""A tenant at its cap keeps the credit for overestimated cost, and no more than it may use (R-WFQ-3, R-WFQ-4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.scheduling.model import (
    Completion,
    Node,
    Pool,
    Settled,
    Snapshot,
    TenantPolicy,
    Track,
    microseconds,
)
from artiway.scheduling.oracle import Oracle
from tests.integration.scheduling.support import play

TRACK = Track("cutout", "vip_short")


class Estimating(Oracle):
    """An oracle with the queue's interface, for which the catalogue's estimate stands whatever was measured."""

    def _learn(self, node_type: str, measured_us: int) -> None:
        pass

    def enqueue(self, nodes, *, now_ms: int = 0, is_load: bool = False):
        return super().enqueue(nodes, is_load=is_load)

    def complete(self, completions, *, now_ms: int = 0, dispatch: int = 0) -> Settled:
        return Settled(tuple(super().complete(completions)), tuple(self.dispatch(dispatch, now_ms=now_ms)))


@pytest.mark.parametrize(
    ("slots", "others", "runs_s", "share"), [(4, 1, 1.0, 0.5), (4, 1, 0.1, 0.5), (10, 4, 1.0, 0.2)]
)
def test_overestimated_tenant_gets_its_whole_share(slots: int, others: int, runs_s: float, share: float) -> None:
    """Estimated at 10 s each, its nodes take a tenth or a hundredth of that."""
    oracle = Estimating()
    policies = [TenantPolicy("capped", cap=2), *(TenantPolicy(f"other{i}") for i in range(others))]
    oracle.load(Snapshot(Pool(slots={"cutout": slots}), policies))
    seconds = {"capped": runs_s} | {f"other{i}": 10.0 for i in range(others)}
    found = play(oracle, seconds, slots=slots, until_s=300)
    assert found["capped"] == pytest.approx(share, abs=0.01)


@given(
    cap=st.integers(1, 3),
    weights=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    costs=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    ends=st.integers(1, 60),
    measured=st.integers(0, 10),
)
def test_credit_is_bounded_once_the_cap_is_lifted(cap, weights, costs, ends, measured) -> None:
    """Much was overpaid at the cap. Lifted, the tenant is ahead of the bound by two of its nodes at most: its head uses
    credit when it returns, and the tenant keeps some."""
    oracle = Estimating()
    policies = [TenantPolicy("capped", weights[0], cap=cap), TenantPolicy("other", weights[1])]
    oracle.load(Snapshot(Pool(slots={"cutout": 4}), policies))
    for name, cost in zip(("capped", "other"), costs, strict=True):
        oracle.enqueue([Node(f"{name}{i}", name, "u", TRACK, microseconds(cost)) for i in range(130)])
    running = oracle.dispatch(4)
    for _ in range(ends):
        one = running.pop(0)
        of_estimate = measured / 100 if one.node.tenant_id == "capped" else 1
        end = Completion(one.node.node_id, int(one.charged_us * of_estimate))
        running += oracle.complete([end], dispatch=4).dispatched
    oracle.set_tenant(TenantPolicy("capped", weights[0]))
    slack = {
        name: microseconds(cost) / weight
        for name, cost, weight in zip(("capped", "other"), costs, weights, strict=True)
    }
    level, gaps = dict.fromkeys(slack, 0.0), [0.0]
    for _ in range(40):
        chosen = oracle.complete([Completion(running.pop(0).node.node_id)], dispatch=4).dispatched
        for one in chosen:
            level[one.node.tenant_id] += one.charged_us / oracle.tenants[one.node.tenant_id].policy.weight
            gaps.append(level["capped"] - level["other"])
        running += chosen
    assert max(gaps) - min(gaps) <= 3 * slack["capped"] + slack["other"] + len(gaps)
