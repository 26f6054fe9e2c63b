"""Server-sent events without I/O: a parser that knows where to resume, and the text that a stream builds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

TASK_ENDS = frozenset({"settled"})
TEXT_ENDS = frozenset({"done", "error", "cancelled"})
DEFAULT_RETRY_S = 1.0


@dataclass(frozen=True)
class Event:
    id: str
    name: str
    data: dict[str, Any]


class EventParser:
    """Takes lines and makes events. `last_id` is the `Last-Event-ID` of the next connection."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.retry_s = DEFAULT_RETRY_S
        self._start()

    def _start(self) -> None:
        """A half frame of a broken connection is dropped: the next connection sends the event whole."""
        self._id: str | None = None
        self._name = "message"
        self._data: list[str] = []

    def reconnect(self) -> None:
        self._start()

    def feed(self, line: str) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._id = value
            case "event":
                self._name = value
            case "data":
                self._data.append(value)
            case "retry" if value.isdecimal():
                self.retry_s = int(value) / 1_000
        return None

    def _dispatch(self) -> Event | None:
        event = None
        if self._data:
            if self._id is not None:
                self.last_id = self._id
            data = json.loads("\n".join(self._data))
            event = Event(self.last_id or "", self._name, data if isinstance(data, dict) else {"value": data})
        self._start()
        return event


class IncompleteText(Exception):
    """The text that arrived is not the text that was written."""


class TextFailed(Exception):
    """The text ended with an error; nothing of it is charged."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code, self.message = code, message


class TextBuilder:
    """Joins the events of a generation to its text; `take` returns what is new."""

    def __init__(self) -> None:
        self.text = ""
        self.has_restarted = False

    def take(self, event: Event) -> str:
        self.has_restarted = event.name == "restart"
        if self.has_restarted:
            self.text = ""
        if event.name not in {"token", "token_batch"}:
            if event.name == "done":
                self._check(event.data)
            return ""
        offset, text = int(event.data["offset"]), str(event.data["text"])
        if offset > len(self.text):
            raise IncompleteText(f"{offset - len(self.text)} characters are missing at {len(self.text)}")
        new = text[len(self.text) - offset :]
        self.text += new
        return new

    def _check(self, done: dict[str, Any]) -> None:
        found = hashlib.sha256(self.text.encode()).hexdigest()
        if done.get("sha256") not in {None, found}:
            raise IncompleteText("the text differs from its sha256")
