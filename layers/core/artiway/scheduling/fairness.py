"""How fair was it? Service against weight over a window, and how near the worst pair came to the bound (R-WFQ-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from artiway.scheduling.model import TenantState

MINUTE_MS = 60_000
WINDOW_LIMIT_MINUTES = 120


class Ledger(Protocol):
    """Who was served how much, and who waits."""

    def service_us(self, first_minute: int, last_minute: int | None = None) -> dict[str, int]: ...

    def tenants(self, tenant_ids: Sequence[str] | None = None) -> list[TenantState]: ...


@dataclass(frozen=True, slots=True)
class Share:
    """`share` and `ideal_share` are parts of one among the tenants that contended through the whole window."""

    tenant_id: str
    weight: int
    service_us: int
    share: float
    ideal_share: float
    is_contending: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tenants, how far apart their service per weight is, and how far it may be."""

    first: str
    second: str
    gap_us: float
    bound_us: float


@dataclass(frozen=True, slots=True)
class Fairness:
    tenants: tuple[Share, ...]
    bound_us: float
    worst: Pair | None
    jain: float


def report(queue: Ledger, *, now_ms: int, window_s: int) -> Fairness:
    """Whole minutes up to now. A tenant that was idle or at its cap in between is shown, and not compared."""
    last = now_ms // MINUTE_MS
    minutes = min(max(1, -(-window_s // 60)), WINDOW_LIMIT_MINUTES)
    service = queue.service_us(last - minutes + 1, last)
    states = queue.tenants(sorted(service))
    return measure(states, service, since_ms=(last - minutes + 1) * MINUTE_MS)


def measure(states: Sequence[TenantState], service: Mapping[str, int], *, since_ms: int) -> Fairness:
    contending = [s for s in states if s.contending_since_ms is not None and s.contending_since_ms <= since_ms]
    served = sum(service.get(s.policy.tenant_id, 0) for s in states)
    contended = sum(service.get(s.policy.tenant_id, 0) for s in contending)
    weights = sum(s.policy.weight for s in contending)
    names = {s.policy.tenant_id for s in contending}
    shares = []
    for state in states:
        name, weight = state.policy.tenant_id, state.policy.weight
        is_contending = name in names
        whole = contended if is_contending else served
        shares.append(
            Share(
                tenant_id=name,
                weight=weight,
                service_us=service.get(name, 0),
                share=service.get(name, 0) / whole if whole else 0.0,
                ideal_share=weight / weights if is_contending else 0.0,
                is_contending=is_contending,
            )
        )
    level = {s.policy.tenant_id: service.get(s.policy.tenant_id, 0) / s.policy.weight for s in contending}
    slack = {s.policy.tenant_id: s.dearest_us / s.policy.weight for s in contending}
    worst = _worst(level, slack)
    values = list(level.values())
    squares = sum(value * value for value in values)
    return Fairness(
        tenants=tuple(shares),
        bound_us=sum(sorted(slack.values())[-2:]),
        worst=worst,
        jain=sum(values) ** 2 / (len(values) * squares) if squares else 1.0,
    )


def _worst(level: Mapping[str, float], slack: Mapping[str, float]) -> Pair | None:
    """The pair that is nearest to its own bound, relatively. Only extremes can be: sort, do not try all pairs."""
    if len(level) < 2:
        return None
    ordered = sorted(level, key=lambda name: level[name])
    edge = {*ordered[:50], *ordered[-50:]}
    pairs = (
        Pair(low, high, abs(level[high] - level[low]), slack[low] + slack[high])
        for low, high in combinations(sorted(edge, key=lambda name: level[name]), 2)
    )
    return max(pairs, key=lambda pair: pair.gap_us / max(pair.bound_us, 1.0))
