"""Accepts requests for texts: quota, then lane, then back-pressure, then the hold, then the queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, timedelta
from uuid import UUID

from artiway import ids
from artiway.generations import messages
from artiway.generations.feed.model import Usage
from artiway.generations.lifecycle import Lifecycle, cancelled
from artiway.generations.model import (
    Generation,
    GenerationEnded,
    GenerationFilter,
    InvalidGeneration,
    LaneFull,
    LaneNotAllowed,
    Mode,
    NewGeneration,
    NoSuchGeneration,
    NotRetryable,
    Requester,
    Status,
    TenantQueueFull,
    Wishes,
    tier_of,
)
from artiway.generations.ports import GenerationStore, GenerationTransaction, WorkerStore
from artiway.generations.services import Service, Services
from artiway.platform import metrics
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger
from artiway.points.model import InsufficientPoints
from artiway.points.service import PointsService

logger = Logger("generations")
DRAIN_WINDOW_S = 600
RETRY_AFTER_LIMIT_S = 300


class GenerationService:
    def __init__(
        self,
        store: GenerationStore,
        points: PointsService,
        services: Services,
        lifecycle: Lifecycle,
        clock: Clock,
        *,
        workers: WorkerStore,
        free_tokens: Callable[[], int],
        hold_ttl_s: int,
    ) -> None:
        """`free_tokens` returns the daily allowance of a user without points."""
        self._store, self._points, self._services, self._lifecycle = store, points, services, lifecycle
        self._clock, self._workers, self._free_tokens = clock, workers, free_tokens
        self._hold_ttl = timedelta(seconds=hold_ttl_s)

    def services(self) -> list[Service]:
        return self._services.all()

    def submit(self, *, tenant_id: UUID, user_id: UUID, wishes: Wishes) -> Generation:
        """Accept a text. Its points are held for the worst case, and charged for what is used."""
        service = self._services.get(wishes.service)
        input_, params = service.checked_input(wishes.input), service.checked_params(wishes.params)
        max_tokens = service.checked_tokens(wishes.max_tokens)
        worst = Usage(service.input_tokens(input_, params), max_tokens)
        new = NewGeneration(
            generation_id=ids.new_id(),
            user_id=user_id,
            service=service.name,
            lane="",
            input=input_,
            params=params,
            max_tokens=max_tokens,
            input_tokens=worst.input_tokens,
            price=service.price,
            price_points=service.price.points(worst),
            allowance_day=None,
        )
        with self._store.open(tenant_id) as tx:
            depth = tx.check_active()
            tx.lock_submissions()
            is_free = self._is_free(tx, tenant_id, new, wishes)
            lane = _lane(service.mode, wishes, is_free=is_free)
            self._check_room(tx, lane, depth)
            if is_free:
                new = replace(new, price_points=0, allowance_day=self._day())
                self._reserve(tx, tenant_id, new)
            else:
                self._hold(tenant_id, new)
            generation = tx.add(replace(new, lane=lane))
            tx.send(
                messages.wake_up(
                    tenant_id=tenant_id,
                    generation_id=generation.generation_id,
                    lane=lane,
                    trace_id=generation.trace_id,
                )
            )
        metrics.emit("GenerationsAccepted", 1, lane=lane)
        logger.info("generation accepted", generation_id=generation.wire_id, text_service=service.name, lane=lane)
        return generation

    def _is_free(self, tx: GenerationTransaction, tenant_id: UUID, new: NewGeneration, wishes: Wishes) -> bool:
        """Quota: who has the points pays. Who has not, or chose a free lane, uses the allowance. Past both: 402."""
        if wishes.is_paid is not None:
            return not wishes.is_paid
        balance = self._points.account(tenant_id=tenant_id, user_id=new.user_id).balance
        has_points = balance >= new.price_points
        used = tx.used_allowance(new.user_id, self._day())
        has_allowance = used + new.input_tokens + new.max_tokens <= self._free_tokens()
        if has_points and has_allowance:
            return wishes.lane is not None and tier_of(wishes.lane) == "free"
        if not has_points and not has_allowance:
            raise self._insufficient(tx, tenant_id, new)
        return has_allowance

    def _check_room(self, tx: GenerationTransaction, lane: str, depth: int) -> None:
        """Back-pressure, before points are held: the tenant's queue depth, then the lane's."""
        if tx.count_live() >= depth:
            retry_after_s = _drain_s(1, tx.recent_ends(window_s=DRAIN_WINDOW_S))
            raise TenantQueueFull("too many unfinished texts", retry_after_s=retry_after_s, limit=depth)
        load = self._workers.lane_load(lane, window_s=DRAIN_WINDOW_S)
        if load.depth + 1 > load.depth_limit:
            retry_after_s = _drain_s(load.depth + 1 - load.depth_limit, load.ended_lately)
            raise LaneFull("the lane is full", retry_after_s=retry_after_s, lane=lane, limit=load.depth_limit)

    def _hold(self, tenant_id: UUID, new: NewGeneration) -> None:
        """The hold has the id of the generation, so a repeated call holds no more points."""
        self._points.place_hold(
            tenant_id=tenant_id,
            user_id=new.user_id,
            hold_id=new.generation_id,
            amount_points=new.price_points,
            expires_at=self._clock.now() + self._hold_ttl,
            reference=f"generation:{new.generation_id}",
        )

    def _reserve(self, tx: GenerationTransaction, tenant_id: UUID, new: NewGeneration) -> None:
        assert new.allowance_day is not None
        tokens = new.input_tokens + new.max_tokens
        if not tx.reserve_allowance(new.user_id, new.allowance_day, tokens, allowance=self._free_tokens()):
            raise self._insufficient(tx, tenant_id, new)

    def _insufficient(self, tx: GenerationTransaction, tenant_id: UUID, new: NewGeneration) -> InsufficientPoints:
        """Says what is left of the allowance too: a shorter text may fit into it."""
        balance = self._points.account(tenant_id=tenant_id, user_id=new.user_id).balance
        worst = Usage(new.input_tokens, new.max_tokens)
        error = InsufficientPoints(wanted_points=new.price.points(worst), balance_points=balance)
        left = max(0, self._free_tokens() - tx.used_allowance(new.user_id, self._day()))
        error.details |= {"freeTokens": left, "wantedTokens": new.input_tokens + new.max_tokens}
        return error

    def _day(self) -> date:
        return self._clock.now().astimezone(UTC).date()

    # Reads

    def get(self, *, tenant_id: UUID, generation_id: UUID) -> Generation:
        with self._store.open(tenant_id) as tx:
            return _found(tx.get(generation_id))

    def list(
        self, *, tenant_id: UUID, wanted: GenerationFilter, before: UUID | None, limit: int
    ) -> Sequence[Generation]:
        """Newest first."""
        with self._store.open(tenant_id) as tx:
            return tx.page(wanted, before=before, limit=limit)

    # Cancel and retry

    def cancel(self, *, tenant_id: UUID, generation_id: UUID, requester: Requester) -> Generation:
        """End a waiting text at once. The worker of a running one stops the provider within about a second."""
        ended: Generation | None = None
        with self._store.open(tenant_id) as tx:
            generation = _found(tx.lock(generation_id))
            requester.must_control(generation)
            if generation.status is Status.CANCELLED:
                return generation
            if generation.is_ended:
                raise GenerationEnded(generation.status)
            tx.request_cancel(generation_id)
            if generation.status is Status.QUEUED:
                ended = self._lifecycle.stop(tx, generation, cancelled(generation, text=""))
        if ended is not None:
            self._lifecycle.publish_end(ended)
        return ended or generation

    def retry(self, *, tenant_id: UUID, generation_id: UUID, requester: Requester) -> Generation:
        """Submit the request of a failed text again, as a new generation with a hold of its own."""
        failed = self.get(tenant_id=tenant_id, generation_id=generation_id)
        requester.must_control(failed)
        if failed.status is not Status.FAILED:
            raise NotRetryable(failed.status)
        wishes = Wishes(failed.service, failed.input, failed.params, failed.max_tokens)
        return self.submit(tenant_id=tenant_id, user_id=failed.user_id, wishes=wishes)


def _lane(mode: Mode, wishes: Wishes, *, is_free: bool) -> str:
    """The caller's own lane, or the one that the caller names: a lower one for anyone, a higher one with permission."""
    own = f"{'free' if is_free else 'paid'}_{mode}"
    wanted = wishes.lane
    if wanted is None or wanted == own:
        return own
    if wanted not in (f"paid_{mode}", f"free_{mode}"):
        raise InvalidGeneration("lane", f"not one of paid_{mode}, free_{mode}")
    if tier_of(wanted) == "paid" and not wishes.may_raise:
        raise LaneNotAllowed(wanted)
    return wanted


def _drain_s(excess: int, ended: int) -> int:
    """Seconds until this many texts have left, by the rate of the last minutes."""
    if ended == 0:
        return RETRY_AFTER_LIMIT_S
    return max(1, min(RETRY_AFTER_LIMIT_S, math.ceil(excess * DRAIN_WINDOW_S / ended)))


def _found(generation: Generation | None) -> Generation:
    if generation is None:
        raise NoSuchGeneration
    return generation
