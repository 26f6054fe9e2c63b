"""The OpenAI-compatible protocol without I/O: the body of a request, and the items in what a provider answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from artiway.generations.providers.model import (
    Alive,
    FailureCode,
    Finish,
    FinishReason,
    Item,
    Message,
    Prompt,
    ProviderFailed,
    Target,
    Text,
    Thought,
    Usage,
)

DONE = "[DONE]"
SCHEMA_NAME = "answer"
LONGEST_RETRY_S = 3_600
MOST_TOKENS = 100_000_000
# A provider that ignores max_tokens is stopped; the average token of any language has far fewer characters.
CHARACTERS_PER_TOKEN = 32
# Words in the type or code of an error by which a provider says that its account, not its capacity, is the reason.
_ACCOUNT = ("insufficient_quota", "billing", "insufficient_balance", "account_deactivated")
_KEY = ("invalid_api_key", "authentication", "permission_denied", "unauthorized")
_BUSY = ("rate_limit", "too_many_requests", "overloaded")
_REFUSED = ("context_length", "content_filter", "content_policy", "invalid_request", "string_above_max_length")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}


def request_body(target: Target, prompt: Prompt) -> bytes:
    body: dict[str, Any] = {
        "model": target.model_id,
        "messages": [{"role": message.role.value, "content": _content(message)} for message in prompt.messages],
        "max_tokens": prompt.max_tokens,
    }
    if prompt.temperature is not None:
        body["temperature"] = prompt.temperature
    body |= prompt.options
    if prompt.is_streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if prompt.json_schema is not None:
        schema = {"name": SCHEMA_NAME, "strict": True, "schema": dict(prompt.json_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.text
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in message.images]
    return [{"type": "text", "text": message.text}, *pictures]


class Unreadable(Exception):
    """The provider's answer is not the protocol's. The message may be shown."""


class Refusal(Exception):
    """The provider reports an error inside an answer of status 200. `word` is its type or code."""

    def __init__(self, code: FailureCode, word: str) -> None:
        super().__init__(word)
        self.code, self.word = code, word


class AnswerReader:
    """Turns the JSON objects of one answer into items, and keeps what `Finish` needs.

    After the first finish reason further text is ignored: a provider that sends the reason twice, or text behind it,
    must not change a text that is complete.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._most_characters = max(1, prompt.max_tokens) * CHARACTERS_PER_TOKEN
        self._characters = 0
        self._surrogate = ""
        self._reason: FinishReason | None = None
        self._is_declined = False
        self.is_overlong = False  # the provider ignores max_tokens
        self.usage: Usage | None = None
        self.has_content = False

    @property
    def is_finished(self) -> bool:
        """Whether the text is complete. Usage may still come."""
        return self._reason is not None

    def finish(self) -> Finish:
        return Finish(self._reason or FinishReason.STOP, self.usage)

    def chunk(self, text: str) -> Iterator[Item]:
        """The items of one event of a stream."""
        yield from self._items(_object(text), part="delta")

    def whole(self, text: str) -> Iterator[Item]:
        """The items of an answer that is not streamed, `Finish` not among them."""
        answer = _object(text.strip())  # some providers send empty lines while they work
        yield from self._items(answer, part="message")
        if not answer.get("choices"):
            raise Unreadable("the answer has no choices")
        self._reason = self._reason or FinishReason.STOP

    def _items(self, answer: dict[str, Any], *, part: str) -> Iterator[Item]:
        if (error := answer.get("error")) is not None:
            raise refusal(error)
        self.usage = _usage(answer.get("usage")) or self.usage
        choices = answer.get("choices") or []
        if not isinstance(choices, list):
            raise Unreadable("the choices are no list")
        has_item = False
        for choice in choices:
            if not isinstance(choice, dict):
                raise Unreadable("a choice is no object")
            if choice.get("index", 0) != 0 or self.is_finished:
                continue  # one answer was asked for
            for item in self._choice(choice, choice.get(part) or {}):
                has_item = True
                yield item
        if not has_item:
            yield Alive()

    def _choice(self, choice: Mapping[str, Any], delta: object) -> Iterator[Item]:
        if not isinstance(delta, dict):
            raise Unreadable("a delta is no object")
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        if thought:
            self.has_content = True
            yield Thought(len(thought))
        self._is_declined = self._is_declined or bool(_text(delta.get("refusal")))
        if text := self._whole_characters(_text(delta.get("content"))):
            self.has_content = True
            self._characters += len(text)
            yield Text(text)
        reason = choice.get("finish_reason")
        if reason is not None:
            if self._surrogate:  # its second half never came
                self._surrogate = ""
                yield Text("\ufffd")
            if self._is_declined and not self._characters:
                raise Refusal(FailureCode.REFUSED, "refusal")
            self._reason = _REASONS.get(str(reason), FinishReason.OTHER)
        elif self._characters > self._most_characters:
            self._reason, self.is_overlong = FinishReason.LENGTH, True

    def _whole_characters(self, text: str) -> str:
        """Text that UTF-8 and PostgreSQL can hold. JSON may cut a pair of surrogates between two events."""
        text, self._surrogate = self._surrogate + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._surrogate = text[:-1], text[-1]
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.replace("\0", "")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("the answer is not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable("the answer is no JSON object")
    return found


def _text(value: object) -> str:
    """A text, or the texts of a list of parts. Null and other types are none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    read, written = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    return None if read is None or written is None else Usage(input_tokens=read, output_tokens=written)


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


# --- errors


def refusal(error: object, default: FailureCode = FailureCode.ERROR) -> Refusal:
    """The kind of an error object. Its message is not used: it may quote a key or the prompt."""
    words = [str(error.get(name)) for name in ("code", "type") if error.get(name)] if isinstance(error, dict) else []
    code = next((kind for word in words if (kind := _kind(word.lower()))), default)
    return Refusal(code, next((word for word in words if _WORD.fullmatch(word)), ""))


def _kind(word: str) -> FailureCode | None:
    if word.isdecimal():
        return status_code(int(word))
    for words, code in (
        (_ACCOUNT + _KEY, FailureCode.KEY),
        (_BUSY, FailureCode.BUSY),
        (_REFUSED, FailureCode.REFUSED),
    ):
        if any(known in word for known in words):
            return code
    return None


def status_code(status: int) -> FailureCode:
    if status in (401, 402, 403):
        return FailureCode.KEY
    if status in (408, 504):
        return FailureCode.TIMEOUT
    if status == 429:
        return FailureCode.BUSY
    if status in (503, 529):
        return FailureCode.AWAY
    if status in (400, 404, 413, 414, 415, 422):
        return FailureCode.REFUSED
    return FailureCode.ERROR


def error_answer(status: int, body: bytes) -> Refusal:
    """The kind of an answer with another status than 200. A word of the body decides between account and capacity."""
    default = status_code(status)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return Refusal(default, "")
    found = refusal(document.get("error") if isinstance(document, dict) else None, default)
    is_account = default is FailureCode.BUSY and found.code is FailureCode.KEY
    return Refusal(found.code if is_account else default, found.word)


def retry_after_s(headers: Mapping[str, str], now: Callable[[], datetime]) -> int | None:
    """Seconds of Retry-After, which is a number or a date."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - now()).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(LONGEST_RETRY_S, max(1, math.ceil(seconds))) if math.isfinite(seconds) else None


MESSAGES = {
    FailureCode.KEY: "the provider does not accept the key or the account",
    FailureCode.REFUSED: "the provider does not accept the request",
    FailureCode.BUSY: "the provider has no capacity for us at the moment",
    FailureCode.ERROR: "the provider reports an error",
    FailureCode.AWAY: "the provider is not available",
    FailureCode.TIMEOUT: "the provider did not answer in time",
}


def failed(target: Target, code: FailureCode, message: str = "", **facts: Any) -> ProviderFailed:
    return ProviderFailed(code, message or MESSAGES[code], provider=target.provider, model_id=target.model_id, **facts)
