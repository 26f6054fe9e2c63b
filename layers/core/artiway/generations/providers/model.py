"""The port to language models: what is asked, what comes back as a stream, how it fails, and where it may be sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol

from artiway.errors import ArtiwayError

HIDDEN = "***"


class ApiKey:
    """The secret of a provider. Only `reveal` shows it, so that neither a log nor a traceback can."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"ApiKey({HIDDEN})"

    def __reduce__(self) -> str:
        raise TypeError("a key is not serialised")


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class Message:
    """`images` are addresses of pictures: https or data URLs."""

    role: Role
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """With a JSON schema the answer is JSON of that schema, if the provider keeps to it: the caller checks.

    Not streamed, the text comes as one item; the provider's silence until then is bounded by the total limit alone.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float | None = None
    json_schema: Mapping[str, Any] | None = None
    is_streamed: bool = True
    # Fields of the request that the caller chose, such as `top_p`; they are sent as they are.
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A model of a provider. Its prices are what the provider costs us, in points per 1,000 tokens.

    Without `api_key` no Authorization is sent. `is_key_missing`: the provider needs one and has none, so it is not
    called. `requests_per_minute` and `tokens_per_minute` are the provider's own limits, if the operator names them.
    """

    provider: str
    base_url: str
    model_id: str
    input_points: Decimal = Decimal(0)
    output_points: Decimal = Decimal(0)
    api_key: ApiKey | None = field(default=None, compare=False)
    is_key_missing: bool = False
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def name(self) -> str:
        """As in a route: `provider/model`."""
        return f"{self.provider}/{self.model_id}"


@dataclass(frozen=True)
class Limits:
    """Seconds for each phase. Each phase ends in `GEN_504_PROVIDER_TIMEOUT`, and `total_s` covers all of them.

    `first_token_s` is also for a provider that sends keep-alives and no content; `idle_s` is the longest time between
    two pieces of content. A `Tick` comes after `tick_s` without an item.
    """

    connect_s: float = 3
    first_byte_s: float = 30
    first_token_s: float = 60
    idle_s: float = 20
    total_s: float = 240
    tick_s: float = 1


# --- the items of a stream


@dataclass(frozen=True)
class Usage:
    """As the provider counted. Output includes thoughts that are not shown."""

    input_tokens: int
    output_tokens: int


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"  # max_tokens were produced
    CONTENT_FILTER = "content_filter"  # the provider cut the text
    CANCELLED = "cancelled"  # by `is_cancelled`: the connection is closed
    OTHER = "other"


@dataclass(frozen=True)
class Chosen:
    """From the router only: the items that follow are from this target. Another one follows after a fall-over.

    `spent` is what the target before it counted, although it failed.
    """

    target: Target
    spent: Usage | None = None


@dataclass(frozen=True)
class Text:
    """A piece of the text, never empty and whole in Unicode. It is no token: usage alone counts tokens."""

    text: str


@dataclass(frozen=True)
class Thought:
    """The model produced content that is charged and not shown."""

    characters: int


@dataclass(frozen=True)
class Alive:
    """Bytes without content arrived: a keep-alive or an empty delta."""


@dataclass(frozen=True)
class Tick:
    """Nothing arrived for `tick_s`. The caller can renew leases and flush what it has gathered."""


@dataclass(frozen=True)
class Finish:
    """The last item. Without usage the caller estimates it."""

    reason: FinishReason
    usage: Usage | None = None


Item = Text | Thought | Alive | Tick | Finish
RoutedItem = Chosen | Item


# --- failures


class FailureCode(StrEnum):
    """Why a provider gave no whole text. The codes are stored with the generation and shown to its reader."""

    KEY = "GEN_401_PROVIDER_KEY"  # no key is configured, or the provider does not accept it
    REFUSED = "GEN_422_PROVIDER_REFUSED"  # the provider does not accept this prompt
    BUSY = "GEN_429_PROVIDER_BUSY"  # the provider's limit, or ours for it, is used up for now
    ERROR = "GEN_502_PROVIDER_ERROR"  # the provider reports an error of its own, before or after tokens
    ANSWER = "GEN_502_PROVIDER_ANSWER"  # the answer breaks off or cannot be read
    AWAY = "GEN_503_PROVIDER_AWAY"  # no connection, not ready yet, or its circuit is open
    NO_ROUTE = "GEN_503_NO_ROUTE"  # no provider is configured for the service
    INVALID = "GEN_503_PROVIDERS_INVALID"  # the operator's document cannot be used
    TIMEOUT = "GEN_504_PROVIDER_TIMEOUT"  # a phase took too long


# The same prompt may succeed later.
RETRYABLE = frozenset(set(FailureCode) - {FailureCode.KEY, FailureCode.REFUSED, FailureCode.NO_ROUTE})
# The provider has not worked on the prompt: to wait and ask again is no attempt.
WAITING = frozenset({FailureCode.BUSY, FailureCode.AWAY, FailureCode.INVALID})
# Says something about the provider's health. A refused prompt, a missing key and a used-up limit do not.
FAULTS = frozenset({FailureCode.ERROR, FailureCode.ANSWER, FailureCode.AWAY, FailureCode.TIMEOUT})


class ProviderFailed(ArtiwayError):
    """The end of a stream without `Finish`. The message may be shown to the tenant: it has no address and no key.

    `is_billable`: content has arrived, so the provider charges for it. `phase` is set for a time-out.
    """

    code: str = FailureCode.ERROR

    def __init__(
        self,
        code: FailureCode,
        message: str,
        *,
        provider: str = "",
        model_id: str = "",
        is_billable: bool = False,
        usage: Usage | None = None,
        retry_after_s: int | None = None,
        provider_status: int | None = None,
        phase: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.reason = code
        self.provider, self.model_id = provider, model_id
        self.is_billable, self.usage = is_billable, usage
        self.retry_after_s, self.provider_status, self.phase = retry_after_s, provider_status, phase

    @property
    def is_retryable(self) -> bool:
        return self.reason in RETRYABLE

    @property
    def is_waiting(self) -> bool:
        """Whether the generation goes back to its lane with back-pressure, and not with a failed attempt."""
        return self.reason in WAITING and not self.is_billable


# --- the ports


class Provider(Protocol):
    """One call of one model."""

    def stream(
        self, target: Target, prompt: Prompt, limits: Limits, is_cancelled: Callable[[], bool]
    ) -> Iterator[Item]:
        """The answer as it comes, `Finish` last. Raises `ProviderFailed`.

        `is_cancelled` is asked before each item, so at least every `tick_s`: the connection is closed at once, which
        stops the provider, and `Finish(CANCELLED)` follows. To close the iterator closes the connection too.
        """


class Router(Protocol):
    """The providers of a service in their order."""

    def targets(self, service: str, *, is_paid: bool) -> Sequence[Target]:
        """The targets of a route, the first preferred. Raises `ProviderFailed` NO_ROUTE if there is none."""

    def named(self, model: str, services: Collection[str], *, is_paid: bool) -> Sequence[Target]:
        """The one target `provider/model`, if a route of these services has it. Raises `ProviderFailed` NO_ROUTE."""

    def stream(
        self,
        targets: Sequence[Target],
        prompt: Prompt,
        limits: Limits,
        is_cancelled: Callable[[], bool],
        admit: Callable[[Target], bool] = lambda _target: True,
    ) -> Iterator[RoutedItem]:
        """Ask the targets in order; fall over only before the first content. `Chosen` comes before each call.

        A target that `admit` refuses is passed over, for a guard of its model that is full. Raises the last target's
        `ProviderFailed`, or BUSY if none was admitted.
        """
