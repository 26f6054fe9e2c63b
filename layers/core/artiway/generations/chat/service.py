"""Answers a chat request with a text of the same pipeline: quota, lane, back-pressure, hold, queue, worker, feed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from artiway.errors import ArtiwayError
from artiway.generations.chat.model import (
    SERVICE,
    Accepted,
    Again,
    ChatCancelled,
    ChatFailed,
    ChatModel,
    ChatRequest,
    ChatTimedOut,
    Finished,
    NoSuchModel,
    Part,
    Step,
    Waiting,
)
from artiway.generations.feed.model import TERMINAL, TEXTS, Entry, Name, Usage
from artiway.generations.model import FailureCode, Generation, Requester, Wishes
from artiway.generations.services import Services
from artiway.platform.logs import Logger

logger = Logger("chat")
OWNER = "artiway"
# The lease of a crashed function expires this long after its request would have ended.
LEASE_SLACK_MS = 5_000


class Routes(Protocol):
    def models(self, services: Sequence[str]) -> list[str]: ...
    def routed(self, services: Sequence[str]) -> list[str]: ...


class Generations(Protocol):
    def submit(self, *, tenant_id: UUID, user_id: UUID, wishes: Wishes) -> Generation: ...
    def cancel(self, *, tenant_id: UUID, generation_id: UUID, requester: Requester) -> Generation: ...


class Reader(Protocol):
    def follow(self, *, tenant_id: UUID, generation_id: UUID, life_ms: int) -> Generator[Entry | None, None, None]: ...


class Places(Protocol):
    def lease(self, *, tenant_id: UUID, user_id: UUID, ttl_ms: int) -> AbstractContextManager[object]:
        """Count one open request while it is held. Raises TooMany at a limit."""


class ChatService:
    def __init__(
        self, generations: Generations, services: Services, routes: Callable[[], Routes], reader: Reader, places: Places
    ) -> None:
        self._generations, self._services, self._routes = generations, services, routes
        self._reader, self._places = reader, places

    def models(self) -> list[ChatModel]:
        """The services and the models that a request can name. Both have a route."""
        routes, chats = self._routes(), self._services.chats()
        models = [ChatModel(name, name.partition("/")[0]) for name in routes.models(chats)]
        return [*(ChatModel(name, OWNER) for name in routes.routed(chats)), *models]

    def steps(
        self, *, tenant_id: UUID, user_id: UUID, request: ChatRequest, life_ms: int
    ) -> Generator[Step, None, None]:
        """What happens to the text, as it happens. To close the generator before its end cancels the text.

        Before the first step: raises what a submission can raise, or NoSuchModel. After it: ChatFailed, ChatCancelled,
        ChatTimedOut.
        """
        wishes = self._wishes(request)
        ttl_ms = life_ms + LEASE_SLACK_MS
        with self._places.lease(tenant_id=tenant_id, user_id=user_id, ttl_ms=ttl_ms):
            generation = self._generations.submit(tenant_id=tenant_id, user_id=user_id, wishes=wishes)
            is_ended = False
            entries = self._reader.follow(tenant_id=tenant_id, generation_id=generation.generation_id, life_ms=life_ms)
            try:
                yield Accepted(generation.wire_id, generation.created_at)
                has_text = False
                for entry in entries:
                    is_ended = entry is not None and entry.name in TERMINAL
                    has_text = has_text or (entry is not None and entry.name in TEXTS)
                    yield from _step(entry, has_text=has_text and request.is_streamed)
                if not is_ended:
                    raise ChatTimedOut("the text was not written in time")
            finally:
                entries.close()
                if not is_ended:
                    self._cancel(generation)

    def _wishes(self, request: ChatRequest) -> Wishes:
        asked: dict[str, object] = {"messages": [list(message) for message in request.messages]}
        if request.options:
            asked["options"] = dict(request.options)
        routes, chats = self._routes(), self._services.chats()
        service = request.model
        if service not in routes.routed(chats):
            if request.model not in routes.models(chats):
                raise NoSuchModel(request.model)
            service, asked["model"] = SERVICE, request.model
        return Wishes(service=service, input=asked, params={}, max_tokens=request.max_tokens)

    def _cancel(self, generation: Generation) -> None:
        """The worker stops the provider; what it had delivered until then is charged."""
        with contextlib.suppress(ArtiwayError):  # it has ended by itself, or a sweep ends it
            requester = Requester(generation.user_id, may_manage=False)
            self._generations.cancel(
                tenant_id=generation.tenant_id, generation_id=generation.generation_id, requester=requester
            )
            logger.info("chat ended by its reader", generation_id=generation.wire_id)


def _step(entry: Entry | None, *, has_text: bool) -> Generator[Step, None, None]:
    """`has_text`: a reader has seen some of the text, so it cannot begin anew."""
    if entry is None:
        yield Waiting()
    elif entry.name in TEXTS:
        yield Part(entry.text)
    elif entry.name is Name.RESTART:
        if has_text:
            raise ChatFailed("the worker was lost while it wrote", code=FailureCode.WORKER_LOST)
        yield Again()
    elif entry.name is Name.DONE:
        usage = entry.body["usage"] or {"inputTokens": 0, "outputTokens": 0}
        yield Finished(str(entry.body["finishReason"]), Usage(usage["inputTokens"], usage["outputTokens"]))
    elif entry.name is Name.CANCELLED:
        raise ChatCancelled("the text was cancelled")
    elif entry.name is Name.ERROR:
        raise ChatFailed(str(entry.body["message"]), code=str(entry.body["code"]))
