"""Step 6: store the end with its settlement, or return the text to its lane. Either frees the guards."""

from __future__ import annotations

from datetime import datetime

from artiway.generations.feed.writer import FeedWriter
from artiway.generations.lifecycle import Lifecycle
from artiway.generations.model import Failure, FailureCode, Generation, Outcome, Rules, Status, end_of
from artiway.generations.steps.execute import Execution
from artiway.generations.steps.publish import Publication
from artiway.platform import metrics
from artiway.platform.logs import Logger

logger = Logger("generations")


def clean_up(
    generation: Generation,
    execution: Execution,
    publication: Publication,
    writer: FeedWriter,
    lifecycle: Lifecycle,
    rules: Rules,
    *,
    now: datetime,
) -> None:
    if publication.is_lost:  # another attempt or a sweep has the text; nothing of this one counts
        logger.warning("attempt lost", generation_id=generation.wire_id, attempt=generation.attempt)
        metrics.emit("AttemptsLost", 1)
        return
    if execution.failure is not None and not publication.is_cancelled:
        failure = Failure(execution.failure.code, execution.failure.message)
        if _is_tried_again(generation, execution, rules, now=now):
            lifecycle.put_back(
                generation,
                failure,
                execution.calls,
                is_counted=not execution.failure.is_waiting,
                delay_s=execution.failure.retry_after_s,
            )
            return
        if execution.failure.is_waiting:
            message = f"no provider had time within {rules.provider_wait_s} s; the last reason: {failure.message}"
            failure = Failure(FailureCode.WAITED_TOO_LONG, message)
        outcome = Outcome(
            Status.FAILED,
            text=publication.text,
            usage=execution.usage if publication.text else None,
            usage_source=execution.usage_source if publication.text else None,
            failure=failure,
            first_token_at=publication.first_token_at,
        )
    else:
        # Of the first stage of a chain nothing was delivered before its end, whatever the provider counted.
        has_content = bool(publication.text or execution.usage.output_tokens) and not generation.is_in_first_stage
        outcome = Outcome(
            Status.CANCELLED if publication.is_cancelled else Status.COMPLETED,
            text=publication.text,
            usage=execution.usage if has_content else None,
            usage_source=execution.usage_source if has_content else None,
            finish_reason=str(execution.finish_reason),
            result=None if generation.is_in_first_stage else execution.result,
            first_token_at=publication.first_token_at,
        )
    ended = lifecycle.finish(generation, outcome, execution.calls)
    if ended is None:
        metrics.emit("AttemptsLost", 1)
        return
    writer.close(end_of(ended))
    if ended.first_token_at and ended.ended_at and ended.usage:
        seconds = (ended.ended_at - ended.first_token_at).total_seconds()
        if seconds > 0:
            metrics.emit("TokensPerSecond", ended.usage.output_tokens / seconds, "None")


def _is_tried_again(generation: Generation, execution: Execution, rules: Rules, *, now: datetime) -> bool:
    """A provider that has not worked on the prompt is waited for; one that failed before the first token is an attempt.

    After the first token the text ends: its reader has seen it, and the provider charges for it.
    """
    failure = execution.failure
    assert failure is not None
    if failure.is_billable or not failure.is_retryable:
        return False
    if failure.is_waiting:
        waited_s = (now - (generation.started_at or now)).total_seconds()
        return waited_s < rules.provider_wait_s
    return generation.failures + 1 < rules.attempts
