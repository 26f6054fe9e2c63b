"""Step 4: ask the providers of the route in order, and hand each piece of text on as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artiway.generations.feed.model import Usage, UsageSource
from artiway.generations.model import Call, Cost, Generation, GuardLimits, estimated_tokens
from artiway.generations.ports import WorkerStore
from artiway.generations.providers.model import (
    Alive,
    Chosen,
    FailureCode,
    Finish,
    FinishReason,
    Limits,
    Prompt,
    ProviderFailed,
    Router,
    Target,
    Text,
    Thought,
    Tick,
)
from artiway.generations.providers.model import Usage as Counted
from artiway.generations.providers.protocol import failed
from artiway.generations.steps.publish import Publication


@dataclass(frozen=True)
class Execution:
    """What the providers answered. Without `failure` the text is whole, or its reader cancelled it."""

    finish_reason: str
    usage: Usage
    usage_source: UsageSource
    failure: ProviderFailed | None = None
    result: Mapping[str, Any] | None = None
    target: Target | None = None
    # What the providers charge for, also where the tenant is not charged.
    calls: Sequence[Call] = ()


def execute(
    generation: Generation,
    prompt: Prompt,
    targets: Sequence[Target],
    *,
    router: Router,
    store: WorkerStore,
    publication: Publication,
    limits: GuardLimits,
    phases: Limits,
    parsed: Callable[[str], Mapping[str, Any]] | None = None,
    is_shown: bool = True,
) -> Execution:
    """The stream is closed whatever happens, which stops the provider.

    With `parsed` the answer is shown only once it is known to be of the service's schema; not `is_shown`, never.
    """

    def admit(target: Target) -> bool:
        """The claim took the guard of the first model; after a fall-over another model's is taken."""
        if (target.provider, target.model_id) == (generation.provider, generation.model_id):
            return True
        cost = Cost(target.input_points, target.output_points)
        return store.move_model(
            generation, provider=target.provider, model_id=target.model_id, cost=cost, limits=limits
        )

    thoughts, held = 0, ""
    calls: list[Call] = []
    target: Target | None = None
    stream = router.stream(targets, prompt, phases, publication.must_stop, admit)
    try:
        for item in stream:
            match item:
                case Chosen(chosen, spent):
                    if target is not None:  # it failed before its first token
                        calls.append(_call(target, _usage(spent) or Usage(0, 0), UsageSource.PROVIDER))
                    target = chosen
                    publication.start(target.provider, target.model_id)
                case Text(text) if parsed is not None:
                    held += text.replace("\x00", "")
                    publication.note_content()
                case Text(text):
                    publication.write(text.replace("\x00", ""))  # PostgreSQL takes no NUL
                case Thought(characters):
                    thoughts += characters
                    publication.note_content()
                case Finish(reason, usage) if parsed is not None and reason is not FinishReason.CANCELLED:
                    result = _checked(held, parsed, target, usage)
                    if is_shown:
                        publication.write(held)
                    done = _finished(generation, held, reason, _usage(usage), thoughts)
                    return replace(done, result=result, target=target, calls=[*calls, *_last(target, done)])
                case Finish(reason, usage):
                    done = _finished(generation, publication.text, reason, _usage(usage), thoughts)
                    read = _finished(generation, held or publication.text, reason, _usage(usage), thoughts)
                    return replace(done, calls=[*calls, *_last(target, read)])
                case Alive() | Tick():
                    pass
            publication.beat()
            if publication.is_lost:
                break
    except ProviderFailed as failure:
        done = _finished(generation, publication.text, "error", _usage(failure.usage), thoughts)
        content = held or publication.text
        # The router gives the most hopeful reason, which may be that of a target before the last.
        is_last = target is not None and failure.provider in ("", target.provider)
        counted = _usage(failure.usage) if is_last else None
        read = _finished(generation, content, "error", counted, thoughts)
        if counted is None and not content and not thoughts:  # it failed before its first token
            read = replace(read, usage=Usage(0, 0), usage_source=UsageSource.PROVIDER)
        return replace(done, failure=failure, calls=[*calls, *_last(target, read)])
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()
    return _finished(generation, publication.text, "lost", None, thoughts)


def _checked(
    text: str, parsed: Callable[[str], Mapping[str, Any]], target: Target | None, usage: Counted | None
) -> Mapping[str, Any]:
    """Nobody has seen the answer, so one that is not of the schema is an attempt that failed, and costs nothing."""
    try:
        return parsed(text)
    except ValueError as error:
        assert target is not None
        raise failed(target, FailureCode.ANSWER, f"not the result of the service: {error}", usage=usage) from error


def _last(target: Target | None, read: Execution) -> list[Call]:
    """`read` has what came from the provider, shown or not."""
    return [] if target is None else [_call(target, read.usage, read.usage_source)]


def _call(target: Target, usage: Usage, source: UsageSource) -> Call:
    cost = Cost(target.input_points, target.output_points)
    return Call(target.provider, target.model_id, cost, usage, source)


def refused(generation: Generation, failure: ProviderFailed) -> Execution:
    """No provider was asked."""
    return Execution("error", Usage(generation.input_tokens, 0), UsageSource.ESTIMATED, failure)


def _finished(generation: Generation, text: str, reason: str, usage: Usage | None, thoughts: int) -> Execution:
    if usage is not None:
        return Execution(reason, usage, UsageSource.PROVIDER)
    estimated = estimated_tokens(text) + (thoughts + 3) // 4
    return Execution(reason, Usage(generation.input_tokens, estimated), UsageSource.ESTIMATED)


def _usage(usage: Counted | None) -> Usage | None:
    return None if usage is None else Usage(usage.input_tokens, usage.output_tokens)
