"""The client of OpenAI-compatible providers, on the platform's outbound client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from typing import Any

from artiway.generations.providers.model import (
    Alive,
    FailureCode,
    Finish,
    FinishReason,
    Item,
    Limits,
    Prompt,
    ProviderFailed,
    Target,
    Text,
    Thought,
    Tick,
)
from artiway.generations.providers.protocol import (
    DONE,
    AnswerReader,
    Refusal,
    Unreadable,
    error_answer,
    failed,
    request_body,
    retry_after_s,
)
from artiway.generations.providers.routes import Routes
from artiway.generations.providers.sse import Event, EventReader, EventUnreadable
from artiway.platform.logs import Logger
from artiway.platform.outbound import (
    Client,
    ConnectFailed,
    ConnectTimedOut,
    DeadlineExceeded,
    Exchange,
    OutboundError,
    RequestRefused,
    Response,
    TargetRefused,
)

logger = Logger("providers")

PATH = "/chat/completions"
ERROR_BYTES = 65_536
# Bounds of a stream: an event of one token has a few hundred bytes.
STREAM_BYTES = 2_000_000
TOKEN_BYTES = 4_096
ERROR_S = 5
TAIL_S = 3  # after the last token: for usage, which comes in an event of its own
_PHASES = {
    "first_byte": "no byte of the answer came",
    "first_token": "no text came, only keep-alives or nothing,",
    "idle": "the text did not go on",
    "total": "the answer was not complete",
}


class ChatProvider:
    """One call is one connection. It sends no second request by itself: the router decides where to ask again."""

    def __init__(
        self, client: Callable[[], Client], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`client` may call the operator's hosts as they are configured now."""
        self._client, self._now = client, now

    def stream(
        self, target: Target, prompt: Prompt, limits: Limits, is_cancelled: Callable[[], bool]
    ) -> Iterator[Item]:
        if target.is_key_missing:
            raise failed(target, FailureCode.KEY, "no key is configured for the provider")
        call = _Call(self._client(), target, prompt, limits, is_cancelled, self._now)
        yield from call.items()


class OperatorsClient:
    """The outbound client that may call the hosts of the operator's document, whatever address they have."""

    def __init__(self, routes: Callable[[], Routes]) -> None:
        self._routes = routes
        self._made: tuple[frozenset[tuple[str, int]], Client] | None = None

    def __call__(self) -> Client:
        places = self._routes().places()
        if self._made is None or self._made[0] != places:
            self._made = places, Client(allowed=places)
        return self._made[1]


