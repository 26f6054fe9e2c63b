"""The worker of a lane: after a wake-up it claims the text whose turn it is, and goes on while there is time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from artiway.errors import Unavailable
from artiway.generations.feed.model import Backpressure
from artiway.generations.feed.writer import Feed, FeedWriter
from artiway.generations.lifecycle import Lifecycle
from artiway.generations.model import Failure, Generation, GuardLimits, Outcome, Refusal, Rules, Status, end_of
from artiway.generations.ports import WorkerStore
from artiway.generations.providers.model import Limits, ProviderFailed, Router
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
        rules: Callable[[], Rules],
        limits: Callable[[], GuardLimits],
        phases: Limits,
        worker_id: str,
        jitter: Callable[[], float] = random.random,
        cancel_check_s: float = publish.CANCEL_CHECK_S,
    ) -> None:
        self._store, self._lifecycle, self._services = store, lifecycle, services
        self._router, self._feed, self._clock = router, feed, clock
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
        prompt = validate.prompt(generation, self._services)
        with FeedWriter(self._feed, generation.generation_id, generation.attempt) as writer:
            if isinstance(prompt, Failure):
                ended = self._lifecycle.finish(generation, Outcome(Status.FAILED, failure=prompt))
                if ended is not None:
                    writer.close(end_of(ended))
                return
            publication = publish.Publication(
                writer,
                self._store,
                generation,
                rules,
                now=self._clock.now,
                cancel_check_s=self._cancel_check_s,
            )
            is_paid = generation.lane.startswith("paid_")
            try:
                targets = self._router.targets(generation.service, is_paid=is_paid)
                execution = execute.execute(
                    generation,
                    prompt,
                    targets,
                    router=self._router,
                    store=self._store,
                    publication=publication,
                    limits=limits,
                    phases=self._phases,
                    parsed=self._services.get(generation.service).parsed if prompt.json_schema else None,
                )
            except ProviderFailed as failure:  # no route
                execution = execute.refused(generation, failure)
            clean_up.clean_up(generation, execution, publication, writer, self._lifecycle, rules, now=self._clock.now())

    def _announce(self, wake_up: WakeUp, refusal: Refusal, delay_s: int) -> None:
        """Readers of the text see that it waits. A lost Redis costs them this event alone."""
        attempt = self._store.waiting_attempt(wake_up.generation_id)
        if attempt is None:
            return
        try:
            self._feed.append(wake_up.generation_id, attempt, [Backpressure(refusal.scope, delay_s)])
        except Unavailable:
            metrics.emit("FeedMisses", 1)
