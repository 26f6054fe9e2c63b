"""Step 4: ask the providers of the route in order, and hand each piece of text on as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artiway.generations.feed.model import Usage, UsageSource
from artiway.generations.model import Generation, GuardLimits, estimated_tokens
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
        return store.move_model(generation, provider=target.provider, model_id=target.model_id, limits=limits)

    thoughts, held = 0, ""
    target: Target | None = None
    stream = router.stream(targets, prompt, phases, publication.must_stop, admit)
    try:
        for item in stream:
            match item:
                case Chosen(target):
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
                    return replace(done, result=result, target=target)
                case Finish(reason, usage):
                    return _finished(generation, publication.text, reason, _usage(usage), thoughts)
                case Alive() | Tick():
                    pass
            publication.beat()
            if publication.is_lost:
                break
    except ProviderFailed as failure:
        done = _finished(generation, publication.text, "error", _usage(failure.usage), thoughts)
        return Execution(done.finish_reason, done.usage, done.usage_source, failure)
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
