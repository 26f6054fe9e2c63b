"""What both clients do, without I/O: a call becomes steps, and a driver sends, sleeps and renews tokens."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, NewType
from urllib.parse import quote, urlencode, urlsplit

from artiway_client.credentials import Credentials, TokenStore
from artiway_client.errors import AnswerLost, error_for

# How long a call is retried, and the longest pause without a Retry-After.
RETRY_FOR_S = 120.0
LONGEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 0.2
USER_AGENT = "artiway-python/0.1.0"
_AWAY = frozenset({502, 503, 504})
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
EXPIRED = frozenset({"AUTH_401_TOKEN_EXPIRED", "AUTH_401_TOKEN_INVALID"})

Seconds = NewType("Seconds", float)


@dataclass(frozen=True)
class Call:
    """One request to the API. `is_keyed`: the route takes an Idempotency-Key, so repeating it is safe."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    is_keyed: bool = False
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_stream: bool = False
    # Codes that are returned at once although a retry might help.
    final_codes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outgoing:
    """A request as the driver sends it."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    is_stream: bool


@dataclass(frozen=True)
class Lost:
    """The driver got no answer. `was_sent`: the platform may have acted."""

    reason: str
    was_sent: bool


@dataclass(frozen=True)
class Renew:
    """The driver renews the tokens, unless they are no longer `stale`."""

    stale: str


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    # The open response of a stream.
    stream: Any = None


Steps = Generator[Outgoing | Seconds | Renew, Answer | Lost | None, Any]


def path_part(value: str) -> str:
    return quote(value, safe="")


def new_key() -> str:
    return uuid.uuid4().hex


class Pace:
    """Keeps the caller inside the tenant's rate limit, as the headers of the last answers describe it.

    It only ever slows down: a request that is refused nevertheless is retried after `Retry-After`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: float | None = None
        self._rate = 0.0
        self._capacity = 0.0
        self._at = 0.0

    def delay_s(self) -> float:
        """Take one request out of the bucket; how long to wait before it is sent."""
        if self._tokens is None or self._rate <= 0:
            return 0.0
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def learn(self, headers: Mapping[str, str]) -> None:
        try:
            limit, remaining, reset = (float(headers[f"ratelimit-{name}"]) for name in ("limit", "remaining", "reset"))
        except (KeyError, ValueError):
            return
        self._refill()
        if reset > 0:  # the header is rounded up to whole seconds, so the highest estimate is the nearest
            self._rate = max(self._rate, (limit - remaining) / reset)
        self._capacity = limit
        self._tokens = remaining if self._tokens is None else min(self._tokens, remaining)

    def _refill(self) -> None:
        now = self._clock()
        if self._tokens is not None:
            self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now


class Core:
    """Turns a call into steps: pace, send, renew tokens, retry what may be retried, parse."""

    def __init__(
        self,
        url: str,
        credentials: Credentials | None,
        *,
        retry_for_s: float = RETRY_FOR_S,
        away_for_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url.rstrip("/")
        self._path = urlsplit(self.url).path
        self.credentials = credentials
        self.retry_for_s = retry_for_s
        # How long a platform that accepts no connection is tried: a person at a terminal waits for less.
        self.away_for_s = retry_for_s if away_for_s is None else away_for_s
        self.clock = clock
        self.pace = Pace(clock)

    def outgoing(self, call: Call, key: str | None) -> Outgoing:
        given = {name: _text(value) for name, value in call.query.items() if value is not None}
        target = self._path + call.path + (f"?{urlencode(given)}" if given else "")
        headers = {"user-agent": USER_AGENT, "accept": "application/json", **call.headers}
        body = b""
        if isinstance(call.body, str):
            headers["content-type"], body = "application/yaml", call.body.encode()
        elif call.body is not None:
            headers["content-type"] = "application/json"
            body = json.dumps(call.body, ensure_ascii=False, separators=(",", ":")).encode()
        if key is not None:
            headers["idempotency-key"] = key
        if self.credentials is not None:
            headers.update(self.credentials.headers(call.method, target, body))
        parts = urlsplit(self.url)
        return Outgoing(call.method, f"{parts.scheme}://{parts.netloc}{target}", headers, body, call.is_stream)

    def steps(self, call: Call) -> Steps:
        """All attempts of a call have one idempotency key, so that they are one request to the platform."""
        key = (call.key or new_key()) if call.is_keyed else None
        is_repeatable = call.method in _REPEATABLE or call.is_keyed
        started = self.clock()
        deadline = started + self.retry_for_s
        has_renewed = False
        attempt = 0
        while True:
            if (wait_s := self.pace.delay_s()) > 0:
                yield Seconds(wait_s)
            access = self.credentials.tokens.access if isinstance(self.credentials, TokenStore) else None
            answer = yield self.outgoing(call, key)
            if isinstance(answer, Lost):
                wait_s = pause_s(attempt)
                last = deadline if answer.was_sent else min(deadline, started + self.away_for_s)
                if not (is_repeatable or not answer.was_sent) or self.clock() + wait_s > last:
                    raise AnswerLost(f"{call.method} {self.url}{call.path}: {answer.reason}")
                yield Seconds(wait_s)
                attempt += 1
                continue
            assert isinstance(answer, Answer)
            self.pace.learn(answer.headers)
            if answer.status < 400:
                return answer.stream if call.is_stream else _parsed(answer)
            error = error_for(answer.status, _parsed(answer), retry_after_s(answer.headers))
            if error.code in EXPIRED and access is not None and not has_renewed:
                has_renewed = True
                yield Renew(access)
                continue
            may_retry = error.status == 429 or error.code == "IDEM_409_IN_PROGRESS"
            may_retry |= error.status in _AWAY and is_repeatable
            wait_s = pause_s(attempt) if error.retry_after_s is None else _jittered(error.retry_after_s)
            if not may_retry or error.code in call.final_codes or self.clock() + wait_s > deadline:
                raise error
            yield Seconds(wait_s)
            attempt += 1


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a number or a date."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def pause_s(attempt: int) -> float:
    """Before the next attempt, where no answer names a time."""
    return _jittered(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt))


def _jittered(seconds: float) -> float:
    """Longer, never shorter: callers that were refused together do not return together."""
    return seconds * (1 + random.random() / 4)  # noqa: S311 (no secret)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(answer: Answer) -> Any:
    if not answer.body:
        return None
    if "json" in answer.headers.get("content-type", ""):
        try:
            return json.loads(answer.body)
        except ValueError:
            return None
    return answer.body.decode("utf-8", "replace")
