"""Every five minutes: whatever WeChat has not told us of, we ask for. Bounded, time-boxed, resumed next time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from typing import Protocol, TypedDict

from artiway.payments.model import Order, OutcomeUnknown, Payment, RateLimited, Refund
from artiway.payments.service import OrderService
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("sweep")
MOST_DOUBLINGS = 4


class DueOrders(Protocol):
    def claim_due_orders(self, *, now: datetime, leased_until: datetime, limit: int) -> Sequence[Order]:
        """Open orders that are due; nobody else gets them until the lease is over."""

    def put_off_order(self, order: Order, at: datetime) -> None: ...

    def claim_due_refunds(self, *, now: datetime, leased_until: datetime, limit: int) -> Sequence[Refund]: ...

    def put_off_refund(self, refund: Refund, at: datetime) -> None: ...


class Lease(TypedDict):
    now: datetime
    leased_until: datetime
    limit: int


@dataclass(frozen=True)
class SweepLimits:
    batch: int
    concurrency: int
    work_s: int
    interval_s: int
    lease_s: int


class SweepService:
    """An order whose outcome is not known stays open and is asked for again, later and later."""

    def __init__(self, due: DueOrders, orders: OrderService, clock: Clock, limits: SweepLimits) -> None:
        self._due, self._orders, self._clock, self._limits = due, orders, clock, limits
        self._interval = timedelta(seconds=limits.interval_s)

    def run(self, *, is_early: bool = False) -> dict[str, int]:
        """One run. Returns what became of the orders and refunds that it asked for.

        An operator who does not want to wait may have it ask for the young ones, too.
        """
        started_at = self._clock.now()
        stop_at = started_at + timedelta(seconds=self._limits.work_s)
        interval = timedelta(seconds=self._limits.interval_s)
        due_at = started_at + interval if is_early else None
        self._interval = interval + timedelta(seconds=1 if is_early else 0)  # so that an early run asks only once
        done: Counter[str] = Counter(dict.fromkeys(("asked", "unknown", "failed", "limited"), 0))
        limited = Event()
        # WeChat is asked by a few at once; what it says is written down by this thread alone.
        with ThreadPoolExecutor(self._limits.concurrency) as pool:
            while self._clock.now() < stop_at and not limited.is_set():
                claimed = self._due.claim_due_orders(**self._lease(due_at))
                answers = [pool.submit(self._ask, order, limited) for order in claimed]
                for order, answer in zip(claimed, answers, strict=True):
                    done[self._apply(order, answer)] += 1
                if not claimed:
                    break
        while self._clock.now() < stop_at and not limited.is_set():
            refunds = self._due.claim_due_refunds(**self._lease(due_at))
            for refund in refunds:
                done[self._follow(refund, limited)] += 1
            if not refunds:
                break
        return dict(done)

    def _ask(self, order: Order, limited: Event) -> Payment | None:
        """Whoever is told to stop tells the others."""
        if limited.is_set():
            raise RateLimited("told to stop")
        try:
            return self._orders.ask(order)
        except RateLimited:
            limited.set()
            raise

    def _apply(self, order: Order, answer: Future[Payment | None]) -> str:
        now = self._clock.now()
        try:
            self._orders.apply(order, answer.result())
            self._due.put_off_order(order, now + self._interval)
        except RateLimited:
            self._due.put_off_order(order, now)
            return "limited"
        except OutcomeUnknown:
            self._due.put_off_order(order, now + self._backoff(order.query_tries))
            return "unknown"
        except Exception:  # one order's trouble is its own; its lease brings it back
            logger.exception("order not brought up to date", order_id=str(order.order_id))
            return "failed"
        return "asked"

    def _follow(self, refund: Refund, limited: Event) -> str:
        now = self._clock.now()
        try:
            if limited.is_set():
                raise RateLimited("told to stop")
            self._orders.follow_refund(refund)
            self._due.put_off_refund(refund, now + self._interval)
        except RateLimited:
            limited.set()
            self._due.put_off_refund(refund, now)
            return "limited"
        except OutcomeUnknown:
            self._due.put_off_refund(refund, now + self._backoff(refund.query_tries))
            return "unknown"
        except Exception:
            logger.exception("refund not brought up to date", refund_id=str(refund.refund_id))
            return "failed"
        return "asked"

    def _lease(self, due_at: datetime | None) -> Lease:
        now = self._clock.now()
        lease = timedelta(seconds=self._limits.lease_s)
        until = now + (lease if due_at is None else max(lease, self._interval))
        return {"now": due_at or now, "leased_until": until, "limit": self._limits.batch}

    def _backoff(self, tries: int) -> timedelta:
        """The first time as usual, then twice as long each time, up to an hour and more."""
        return self._interval * (1 << min(max(tries - 1, 0), MOST_DOUBLINGS))
