"""Ends and returns of attempts: the text, the outcome and the settlement are one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

from artiway.errors import Unavailable
from artiway.generations import messages
from artiway.generations.feed.model import Backpressure, Event, Restart, Text, Usage, UsageSource
from artiway.generations.feed.writer import Feed
from artiway.generations.margins.model import used_models
from artiway.generations.model import (
    Call,
    Failure,
    FailureCode,
    Found,
    Generation,
    Outcome,
    Rules,
    Scope,
    Status,
    end_of,
    estimated_tokens,
)
from artiway.generations.ports import GenerationStore, GenerationTransaction
from artiway.outbox.model import Message
from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.points.service import PointsService

logger = Logger("generations")
LONGEST_DELAY_S = 300


class Lifecycle:
    """Every method is safe to repeat: an attempt that is not the newest, or that has ended, changes nothing."""

    def __init__(
        self, store: GenerationStore, points: PointsService, feed: Feed, *, rules: Callable[[], Rules]
    ) -> None:
        self._store, self._points, self._feed, self._rules = store, points, feed, rules

    def finish(self, generation: Generation, outcome: Outcome, calls: Sequence[Call] = ()) -> Generation | None:
        """End an attempt by its worker. None if the attempt is not the newest; the caller publishes the event.

        `calls` are those of the attempt: they are reported once, with the transaction that ends it.
        """
        with self._store.open(generation.tenant_id) as tx:
            return self._end(tx, generation, outcome, calls, is_by_worker=True)

    def stop(self, tx: GenerationTransaction, generation: Generation, outcome: Outcome) -> Generation | None:
        """End a text without its worker. The caller publishes the end after the commit, with `publish_end`."""
        return self._end(tx, generation, outcome, _lost(generation), is_by_worker=False)

    def put_back(
        self,
        generation: Generation,
        failure: Failure,
        calls: Sequence[Call] = (),
        *,
        is_counted: bool,
        delay_s: float | None = None,
    ) -> Generation | None:
        """Return the text to its lane. Its next attempt begins with the first character."""
        rules = self._rules()
        doubled = rules.backoff_s * 2 ** min(generation.failures, 10)
        wait_s = min(float(doubled) if delay_s is None else delay_s, LONGEST_DELAY_S)
        with self._store.open(generation.tenant_id) as tx:
            waiting = self._requeue(tx, generation, failure, calls, delay_s=wait_s, is_counted=is_counted)
        if waiting is not None and not is_counted:
            self.publish(waiting, waiting.attempt, [Backpressure(Scope.PROVIDER, round(wait_s))])
        return waiting

    def advance(
        self, generation: Generation, found: Found, calls: Sequence[Call] = (), *, input_tokens: int
    ) -> Generation | None:
        """The first stage of a chain has delivered: in one transaction the text waits in the lane of the second.

        None if the attempt is not the newest. `input_tokens` is the estimate of the second prompt.
        """
        assert generation.chain is not None
        chain = replace(generation.chain, found=found)
        with self._store.open(generation.tenant_id) as tx:
            waiting = tx.advance(generation, chain, input_tokens=min(input_tokens, chain.input_tokens))
            if waiting is None:
                return None
            tx.correct_share(generation, used_tokens=found.usage.input_tokens + found.usage.output_tokens)
            tx.add_usage(generation, used_models(calls))
            tx.send(_wake_up(waiting))
        logger.info("first stage ended", generation_id=waiting.wire_id, attempt=waiting.attempt, lane=waiting.lane)
        return waiting

    def lose(self, tenant_id: UUID, generation_id: UUID, attempt: int) -> bool:
        """The lease of an attempt has ended: the text waits again, or fails after too many attempts."""
        ended: Generation | None = None
        with self._store.open(tenant_id) as tx:
            generation = tx.lock(generation_id)
            if generation is None or generation.attempt != attempt or generation.status is not Status.RUNNING:
                return False
            failure = Failure(FailureCode.WORKER_LOST, "the worker was lost")
            if generation.cancel_requested_at is not None:
                ended = self.stop(tx, generation, cancelled(generation))
            elif generation.failures + 1 >= self._rules().attempts:
                ended = self.stop(tx, generation, Outcome(Status.FAILED, failure=failure))
            else:
                self._requeue(tx, generation, failure, _lost(generation), delay_s=0, is_counted=True)
        if ended is not None:
            self.publish_end(ended)
        return True

    def publish_end(self, ended: Generation) -> None:
        """The end of a text without its worker: its attempt has a number of its own, so readers begin it anew."""
        events: list[Event] = [Restart()] if ended.attempt > 1 else []
        if ended.text:
            events.append(Text(ended.text, 0))
        self.publish(ended, ended.attempt, [*events, end_of(ended)])

    def publish(self, generation: Generation, attempt: int, events: list[Event]) -> None:
        """A lost Redis fails nothing: readers find the state in PostgreSQL."""
        try:
            self._feed.append(generation.generation_id, attempt, events)
        except Unavailable:
            metrics.emit("FeedMisses", len(events))

    def _requeue(
        self,
        tx: GenerationTransaction,
        generation: Generation,
        failure: Failure,
        calls: Sequence[Call],
        *,
        delay_s: float,
        is_counted: bool,
    ) -> Generation | None:
        waiting = tx.requeue(generation, failure, delay_s=delay_s, is_counted=is_counted)
        if waiting is None:
            return None
        tx.correct_share(generation, used_tokens=0)
        tx.add_usage(generation, used_models(calls))
        tx.send(_wake_up(waiting, delay_s=int(delay_s)))
        logger.info("generation waits again", generation_id=waiting.wire_id, reason=failure.code, delay_s=delay_s)
        return waiting

    def _end(
        self,
        tx: GenerationTransaction,
        generation: Generation,
        outcome: Outcome,
        calls: Sequence[Call],
        *,
        is_by_worker: bool,
    ) -> Generation | None:
        stage_tokens = outcome.used_tokens
        outcome = outcome.after(generation.chain)
        charge = outcome.charge(generation.price, hold_points=generation.price_points)
        ended = tx.end(generation, outcome, charged_points=charge, is_by_worker=is_by_worker)
        if ended is None:
            return None
        if generation.status is Status.RUNNING:
            tx.correct_share(generation, used_tokens=stage_tokens)
        self._settle(tx, generation, outcome, charge)
        tx.add_usage(generation, used_models(calls, ended))
        metrics.emit("GenerationsEnded", 1, lane=generation.lane, status=outcome.status)
        if outcome.usage_source is not None:
            is_estimated = outcome.usage_source is UsageSource.ESTIMATED
            metrics.emit("UsageEstimated", 100.0 * is_estimated, "Percent")
        logger.info(
            "generation ended", generation_id=ended.wire_id, status=ended.status, attempt=ended.attempt, points=charge
        )
        return ended

    def _settle(self, tx: GenerationTransaction, generation: Generation, outcome: Outcome, charge: int) -> None:
        reference = f"generation:{generation.generation_id}"
        if generation.allowance_day is not None:
            unused = generation.reserved_tokens - outcome.used_tokens
            # A provider may count more than was reserved; the day's allowance then ends sooner.
            tx.return_allowance(generation.user_id, generation.allowance_day, unused)
        elif charge:
            self._points.confirm_hold(
                tenant_id=generation.tenant_id,
                hold_id=generation.generation_id,
                charge_points=charge,
                reference=reference,
            )
        else:
            self._points.cancel_hold(
                tenant_id=generation.tenant_id,
                user_id=generation.user_id,
                hold_id=generation.generation_id,
                reference=reference,
            )


def _wake_up(waiting: Generation, *, delay_s: int = 0) -> Message:
    return messages.wake_up(
        tenant_id=waiting.tenant_id,
        generation_id=waiting.generation_id,
        lane=waiting.lane,
        trace_id=waiting.trace_id,
        delay_s=delay_s,
    )


def _lost(generation: Generation) -> list[Call]:
    """The call of a running attempt whose worker is lost: its prompt was read, and its snapshot written."""
    if generation.status is not Status.RUNNING or not generation.provider:
        return []
    usage = Usage(generation.input_tokens, estimated_tokens(generation.text))
    return [Call(generation.provider, generation.model_id, generation.cost, usage, UsageSource.ESTIMATED)]


def cancelled(generation: Generation, text: str | None = None) -> Outcome:
    """A cancelled text is charged for its prompt and for what was delivered; without a text for nothing."""
    delivered = generation.text if text is None else text
    usage = Usage(generation.input_tokens, estimated_tokens(delivered)) if delivered else None
    return Outcome(
        Status.CANCELLED,
        text=delivered,
        usage=usage,
        usage_source=UsageSource.ESTIMATED if usage else None,
        finish_reason="cancelled",
    )
