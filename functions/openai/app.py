"""OpenAI's chat completions and models, for any client that speaks that protocol, with an API key as bearer."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from artiway import bootstrap
from artiway.errors import ArtiwayError, Refused
from artiway.generations.chat.model import Accepted, Again, ChatRequest, Finished, Part, Waiting
from artiway.platform import openai, openapi, streams

if TYPE_CHECKING:
    from artiway.generations.chat.model import Step

api = openai.OpenAiApi(
    "openai", origin=bootstrap.origin, access_check=bootstrap.access_check, authorizer=bootstrap.authorizer
)
api.fallback(openapi.explain_missing)
handler = api.stream

JSON = "application/json"
KEEP_ALIVE = ": keep-alive\n\n"
# Steps in which nothing comes, ten seconds each, before the status of an answer that is not streamed must be sent:
# CloudFront waits for a minute. After that a blank is sent, which JSON allows, and a failure cuts the answer.
SILENT_STEPS = 4
# The reasons of OpenAI's protocol.
REASONS = {"stop", "length", "content_filter"}
OPTIONS = ("temperature", "top_p", "stop", "seed", "presence_penalty", "frequency_penalty")


class TextPartBody(openai.OpenAiWire):
    type: Literal["text"]
    text: str


class ChatMessageBody(openai.OpenAiWire):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPartBody]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class StreamOptionsBody(openai.OpenAiWire):
    include_usage: bool = False


class ResponseFormatBody(openai.OpenAiWire):
    type: Literal["text"]


class ChatBody(openai.OpenAiWire):
    model: str = Field(min_length=1, max_length=200, description="a service, or a model as `provider/model`")
    messages: list[ChatMessageBody] = Field(min_length=1, max_length=200)
    stream: bool | None = None
    stream_options: StreamOptionsBody | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=128_000)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=128_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    stop: str | list[Annotated[str, Field(max_length=64)]] | None = Field(default=None, max_length=64)
    seed: int | None = Field(default=None, ge=0, le=2**31 - 1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    n: Literal[1] | None = None
    response_format: ResponseFormatBody | None = None


@api.get("/models", content={JSON: {"type": "object"}})
def list_chat_models() -> streams.Answer:
    """The models that a chat request can name, in OpenAI's form."""
    found = [
        {"id": one.name, "object": "model", "created": 0, "owned_by": one.owner} for one in bootstrap.chat().models()
    ]
    return streams.Answer(JSON, _once({"object": "list", "data": found}))


@api.post(
    "/chat/completions",
    permission="task.submit",
    errors=[402, 404, 502, 504],
    content={JSON: {"type": "object"}, streams.MEDIA: {"type": "string"}},
)
def create_chat_completion(body: ChatBody) -> streams.Answer:
    """Write the next message of a conversation, as a stream or as a whole, in OpenAI's form."""
    steps = bootstrap.chat().steps(
        tenant_id=api.identity.tenant_id,
        user_id=api.identity.user_id,
        request=_request(body),
        life_ms=min(bootstrap.settings().chat_life_ms, api.remaining_ms),
    )
    if not body.stream:
        return streams.Answer(JSON, _whole(body.model, steps))
    has_usage = body.stream_options is not None and body.stream_options.include_usage
    media = f"{streams.MEDIA}; charset=utf-8"
    return streams.Answer(media, _streamed(body.model, steps, has_usage=has_usage))


def _request(body: ChatBody) -> ChatRequest:
    if body.messages[-1].role != "user" or not body.messages[-1].text.strip():
        place = f"messages.{len(body.messages) - 1}"
        raise _invalid(place, "the last message is the user's, and has a text")
    if body.stream_options is not None and not body.stream:
        raise _invalid("stream_options", "only with stream")
    if isinstance(body.stop, list) and len(body.stop) > 4:
        raise _invalid("stop", "at most four")
    if None not in (body.max_tokens, body.max_completion_tokens):
        raise _invalid("max_tokens", "only one of max_tokens and max_completion_tokens")
    given = {name: getattr(body, name) for name in OPTIONS}
    return ChatRequest(
        model=body.model,
        messages=[("system" if one.role == "developer" else one.role, one.text) for one in body.messages],
        is_streamed=bool(body.stream),
        max_tokens=body.max_tokens or body.max_completion_tokens,
        options={name: value for name, value in given.items() if value is not None},
    )


def _invalid(field: str, reason: str) -> Refused:
    return Refused("the request is not valid", fields=[{"field": field, "reason": reason}])


@dataclass(frozen=True)
class Head:
    """What every object of one answer begins with. The id is the generation's, which can be read and cancelled."""

    model: str
    accepted: Accepted

    def body(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        created = int(self.accepted.created_at.timestamp())
        return {
            "id": self.accepted.wire_id,
            "object": kind,
            "created": created,
            "model": self.model,
            "choices": choices,
        }

    def chunk(self, delta: Mapping[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _event(self.body("chat.completion.chunk", [choice]))


def _streamed(model: str, steps: Generator[Step, None, None], *, has_usage: bool) -> Generator[str, None, None]:
    """What is refused has a status; what fails later is an event, after which the stream ends."""
    try:
        first = next(steps)
        assert isinstance(first, Accepted)
        head = Head(model, first)
        try:
            yield head.chunk({"role": "assistant", "content": ""})
            for step in steps:
                match step:
                    case Part(text):
                        yield head.chunk({"content": text})
                    case Waiting():
                        yield KEEP_ALIVE
                    case Finished(reason, _):
                        yield head.chunk({}, reason if reason in REASONS else "stop")
                        if has_usage:
                            yield _event({**head.body("chat.completion.chunk", []), "usage": _usage(step)})
                        yield "data: [DONE]\n\n"
        except ArtiwayError as error:
            yield _event(openai.error_body(error))
    finally:
        steps.close()


def _whole(model: str, steps: Generator[Step, None, None]) -> Generator[str, None, None]:
    try:
        first = next(steps)
        assert isinstance(first, Accepted)
        head, text, silent = Head(model, first), "", 0
        for step in steps:
            match step:
                case Part(more):
                    text += more
                case Again():
                    text = ""
                case Waiting():
                    silent += 1
                    if silent >= SILENT_STEPS:
                        yield " "
                case Finished(reason, _):
                    message = {"role": "assistant", "content": text}
                    kept = reason if reason in REASONS else "stop"
                    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": kept}
                    yield _json({**head.body("chat.completion", [choice]), "usage": _usage(step)})
    finally:
        steps.close()


def _usage(finished: Finished) -> dict[str, int]:
    read, written = finished.usage.input_tokens, finished.usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _once(body: Mapping[str, Any]) -> Generator[str, None, None]:
    yield _json(body)


def _event(body: Mapping[str, Any]) -> str:
    return f"data: {_json(body)}\n\n"


def _json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
