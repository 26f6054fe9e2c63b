"""A chat completion: a conversation for which one request waits until its text is whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from artiway.errors import ArtiwayError, NotFound
from artiway.generations.feed.model import Usage

# A service of its own: the conversation is the prompt, and the caller names the model.
SERVICE = "chat"
UNPROCESSABLE, BAD_REQUEST, BAD_GATEWAY = 422, 400, 502


@dataclass(frozen=True)
class ChatRequest:
    """`messages` are role and text, the last one the user's. `options` go to the provider as they are."""

    model: str
    messages: Sequence[tuple[str, str]]
    is_streamed: bool
    max_tokens: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ChatModel:
    """What a request can name: a service, or a model of the operator's routes as `provider/model`."""

    name: str
    owner: str


# --- what happens while the request waits


@dataclass(frozen=True)
class Accepted:
    """Points are held, and the text waits in its lane."""

    wire_id: str
    created_at: datetime


@dataclass(frozen=True)
class Part:
    text: str


@dataclass(frozen=True)
class Again:
    """The text begins anew. It happens only where no reader has seen it."""


@dataclass(frozen=True)
class Waiting:
    """Nothing has come for some seconds."""


@dataclass(frozen=True)
class Finished:
    reason: str
    usage: Usage


Step = Accepted | Part | Again | Waiting | Finished


# --- errors


class NoSuchModel(NotFound):
    code = "GEN_404_MODEL"

    def __init__(self, model: str) -> None:
        super().__init__("there is no such model; GET /openai/v1/models lists those that exist", param="model")
        self.details["model"] = model[:200]


class ChatFailed(ArtiwayError):
    """The text failed. Nothing of it is charged."""

    code = "GEN_502_FAILED"

    @property
    def status(self) -> int:
        """A 401 or 403 would be read as the caller's own."""
        found = super().status
        if found == UNPROCESSABLE:
            return BAD_REQUEST
        return found if found >= 500 else BAD_GATEWAY


class ChatCancelled(ArtiwayError):
    """The text was cancelled while the request waited."""

    code = "GEN_400_CANCELLED"


class ChatTimedOut(ArtiwayError):
    """The text was not whole when the request had to end, so it was cancelled."""

    code = "GEN_504_TIMED_OUT"
