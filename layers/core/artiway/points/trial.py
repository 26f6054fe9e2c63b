"""Trial points: once per tenant, on request, bounded per address so that sign-ups in series do not pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from artiway.errors import Conflict, TooMany
from artiway.identity.model import Throttle, digest
from artiway.points.model import Entry, Terms
from artiway.points.service import PointsService

# The ledger key of a tenant's trial: the ledger stores a key once per tenant.
TRIAL_KEY = "trial"


class TrialUsed(Conflict):
    code = "POINTS_409_TRIAL_USED"

    def __init__(self) -> None:
        super().__init__("this organisation has had its trial points")


class TrialOff(Conflict):
    code = "POINTS_409_TRIAL_OFF"

    def __init__(self) -> None:
        super().__init__("there are no trial points at present")


class TrialAddress(TooMany):
    code = "POINTS_429_TRIAL_ADDRESS"

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("too many trials from this address; wait before the next", retry_after_s=retry_after_s)


@dataclass(frozen=True)
class TrialTerms:
    """`points` 0: there is no trial."""

    points: int
    per_address: int
    window_s: int


class Addresses(Protocol):
    def count_attempt(self, subjects: Sequence[tuple[bytes, int]], throttle: Throttle) -> int: ...


class TrialService:
    def __init__(self, points: PointsService, addresses: Addresses, terms: Callable[[], TrialTerms]) -> None:
        self._points, self._addresses, self._terms = points, addresses, terms

    def take(self, *, tenant_id: UUID, user_id: UUID, address: str) -> Entry:
        """Grant the trial points to the caller. Of two requests at once both get the one entry."""
        terms = self._terms()
        if terms.points == 0:
            raise TrialOff
        if self._points.entry(tenant_id=tenant_id, idempotency_key=TRIAL_KEY) is not None:
            raise TrialUsed
        subject, window = digest(f"trial-address:{address}"), timedelta(seconds=terms.window_s)
        throttle = Throttle(terms.per_address, terms.per_address, window, first_wait=window, longest_wait=window)
        if wait_s := self._addresses.count_attempt([(subject, terms.per_address)], throttle):
            raise TrialAddress(wait_s)
        return self._points.grant(
            tenant_id=tenant_id,
            user_id=user_id,
            amount_points=terms.points,
            idempotency_key=TRIAL_KEY,
            reference=TRIAL_KEY,
            terms=Terms(granted_by=user_id),
        )


def offer(terms: TrialTerms, *, had_trial: bool) -> int | None:
    """How many points a request would bring now, or None."""
    return None if had_trial or terms.points == 0 else terms.points
