"""Compares WeChat's daily bill with our records. A finding is stored and alerted once, so a run can be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from typing import Any, Protocol

from artiway.payments import bill as bills
from artiway.payments.bill import Bill, Difference, Finding, OurRecords
from artiway.payments.credit import CreditService
from artiway.payments.model import (
    BillBroken,
    BillNotReady,
    GatewayRefused,
    NoBill,
    Outcome,
    OutcomeUnknown,
    Payment,
    Source,
)
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("reconciliation")
SHANGHAI = timezone(timedelta(hours=8))  # no summer time since 1991, so no time zone data is needed


class BillGateway(Protocol):
    def bill(self, day: date) -> str: ...

    def query(self, out_trade_no: str) -> Payment: ...


class BillStore(Protocol):
    """Our side of the comparison."""

    def done_days(self, first: date, last: date) -> set[date]: ...

    def first_paid_at(self) -> datetime | None: ...

    def keep_unfinished(self, day: date, status: str, error: str, now: datetime) -> None: ...

    def records(self, bill: Bill, *, start: datetime, end: datetime) -> OurRecords: ...

    def keep_findings(self, day: date, bill: Bill, findings: Sequence[Finding], now: datetime) -> None: ...

    def resolve(self, day: date, kind: Difference, reference: str, now: datetime) -> None: ...

    def finish(self, day: date, now: datetime) -> None: ...

    def alert(self, key: str, kind: str, details: Mapping[str, Any]) -> None: ...


class ReconciliationService:
    """A day is done once its bill is compared. Every run retries the days that are not done."""

    def __init__(
        self,
        gateway: BillGateway,
        store: BillStore,
        credit: CreditService,
        clock: Clock,
        *,
        alarm_hour: int,
        back_fill_days: int,
    ) -> None:
        self._gateway, self._store, self._credit, self._clock = gateway, store, credit, clock
        self._alarm_at, self._back_fill = time(alarm_hour), timedelta(days=back_fill_days)

    def run(self, day: date | None = None) -> dict[str, str]:
        """Compare all days that are due, or the given one again. Returns the status of each day."""
        days = [day] if day is not None else self.due_days()
        return {one.isoformat(): self._reconcile(one) for one in days}

    def due_days(self) -> list[date]:
        """The days since our first payment that are not done and that WeChat still keeps, in Shanghai's time zone."""
        yesterday = self._today() - timedelta(days=1)
        first_paid_at = self._store.first_paid_at()
        first = first_paid_at.astimezone(SHANGHAI).date() if first_paid_at else yesterday
        first = min(max(first, yesterday - self._back_fill), yesterday)
        done = self._store.done_days(first, yesterday)
        count = (yesterday - first).days + 1
        return [one for one in (first + timedelta(days=n) for n in range(count)) if one not in done]

    def _reconcile(self, day: date) -> str:
        now = self._clock.now()
        try:
            bill = bills.parse(self._gateway.bill(day))
        except BillNotReady:
            self._store.keep_unfinished(day, "WAITING", "not ready", now)
            self._alarm_if_late(day)
            return "WAITING"
        except NoBill:
            bill = bills.EMPTY_BILL  # correct only if we have no payments either; the comparison checks that
        except (BillBroken, OutcomeUnknown, GatewayRefused) as error:
            logger.error("bill not compared", day=day.isoformat(), reason=str(error))
            self._store.keep_unfinished(day, "FAILED", str(error), now)
            if isinstance(error, BillBroken):
                self._store.alert(f"bill:{day}:broken", "BILL_BROKEN", {"day": day.isoformat(), "reason": str(error)})
            self._alarm_if_late(day)
            return "FAILED"
        start = datetime.combine(day, time(), SHANGHAI)
        records = self._store.records(bill, start=start, end=start + timedelta(days=1))
        findings = bills.compare(bill, records)
        self._store.keep_findings(day, bill, findings, now)
        missing = [finding for finding in findings if finding.kind is Difference.UNPAID_HERE]
        unsettled = [finding for finding in missing if not self._is_settled(day, finding)]
        if unsettled:
            return "COMPARED"
        self._store.finish(day, self._clock.now())
        return "DONE"

    def _is_settled(self, day: date, finding: Finding) -> bool:
        """Credit a missing payment after a signed query, never from the bill alone.

        False if the query has no outcome: the day is compared again.
        """
        try:
            outcome = self._credit.record(self._gateway.query(finding.reference), Source.BILL)
        except OutcomeUnknown:
            return False
        except GatewayRefused as refusal:
            logger.warning("difference not repaired", day=day.isoformat(), reason=refusal.code)
            return True
        if outcome in {Outcome.CREDITED, Outcome.ALREADY}:
            self._store.resolve(day, finding.kind, finding.reference, self._clock.now())
        return True

    def _alarm_if_late(self, day: date) -> None:
        local = self._clock.now().astimezone(SHANGHAI)
        if day < self._today() - timedelta(days=1) or local.time() >= self._alarm_at:
            self._store.alert(f"bill:{day}:late", "BILL_LATE", {"day": day.isoformat()})

    def _today(self) -> date:
        return self._clock.now().astimezone(SHANGHAI).date()
