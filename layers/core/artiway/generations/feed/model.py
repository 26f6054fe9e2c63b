"""The events of a generation, and the entry ids by which a reader continues after the last one that it received.

The number of an entry id contains the length of the text after the entry. So the id alone says which text a reader has,
and the rest of the text can be served from PostgreSQL after Redis has lost the stream.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

_ENTRY_ID = re.compile(r"(\d{1,9})-(\d{1,15})", re.ASCII)
# Entries between two texts: their numbers follow the number of the text. The last of them is the terminal event's.
NOTICES_PER_TEXT = 1_000
# Shorter than the time between two tokens of a provider that writes 20 in a second: each of them leaves when it comes.
BATCH_MS = 40
BATCH_CHARACTERS = 64


class Name(StrEnum):
    """The events of SPEC 12.4, as clients see them."""

    START = "start"
    TOKEN = "token"  # noqa: S105 (a piece of text)
    TOKEN_BATCH = "token_batch"  # noqa: S105 (a piece of text)
    INFO = "info"
    BACKPRESSURE = "backpressure"
    RESTART = "restart"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"


TEXTS = frozenset({Name.TOKEN, Name.TOKEN_BATCH})
TERMINAL = frozenset({Name.DONE, Name.ERROR, Name.CANCELLED})


class Appended(StrEnum):
    """What became of the events that a writer appends. All of them are appended, or none."""

    APPENDED = "appended"
    # A newer attempt writes, so this one must stop.
    FENCED = "fenced"
    # The terminal event was appended before.
    ENDED = "ended"
    # Text before this one is not in the stream: Redis lost it.
    GAP = "gap"


class UsageSource(StrEnum):
    PROVIDER = "provider"
    ESTIMATED = "estimated"


@dataclass(frozen=True, order=True)
class EntryId:
    """`{attempt}-{number}`. The number is the length of the text in characters × 1,000, plus the notices after it."""

    attempt: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}-{self.number}"

    @property
    def characters(self) -> int:
        """Characters of the attempt's text that a reader of this entry has."""
        return self.number // NOTICES_PER_TEXT

    @property
    def is_terminal(self) -> bool:
        return self.number % NOTICES_PER_TEXT == NOTICES_PER_TEXT - 1

    @staticmethod
    def parse(text: str | None) -> EntryId | None:
        """The last id that a reader received. Any other text means that it has nothing."""
        found = _ENTRY_ID.fullmatch(text or "")
        return EntryId(int(found[1]), int(found[2])) if found else None

    @staticmethod
    def of_text(attempt: int, characters: int) -> EntryId:
        return EntryId(attempt, characters * NOTICES_PER_TEXT)

    @staticmethod
    def of_end(attempt: int, characters: int) -> EntryId:
        return EntryId(attempt, characters * NOTICES_PER_TEXT + NOTICES_PER_TEXT - 1)


@dataclass(frozen=True)
class Usage:
    input_tokens: int
    output_tokens: int

    @property
    def body(self) -> dict[str, int]:
        return {"inputTokens": self.input_tokens, "outputTokens": self.output_tokens}


@dataclass(frozen=True)
class Start:
    """An attempt begins."""

    queue_id: str
    provider: str
    model_id: str
    request_id: str = ""
    trace_id: str = ""

    name: ClassVar[Name] = Name.START

    @property
    def body(self) -> dict[str, Any]:
        return {
            "queueId": self.queue_id,
            "provider": self.provider,
            "modelId": self.model_id,
            "requestId": self.request_id,
            "traceId": self.trace_id,
        }


@dataclass(frozen=True)
class Text:
    """A part of the text. `offset` is the number of Unicode characters before it."""

    text: str
    offset: int
    is_first: bool = False

    @property
    def name(self) -> Name:
        return Name.TOKEN if self.is_first else Name.TOKEN_BATCH

    @property
    def body(self) -> dict[str, Any]:
        return {"text": self.text, "offset": self.offset}

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


