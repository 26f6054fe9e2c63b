"""Every five minutes the sweep queries WeChat for open orders and refunds, in batches and with a time limit."""

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
        """Open orders that are due. No other run claims them before the lease ends."""

    def postpone_order(self, order: Order, at: datetime) -> None: ...

    def claim_due_refunds(self, *, now: datetime, leased_until: datetime, limit: int) -> Sequence[Refund]: ...

    def postpone_refund(self, refund: Refund, at: datetime) -> None: ...


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
    """An order with an unknown outcome stays open and is queried again, with exponential backoff."""

    def __init__(self, due: DueOrders, orders: OrderService, clock: Clock, limits: SweepLimits) -> None:
        self._due, self._orders, self._clock, self._limits = due, orders, clock, limits
        self._interval = timedelta(seconds=limits.interval_s)

    def run(self, *, is_early: bool = False) -> dict[str, int]:
        """One run. Returns how many orders and refunds had each result.

        With `is_early` it also queries orders that are not due yet, for an operator who does not want to wait.
        """
        started_at = self._clock.now()
        stop_at = started_at + timedelta(seconds=self._limits.work_s)
        interval = timedelta(seconds=self._limits.interval_s)
        due_at = started_at + interval if is_early else None
        self._interval = interval + timedelta(
            seconds=1 if is_early else 0
        )  # so that an early run queries each order once
        done: Counter[str] = Counter(dict.fromkeys(("asked", "unknown", "failed", "limited"), 0))
        limited = Event()
        # Several threads query WeChat; only this thread writes to the database.
        with ThreadPoolExecutor(self._limits.concurrency) as pool:
            while self._clock.now() < stop_at and not limited.is_set():
                claimed = self._due.claim_due_orders(**self._lease(due_at))
                answers = [pool.submit(self._query, order, limited) for order in claimed]
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

    def _query(self, order: Order, limited: Event) -> Payment | None:
        """One rate-limited query stops the queries of all threads."""
        if limited.is_set():
            raise RateLimited("another query was rate limited")
        try:
            return self._orders.query(order)
        except RateLimited:
            limited.set()
            raise

    def _apply(self, order: Order, answer: Future[Payment | None]) -> str:
        now = self._clock.now()
        try:
            self._orders.apply(order, answer.result())
            self._due.postpone_order(order, now + self._interval)
        except RateLimited:
            self._due.postpone_order(order, now)
            return "limited"
        except OutcomeUnknown:
            self._due.postpone_order(order, now + self._backoff(order.query_tries))
            return "unknown"
        except Exception:  # one failed order does not stop the run; it is due again after its lease
            logger.exception("order not brought up to date", order_id=str(order.order_id))
            return "failed"
        return "asked"

    def _follow(self, refund: Refund, limited: Event) -> str:
        now = self._clock.now()
        try:
            if limited.is_set():
                raise RateLimited("another query was rate limited")
            self._orders.follow_refund(refund)
            self._due.postpone_refund(refund, now + self._interval)
        except RateLimited:
            limited.set()
            self._due.postpone_refund(refund, now)
            return "limited"
        except OutcomeUnknown:
            self._due.postpone_refund(refund, now + self._backoff(refund.query_tries))
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
        """The usual interval first, then doubled each time, at most 16 times the interval."""
        return self._interval * (1 << min(max(tries - 1, 0), MOST_DOUBLINGS))
