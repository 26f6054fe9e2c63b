"""Accepts requests for texts: quota, then lane, then back-pressure, then the hold, then the queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, timedelta
from typing import Any
from uuid import UUID

from artiway import ids
from artiway.generations import messages
from artiway.generations.feed.model import Usage
from artiway.generations.lifecycle import Lifecycle, cancelled
from artiway.generations.model import (
    Chain,
    Generation,
    GenerationEnded,
    GenerationFilter,
    InvalidGeneration,
    LaneFull,
    LaneNotAllowed,
    Mode,
    NewGeneration,
    NoSuchGeneration,
    NoSuchService,
    NotRetryable,
    Requester,
    Status,
    TenantQueueFull,
    Wishes,
    tier_of,
)
from artiway.generations.ports import GenerationStore, GenerationTransaction, Pictures, WorkerStore
from artiway.generations.services import FACTS_TOKENS, Service, Services
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
        pictures: Pictures,
        free_tokens: Callable[[], int],
        hold_ttl_s: int,
    ) -> None:
        """`free_tokens` returns the daily allowance of a user without points."""
        self._store, self._points, self._services, self._lifecycle = store, points, services, lifecycle
        self._clock, self._workers, self._pictures, self._free_tokens = clock, workers, pictures, free_tokens
        self._hold_ttl = timedelta(seconds=hold_ttl_s)

    def services(self) -> list[Service]:
        return self._services.listed()

    def submit(self, *, tenant_id: UUID, user_id: UUID, wishes: Wishes) -> Generation:
        """Accept a text. Its points are held for the worst case, and charged for what is used."""
        service = self._services.get(wishes.service)
        if not service.is_listed and "messages" not in wishes.input:
            raise NoSuchService(wishes.service)
        input_, params = service.checked_input(wishes.input), service.checked_params(wishes.params)
        if "inputId" in input_:
            self._pictures.check(tenant_id, input_["inputId"])
        worst, chain = self._stages(service, input_, params, service.checked_tokens(wishes.max_tokens))
        new = NewGeneration(
            generation_id=ids.new_id(),
            user_id=user_id,
            service=service.name,
            lane="",
            input=input_,
            params=params,
            max_tokens=worst.output_tokens,
            input_tokens=worst.input_tokens,
            price=service.price,
            price_points=0,
            allowance_day=None,
            chain=chain,
        )
        new = replace(new, price_points=service.price.points(new.worst_case))
        with self._store.open(tenant_id) as tx:
            depth = tx.check_active()
            tx.lock_submissions()
            is_free = self._is_free(tx, tenant_id, new, wishes)
            new = self._laned(new, _lane(service.mode, wishes, is_free=is_free))
            self._check_room(tx, new.lanes, depth)
            if is_free:
                new = replace(new, price_points=0, allowance_day=self._day())
                self._reserve(tx, tenant_id, new)
            else:
                self._hold(tenant_id, new)
            generation = tx.add(new)
            tx.send(
                messages.wake_up(
                    tenant_id=tenant_id,
                    generation_id=generation.generation_id,
                    lane=generation.lane,
                    trace_id=generation.trace_id,
                )
            )
        metrics.emit("GenerationsAccepted", 1, lane=generation.lane)
        logger.info(
            "generation accepted", generation_id=generation.wire_id, text_service=service.name, lane=generation.lane
        )
        return generation

    def _stages(
        self, service: Service, input_: Mapping[str, Any], params: Mapping[str, Any], max_tokens: int
    ) -> tuple[Usage, Chain | None]:
        """The worst case of the first stage, and of a chain what follows it. Its lane is known with the quota."""
        own = Usage(service.input_tokens(input_, params), max_tokens)
        if service.after is None:
            return own, None
        first = self._services.get(service.after)
        worst = Usage(first.input_tokens(input_, first.checked_params({})), first.usual_tokens)
        later = Usage(own.input_tokens + FACTS_TOKENS, max_tokens)
        reserved = worst.input_tokens + worst.output_tokens + later.input_tokens + later.output_tokens
        return worst, Chain(first.name, reserved, "", later.input_tokens, later.output_tokens)

    def _laned(self, new: NewGeneration, lane: str) -> NewGeneration:
        """A chain waits in the lane of its first stage, of the same tier as the second."""
        if new.chain is None:
            return replace(new, lane=lane)
        mode = self._services.get(new.chain.dependency).mode
        return replace(new, lane=f"{tier_of(lane)}_{mode}", chain=replace(new.chain, lane=lane))

    def _is_free(self, tx: GenerationTransaction, tenant_id: UUID, new: NewGeneration, wishes: Wishes) -> bool:
        """Quota: who has the points pays. Who has not, or chose a free lane, uses the allowance. Past both: 402."""
        if wishes.is_paid is not None:
            return not wishes.is_paid
        balance = self._points.account(tenant_id=tenant_id, user_id=new.user_id).balance
        has_points = balance >= new.price_points
        used = tx.used_allowance(new.user_id, self._day())
        has_allowance = used + new.reserved_tokens <= self._free_tokens()
        if has_points and has_allowance:
            return wishes.lane is not None and tier_of(wishes.lane) == "free"
        if not has_points and not has_allowance:
            raise self._insufficient(tx, tenant_id, new)
        return has_allowance

    def _check_room(self, tx: GenerationTransaction, lanes: Sequence[str], depth: int) -> None:
        """Back-pressure, before points are held: the tenant's queue depth, then that of each lane."""
        if tx.count_live() >= depth:
            retry_after_s = _drain_s(1, tx.recent_ends(window_s=DRAIN_WINDOW_S))
            raise TenantQueueFull("too many unfinished texts", retry_after_s=retry_after_s, limit=depth)
        for lane in lanes:
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
        allowance = self._free_tokens()
        if not tx.reserve_allowance(new.user_id, new.allowance_day, new.reserved_tokens, allowance=allowance):
            raise self._insufficient(tx, tenant_id, new)

    def _insufficient(self, tx: GenerationTransaction, tenant_id: UUID, new: NewGeneration) -> InsufficientPoints:
        """Says what is left of the allowance too: a shorter text may fit into it."""
        balance = self._points.account(tenant_id=tenant_id, user_id=new.user_id).balance
        wanted = new.price.points(new.worst_case)
        error = InsufficientPoints(wanted_points=wanted, balance_points=balance)
        left = max(0, self._free_tokens() - tx.used_allowance(new.user_id, self._day()))
        error.details |= {"freeTokens": left, "wantedTokens": new.reserved_tokens}
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
        wishes = Wishes(failed.service, failed.input, failed.params, failed.wanted_tokens)
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