class _Call:
    def __init__(
        self,
        client: Client,
        target: Target,
        prompt: Prompt,
        limits: Limits,
        is_cancelled: Callable[[], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._client, self._target, self._prompt, self._limits = client, target, prompt, limits
        self._is_cancelled, self._now = is_cancelled, now
        self._answer = AnswerReader(prompt)
        self._phase, self._began_at = "connect", time.monotonic()

    def items(self) -> Iterator[Item]:
        is_cancelled = False
        try:
            with contextlib.closing(self._exchange()) as items:
                for item in items:
                    yield item
                    if is_cancelled := self._is_cancelled():
                        break
        except (OutboundError, Unreadable, EventUnreadable, Refusal) as error:
            # With the finish reason the text is complete, whatever comes behind it.
            if not self._answer.is_finished:
                raise self._failure(error) from error
        if is_cancelled:
            yield Finish(FinishReason.CANCELLED, self._answer.usage)
        else:
            yield self._answer.finish()

    def _exchange(self) -> Generator[Item, None, None]:
        key = self._target.api_key
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key.reveal()}"
        with self._client.exchange(
            "POST",
            self._target.base_url + PATH,
            deadline_s=self._limits.total_s,
            connect_s=self._limits.connect_s,
            headers=headers,
            body=request_body(self._target, self._prompt),
            answer_bytes=STREAM_BYTES + TOKEN_BYTES * self._prompt.max_tokens,
        ) as exchange:
            self._enter(exchange, "first_byte", self._limits.first_byte_s)
            while not exchange.has_begun(self._limits.tick_s):
                yield Tick()
            response = exchange.response()
            if response.status != 200:
                raise self._status_failure(exchange, response)
            self._enter(exchange, "first_token", self._limits.first_token_s)
            if "text/event-stream" in response.headers.get("content-type", "").lower():
                yield from self._events(exchange, response)
            else:
                yield from self._whole(response)

    def _enter(self, exchange: Exchange, phase: str, seconds: float) -> None:
        """Begin a phase. An answer that is not streamed is silent until it is complete: only the total limit counts."""
        self._phase = phase if self._prompt.is_streamed else "total"
        exchange.limit(seconds if self._prompt.is_streamed else None)

    def _events(self, exchange: Exchange, response: Response) -> Iterator[Item]:
        reader = EventReader()
        for chunk in response.chunks(tick_s=self._limits.tick_s):
            has_event = False
            for event in reader.feed(chunk):
                has_event = True
                if event.data.strip() == DONE:
                    return
                yield from self._event(exchange, event)
                if self._answer.is_overlong:
                    return
            if not has_event:
                yield Alive() if chunk else Tick()
        for event in reader.feed(b"\n\n"):  # some servers close without the last empty line
            if event.data.strip() == DONE:
                return
            yield from self._event(exchange, event)
        if not self._answer.is_finished:
            raise Unreadable("the answer broke off")

    def _event(self, exchange: Exchange, event: Event) -> Iterator[Item]:
        for item in self._answer.chunk(event.data):
            if isinstance(item, Text | Thought):
                self._enter(exchange, "idle", self._limits.idle_s)
            yield item
        if self._answer.is_finished:
            self._enter(exchange, "tail", TAIL_S)

    def _whole(self, response: Response) -> Iterator[Item]:
        body = bytearray()
        for chunk in response.chunks(tick_s=self._limits.tick_s):
            body += chunk
            yield Alive() if chunk else Tick()
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise Unreadable("the text is not UTF-8") from None
        yield from self._answer.whole(text)

    # --- failures

    def _failure(self, error: Exception) -> ProviderFailed:
        if isinstance(error, Refusal):
            logger.warning("provider reports an error", target=self._target.name, word=error.word, code=error.code)
            return self._failed(error.code)
        if isinstance(error, OutboundError):
            return self._outbound_failure(error)
        return self._failed(FailureCode.ANSWER, str(error))

    def _outbound_failure(self, error: OutboundError) -> ProviderFailed:
        if isinstance(error, ConnectTimedOut | ConnectFailed | TargetRefused):
            return self._failed(FailureCode.AWAY, f"no connection to the provider: {error.reason}", phase="connect")
        if isinstance(error, DeadlineExceeded):
            is_total = time.monotonic() - self._began_at >= self._limits.total_s
            phase = "total" if is_total else self._phase
            return self._failed(FailureCode.TIMEOUT, f"{_PHASES[phase]} in time", phase=phase)
        if isinstance(error, RequestRefused):
            return self._failed(FailureCode.KEY, "the key cannot be sent")
        return self._failed(FailureCode.ANSWER, error.reason)

    def _status_failure(self, exchange: Exchange, response: Response) -> ProviderFailed:
        exchange.limit(ERROR_S)
        body = bytearray()
        with contextlib.suppress(OutboundError):
            for chunk in response.chunks():
                body += chunk
                if len(body) > ERROR_BYTES:
                    break
        found = error_answer(response.status, bytes(body))
        logger.warning(
            "provider refused", target=self._target.name, status=response.status, word=found.word, code=found.code
        )
        return self._failed(
            found.code,
            provider_status=response.status,
            retry_after_s=retry_after_s(response.headers, self._now),
        )

    def _failed(self, code: FailureCode, message: str = "", **facts: Any) -> ProviderFailed:
        facts |= {"is_billable": self._answer.has_content, "usage": self._answer.usage}
        return failed(self._target, code, message, **facts)
