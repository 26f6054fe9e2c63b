"""Asks the providers of a route in their order, and falls over to the next until the first content has come."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from artiway.circuits.model import Attempt, StoppedSteps
from artiway.errors import Unavailable
from artiway.generations.model import estimated_tokens
from artiway.generations.providers.model import (
    FAULTS,
    Chosen,
    FailureCode,
    Finish,
    FinishReason,
    Item,
    Limits,
    Prompt,
    Provider,
    ProviderFailed,
    RoutedItem,
    Target,
    Usage,
)
from artiway.generations.providers.routes import Routes
from artiway.platform import metrics
from artiway.platform.logs import Logger

logger = Logger("providers")

# The circuits of providers stand beside those of steps, in a pool of their own.
POOL = "text"
IMAGE_TOKENS = 1_000  # a common size; what is not used is given back
BUSY_S = 2


class Circuits(Protocol):
    def stopped(self) -> StoppedSteps: ...
    def record(self, attempts: Iterable[Attempt]) -> None: ...


class Quota(Protocol):
    def take(self, target: Target, tokens: int) -> int:
        """Seconds to wait, or 0 if a request and its tokens were taken."""

    def give_back(self, target: Target, tokens: int) -> None: ...


class ProviderRouter:
    """A provider whose circuit is open, whose minute is used up or whose guard is full is passed over, not called."""

    def __init__(
        self,
        routes: Callable[[], Routes],
        provider: Provider,
        circuits: Circuits,
        quota: Quota,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._routes, self._provider, self._circuits, self._quota = routes, provider, circuits, quota
        self._now_s = now_s

    def targets(self, service: str, *, is_paid: bool) -> Sequence[Target]:
        return self._routes().of(service, is_paid=is_paid)

    def named(self, model: str, services: Collection[str], *, is_paid: bool) -> Sequence[Target]:
        return self._routes().named(model, services, is_paid=is_paid)

    def stream(
        self,
        targets: Sequence[Target],
        prompt: Prompt,
        limits: Limits,
        is_cancelled: Callable[[], bool],
        admit: Callable[[Target], bool] = lambda _target: True,
    ) -> Iterator[RoutedItem]:
        stopped = self._stopped()
        ends_at = self._now_s() + limits.total_s
        failures: list[ProviderFailed] = []
        spent: Usage | None = None
        for target in targets:
            left_s = ends_at - self._now_s()
            if left_s <= 0:
                break
            if (failure := self._refusal(target, prompt, stopped, admit)) is not None:
                failures.append(failure)
                continue
            yield Chosen(target, spent)
            spent = None
            call = self._call(target, prompt, replace(limits, total_s=left_s), is_cancelled, stopped.now)
            try:
                with contextlib.closing(call) as items:
                    yield from items
            except ProviderFailed as error:
                if error.is_billable:  # text was shown: only a new attempt may begin again
                    raise
                failures.append(error)
                spent = error.usage
                metrics.emit("ProviderFallOvers", 1, provider=target.provider)
            else:
                return
        raise _most_hopeful(failures)

    def _refusal(
        self, target: Target, prompt: Prompt, stopped: StoppedSteps, admit: Callable[[Target], bool]
    ) -> ProviderFailed | None:
        """Why the target is not called now. The order is from the cheapest check to the one that takes something."""
        if target.is_key_missing:
            return _failed(target, FailureCode.KEY, "no key is configured for the provider")
        circuit = stopped.of(POOL, target.provider)
        if circuit is not None and (wait_s := circuit.probes_in_s(stopped.now)):
            return _failed(target, FailureCode.AWAY, "the provider fails at present", wait_s)
        if not admit(target):
            return _failed(target, FailureCode.BUSY, "as many texts as the model may write run already", BUSY_S)
        if wait_s := self._quota.take(target, reserved_tokens(prompt)):
            metrics.emit("ProviderQuotaUsedUp", 1, provider=target.provider)
            return _failed(target, FailureCode.BUSY, "the provider's limit per minute is used up", wait_s)
        return None

    def _call(
        self,
        target: Target,
        prompt: Prompt,
        limits: Limits,
        is_cancelled: Callable[[], bool],
        dispatched_at: datetime,
    ) -> Generator[Item, None, None]:
        reserved = reserved_tokens(prompt)
        used = reserved  # what counts against the minute
        try:
            for item in self._provider.stream(target, prompt, limits, is_cancelled):
                if isinstance(item, Finish):
                    used = _used(item.usage, reserved)
                    if item.reason is not FinishReason.CANCELLED:
                        self._record(target, dispatched_at)
                yield item
        except ProviderFailed as error:
            used = _used(error.usage, reserved if error.is_billable else 0)
            metrics.emit("ProviderFailures", 1, provider=target.provider, code=error.reason)
            if error.reason in FAULTS:
                self._record(target, dispatched_at, error.reason)
            raise
        finally:
            self._quota.give_back(target, reserved - used)

    def _stopped(self) -> StoppedSteps:
        try:
            return self._circuits.stopped()
        except Unavailable as error:
            logger.warning("circuits not read, every provider is tried", reason=error.code)
            return StoppedSteps(datetime.now(UTC))

    def _record(self, target: Target, dispatched_at: datetime, error: str = "") -> None:
        try:
            self._circuits.record([Attempt(POOL, target.provider, dispatched_at, error)])
        except Unavailable as away:
            logger.warning("circuit not recorded", provider=target.provider, reason=away.code)


def reserved_tokens(prompt: Prompt) -> int:
    """The worst case: what is not used is given back."""
    read = sum(estimated_tokens(one.text) + IMAGE_TOKENS * len(one.images) for one in prompt.messages)
    return read + prompt.max_tokens


def _used(usage: Usage | None, otherwise: int) -> int:
    return otherwise if usage is None else usage.input_tokens + usage.output_tokens


def _failed(target: Target, code: FailureCode, message: str, retry_after_s: int | None = None) -> ProviderFailed:
    return ProviderFailed(
        code, message, provider=target.provider, model_id=target.model_id, retry_after_s=retry_after_s
    )


def _most_hopeful(failures: Sequence[ProviderFailed]) -> ProviderFailed:
    """A text waits if any of its providers may have time later, and fails only if none can take it."""
    if not failures:
        return ProviderFailed(FailureCode.TIMEOUT, "no provider answered in time", phase="total")
    waiting = [failure for failure in failures if failure.is_waiting]
    if waiting:
        return min(waiting, key=lambda failure: failure.retry_after_s or BUSY_S)
    return next((failure for failure in failures if failure.is_retryable), failures[0])