@dataclass(frozen=True)
class Info:
    """A remark that changes nothing, such as `stream_idle`."""

    info: str
    details: Mapping[str, Any] = field(default_factory=dict)

    name: ClassVar[Name] = Name.INFO

    @property
    def body(self) -> dict[str, Any]:
        return {"info": self.info, **self.details}


@dataclass(frozen=True)
class Backpressure:
    """A guard refused the generation. It waits in its queue and is tried again."""

    scope: str
    retry_after_s: int

    name: ClassVar[Name] = Name.BACKPRESSURE

    @property
    def body(self) -> dict[str, Any]:
        return {"scope": self.scope, "retryAfterSeconds": self.retry_after_s}


@dataclass(frozen=True)
class Restart:
    """A new attempt begins at the first character: a reader drops the text that it has."""

    name: ClassVar[Name] = Name.RESTART

    @property
    def body(self) -> dict[str, Any]:
        return {"from": 0}


@dataclass(frozen=True, kw_only=True)
class _End:
    """`characters` and `sha256` are of the whole text, so a reader can prove that it lost nothing."""

    characters: int
    sha256: str
    points: int
    usage: Usage | None = None
    usage_source: UsageSource | None = None

    @property
    def body(self) -> dict[str, Any]:
        return {
            "usage": None if self.usage is None else self.usage.body,
            "usageSource": None if self.usage_source is None else str(self.usage_source),
            "points": self.points,
            "characters": self.characters,
            "sha256": self.sha256,
        }


@dataclass(frozen=True, kw_only=True)
class Done(_End):
    finish_reason: str = "stop"

    name: ClassVar[Name] = Name.DONE

    @property
    def body(self) -> dict[str, Any]:
        return {**super().body, "finishReason": self.finish_reason}


@dataclass(frozen=True, kw_only=True)
class Failed(_End):
    code: str
    message: str

    name: ClassVar[Name] = Name.ERROR

    @property
    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, **super().body}


@dataclass(frozen=True, kw_only=True)
class Cancelled(_End):
    name: ClassVar[Name] = Name.CANCELLED


End = Done | Failed | Cancelled
Event = Start | Text | Info | Backpressure | Restart | Done | Failed | Cancelled


@dataclass(frozen=True)
class Entry:
    """An event of the stream, as it is stored and served."""

    entry_id: EntryId
    name: Name
    body: Mapping[str, Any]

    @staticmethod
    def of(entry_id: EntryId, event: Event) -> Entry:
        return Entry(entry_id, event.name, event.body)

    @property
    def text(self) -> str:
        return str(self.body.get("text", ""))

    @property
    def offset(self) -> int:
        return int(self.body.get("offset", 0))

    def as_frame(self) -> str:
        body = json.dumps(self.body, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.entry_id}\nevent: {self.name}\ndata: {body}\n\n"


@dataclass(frozen=True)
class StoredText:
    """What PostgreSQL knows: the text so far of an attempt, at most some seconds old, and how it ended."""

    attempt: int
    text: str
    start: Start | None = None
    end: End | None = None


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class TextBatch:
    """Joins pieces of text: the first leaves at once, later ones at most every 40 ms or 64 characters."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._pending = 0
        self._sent = 0
        self._sent_ms: float | None = None

    def add(self, piece: str, *, now_ms: float) -> Text | None:
        """The text that is due now, or None if it waits for more."""
        if piece:
            self._pieces.append(piece)
            self._pending += len(piece)
        return self.flush(now_ms=now_ms) if self._pending and self.wait_ms(now_ms=now_ms) <= 0 else None

    def wait_ms(self, *, now_ms: float) -> float:
        """Until the pending text is due."""
        if self._sent_ms is None or self._pending >= BATCH_CHARACTERS:
            return 0
        return self._sent_ms + BATCH_MS - now_ms

    @property
    def is_empty(self) -> bool:
        return self._pending == 0

    def flush(self, *, now_ms: float) -> Text | None:
        """All pending text."""
        if not self._pending:
            return None
        text = Text("".join(self._pieces), self._sent, is_first=self._sent_ms is None)
        self._pieces, self._pending = [], 0
        self._sent, self._sent_ms = text.end, now_ms
        return text
