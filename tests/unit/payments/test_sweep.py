"""The sweep ends in time, and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from artiway.payments.model import OutcomeUnknown
from artiway.payments.sweep import SweepLimits, SweepService
from tests.fakes.clock import FixedClock

LIMITS = SweepLimits(batch=10, concurrency=1, work_s=60, interval_s=300, lease_s=120)


class Backlog:
    """Open orders with the moment at which each is due."""

    def __init__(self, count: int, due: datetime) -> None:
        self.due = {uuid4(): due for _ in range(count)}

    def claim_due_orders(self, *, now: datetime, leased_until: datetime, limit: int) -> Sequence[Any]:
        claimed = [order_id for order_id, at in sorted(self.due.items(), key=lambda item: item[1]) if at <= now][:limit]
        self.due |= dict.fromkeys(claimed, leased_until)
        return [SimpleNamespace(order_id=order_id, query_tries=1) for order_id in claimed]

    def postpone_order(self, order: Any, at: datetime) -> None:
        self.due[order.order_id] = at

    def claim_due_refunds(self, **_: object) -> Sequence[Any]:
        return []


class SlowOrders:
    """Each question takes a second."""

    def __init__(self, clock: FixedClock) -> None:
        self.asked: list[Any] = []
        self._clock = clock

    def query(self, order: Any) -> None:
        self._clock.advance(seconds=1)
        self.asked.append(order.order_id)

    def apply(self, _order: Any, _payment: None) -> None:
        pass


def test_run_stops_at_its_limit_and_next_continues():
    clock = FixedClock()
    backlog, orders = Backlog(100, clock.now()), SlowOrders(clock)
    sweep = SweepService(backlog, orders, clock, LIMITS)
    assert sweep.run()["asked"] == 60
    assert sweep.run()["asked"] == 40
    assert len(set(orders.asked)) == len(orders.asked) == 100


def test_early_run_queries_every_order_once():
    clock = FixedClock()
    backlog, orders = Backlog(25, clock.now() + timedelta(minutes=4)), SlowOrders(clock)
    sweep = SweepService(backlog, orders, clock, LIMITS)
    assert sweep.run()["asked"] == 0
    assert sweep.run(is_early=True)["asked"] == 25
    assert len(set(orders.asked)) == 25


def test_orders_of_dead_run_are_due_after_lease():
    clock = FixedClock()
    backlog, orders = Backlog(5, clock.now()), SlowOrders(clock)
    backlog.claim_due_orders(now=clock.now(), leased_until=clock.now() + timedelta(seconds=120), limit=10)
    sweep = SweepService(backlog, orders, clock, LIMITS)
    assert sweep.run()["asked"] == 0
    clock.advance(seconds=120)
    assert sweep.run()["asked"] == 5


def test_one_orders_trouble_is_its_own():
    clock = FixedClock()
    backlog, orders = Backlog(3, clock.now()), SlowOrders(clock)
    troubles = iter([OutcomeUnknown("no answer"), RuntimeError("a bug"), None])

    def apply(_order: Any, _payment: None) -> None:
        if trouble := next(troubles):
            raise trouble

    orders.apply = apply
    done = SweepService(backlog, orders, clock, LIMITS).run()
    assert (done["asked"], done["unknown"], done["failed"]) == (1, 1, 1)
