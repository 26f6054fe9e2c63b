"""The worker of a lane: after a wake-up it claims the text whose turn it is, and goes on while there is time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from artiway.errors import Unavailable
from artiway.generations.feed.model import Backpressure, Info
from artiway.generations.feed.writer import Feed, FeedWriter
from artiway.generations.lifecycle import Lifecycle
from artiway.generations.model import (
    Failure,
    Found,
    Generation,
    GuardLimits,
    Outcome,
    Refusal,
    Rules,
    Status,
    end_of,
    estimated_tokens,
)
from artiway.generations.ports import Pictures, WorkerStore
from artiway.generations.providers.model import Limits, ProviderFailed, Router, Target
from artiway.generations.services import Services
from artiway.generations.steps import clean_up, decide, execute, guard, publish, validate
from artiway.generations.steps.validate import WakeUp
from artiway.platform import metrics, tracing
from artiway.platform.clock import Clock
from artiway.platform.logs import Logger

logger = Logger("generations")
# After so many returns the message ends, and the sweep sends another when the text could run: none is dead-lettered.
MOST_RETURNS = 20
SLACK_S = 20


@dataclass(frozen=True)
class Served:
    """`return_after_s`: nothing could be claimed, so the message returns through its queue."""

    texts: int
    return_after_s: int | None = None


class TextWorker:
    def __init__(
        self,
        store: WorkerStore,
        lifecycle: Lifecycle,
        services: Services,
        router: Router,
        feed: Feed,
        clock: Clock,
        *,
        pictures: Pictures,
        rules: Callable[[], Rules],
        limits: Callable[[], GuardLimits],
        phases: Limits,
        worker_id: str,
        jitter: Callable[[], float] = random.random,
        cancel_check_s: float = publish.CANCEL_CHECK_S,
    ) -> None:
        self._store, self._lifecycle, self._services = store, lifecycle, services
        self._router, self._feed, self._clock, self._pictures = router, feed, clock, pictures
        self._rules, self._limits, self._phases = rules, limits, phases
        self._worker_id, self._jitter, self._cancel_check_s = worker_id, jitter, cancel_check_s
        self._noted: dict[str, Mapping[str, Sequence[str]]] = {}

    def serve(self, wake_up: WakeUp, *, receive_count: int, remaining_s: Callable[[], float]) -> Served:
        """Write texts of the lane until none can be claimed, or the next might not end in time."""
        texts = 0
        while True:
            found = self.serve_one(wake_up.lane)
            if isinstance(found, Generation):
                texts += 1
                if remaining_s() < self._phases.total_s + SLACK_S:
                    self._store.wake(lane=wake_up.lane, age_s=0, parallelism=self._limits().parallelism, limit=1)
                    return Served(texts)
                continue
            if found is None or texts or receive_count > MOST_RETURNS:
                return Served(texts)
            delay_s = guard.delay_s(receive_count, self._jitter())
            self._announce(wake_up, found, delay_s)
            return Served(0, return_after_s=delay_s)

    def serve_one(self, lane: str) -> Generation | Refusal | None:
        """The generation that was claimed and written, or why there is none."""
        limits, rules = self._limits(), self._rules()
        decision = decide.decide(lane, self._services, self._router, limits)
        if self._noted.get(lane) != decision.models:
            self._store.note_routes(decision)
            self._noted[lane] = decision.models
        found = guard.take(self._store, decision, worker_id=self._worker_id, lease_s=rules.lease_s)
        if isinstance(found, Generation):
            with tracing.traced(found.trace_id or None):
                self._write(found, limits, rules)
        return found

    def _write(self, generation: Generation, limits: GuardLimits, rules: Rules) -> None:
        first = generation.first_attempt
        with FeedWriter(self._feed, generation.generation_id, generation.attempt, first_attempt=first) as writer:
            publication = publish.Publication(
                writer,
                self._store,
                generation,
                rules,
                now=self._clock.now,
                cancel_check_s=self._cancel_check_s,
            )
            try:
                prompt = validate.prompt(generation, self._services, self._pictures)
                if isinstance(prompt, Failure):
                    ended = self._lifecycle.finish(generation, Outcome(Status.FAILED, failure=prompt))
                    if ended is not None:
                        writer.close(end_of(ended))
                    return
                service = self._services.stage_of(generation)[0]
                execution = execute.execute(
                    generation,
                    prompt,
                    self._targets(generation, service.name),
                    router=self._router,
                    store=self._store,
                    publication=publication,
                    limits=limits,
                    phases=self._phases,
                    parsed=service.parsed if prompt.json_schema else None,
                    is_shown=not generation.is_in_first_stage,
                )
            except ProviderFailed as failure:  # no route, or the picture cannot be fetched now
                execution = execute.refused(generation, failure)
            if execution.result is not None and generation.is_in_first_stage and not publication.must_stop():
                self._advance(generation, execution, writer)
                return
            clean_up.clean_up(generation, execution, publication, writer, self._lifecycle, rules, now=self._clock.now())

    def _targets(self, generation: Generation, service: str) -> Sequence[Target]:
        """The models of the service's route, or the one that the caller chose."""
        is_paid, chosen = generation.lane.startswith("paid_"), generation.input.get("model")
        if chosen is None:
            return self._router.targets(service, is_paid=is_paid)
        return self._router.named(str(chosen), self._services.chats(), is_paid=is_paid)

    def _advance(self, generation: Generation, execution: execute.Execution, writer: FeedWriter) -> None:
        """The first stage of a chain has delivered: the second waits in its own lane."""
        chain, result, target = generation.chain, execution.result, execution.target
        assert chain is not None
        assert result is not None
        assert target is not None
        usage, source = execution.usage, execution.usage_source
        found = Found(result, usage, source, target.provider, target.model_id, generation.attempt)
        later = replace(generation, chain=replace(chain, found=found))
        service, input_, params = self._services.stage_of(later)
        tokens = sum(estimated_tokens(text) for _, text in service.messages(input_, params))
        if self._lifecycle.advance(generation, found, execution.calls, input_tokens=tokens) is None:
            metrics.emit("AttemptsLost", 1)
            return
        writer.info(Info("dependency_completed", {"dependency": chain.dependency}))

    def _announce(self, wake_up: WakeUp, refusal: Refusal, delay_s: int) -> None:
        """Readers of the text see that it waits. A lost Redis costs them this event alone."""
        attempt = self._store.waiting_attempt(wake_up.generation_id)
        if attempt is None:
            return
        try:
            self._feed.append(wake_up.generation_id, attempt, [Backpressure(refusal.scope, delay_s)])
        except Unavailable:
            metrics.emit("FeedMisses", 1)
