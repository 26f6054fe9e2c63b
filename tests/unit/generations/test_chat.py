"""A chat request while it waits: what is sent, and what becomes of its text whichever way it ends."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from artiway.errors import TooMany
from artiway.generations import services
from artiway.generations.chat.model import (
    Accepted,
    Again,
    ChatCancelled,
    ChatFailed,
    ChatRequest,
    ChatTimedOut,
    Finished,
    NoSuchModel,
    Part,
    Waiting,
)
from artiway.generations.chat.service import ChatService
from artiway.generations.feed.model import Entry, EntryId, Name, Usage
from artiway.platform import openai
from artiway.settings.model import Defaults

TENANT, USER, GENERATION = UUID(int=1), UUID(int=2), UUID(int=3)
MADE = SimpleNamespace(
    generation_id=GENERATION,
    tenant_id=TENANT,
    user_id=USER,
    wire_id="gen_3",
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
DONE = {"finishReason": "length", "usage": {"inputTokens": 7, "outputTokens": 3}}


def entry(name: Name, **body: Any) -> Entry:
    return Entry(EntryId(1, 1), name, body)


def text(words: str) -> Entry:
    return entry(Name.TOKEN_BATCH, text=words)


class Chat:
    """The service with a text that comes as the test says. `cancelled` and `open` are what it did."""

    def __init__(self, *entries: Entry | None, is_full: bool = False) -> None:
        self.entries, self.is_full = entries, is_full
        self.wishes: list[Any] = []
        self.cancelled = self.open = 0
        routes = SimpleNamespace(routed=lambda _: ["copywriting", "title"], models=lambda _: ["alpha/small"])
        catalogue = services.Services(services.load(), Defaults())
        self.service = ChatService(self, catalogue, lambda: routes, self, self)  # type: ignore[arg-type]

    def submit(self, *, tenant_id: UUID, user_id: UUID, wishes: Any) -> Any:
        self.wishes.append(wishes)
        return MADE

    def cancel(self, *, tenant_id: UUID, generation_id: UUID, requester: Any) -> Any:
        assert (tenant_id, generation_id, requester.user_id, requester.may_manage) == (TENANT, GENERATION, USER, False)
        self.cancelled += 1
        return MADE

    def follow(self, *, tenant_id: UUID, generation_id: UUID, life_ms: int) -> Generator[Entry | None, None, None]:
        yield from self.entries

    @contextlib.contextmanager
    def lease(self, *, tenant_id: UUID, user_id: UUID, ttl_ms: int) -> Iterator[None]:
        if self.is_full:
            raise TooMany("too many requests are open", retry_after_s=1)
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def steps(self, *, is_streamed: bool = True, model: str = "copywriting") -> Generator[Any, None, None]:
        request = ChatRequest(model, [("user", "a dress")], is_streamed)
        return self.service.steps(tenant_id=TENANT, user_id=USER, request=request, life_ms=1_000)


def test_steps_of_a_text_that_ends_well() -> None:
    chat = Chat(entry(Name.START), None, text("Red "), text("dress."), entry(Name.DONE, **DONE))
    found = list(chat.steps())
    expected = [Waiting(), Part("Red "), Part("dress."), Finished("length", Usage(7, 3))]
    assert (type(found[0]), found[1:]) == (Accepted, expected)
    assert (chat.cancelled, chat.open) == (0, 0)


@pytest.mark.parametrize("read", [1, 2])
def test_reader_who_leaves_cancels(read: int) -> None:
    chat = Chat(text("Red "), text("dress."), entry(Name.DONE, **DONE))
    steps = chat.steps()
    for _ in range(read):
        next(steps)
    assert chat.open == 1
    steps.close()
    assert (chat.cancelled, chat.open) == (1, 0)


def test_request_that_never_began_submits_nothing() -> None:
    chat = Chat()
    chat.steps().close()
    assert (chat.wishes, chat.cancelled) == ([], 0)


def test_text_that_is_late_is_cancelled() -> None:
    chat = Chat(text("Red "))
    with pytest.raises(ChatTimedOut):
        list(chat.steps())
    assert (chat.cancelled, chat.open) == (1, 0)


@pytest.mark.parametrize(
    ("end", "error"),
    [(entry(Name.CANCELLED), ChatCancelled), (entry(Name.ERROR, message="no", code="GEN_422_PICTURE"), ChatFailed)],
)
def test_other_ends_are_errors_without_a_cancel(end: Entry, error: type[Exception]) -> None:
    chat = Chat(text("Red "), end)
    with pytest.raises(error):
        list(chat.steps())
    assert chat.cancelled == 0


def test_restart_ends_a_stream_whose_text_was_seen() -> None:
    chat = Chat(text("Red "), entry(Name.RESTART), text("Blue"), entry(Name.DONE, **DONE))
    with pytest.raises(ChatFailed):
        list(chat.steps())
    assert chat.cancelled == 1  # nobody would read the second text
    whole = list(chat.steps(is_streamed=False))
    assert whole[1:4] == [Part("Red "), Again(), Part("Blue")]
    unseen = Chat(entry(Name.RESTART), text("Blue"), entry(Name.DONE, **DONE))
    assert list(unseen.steps())[1:3] == [Again(), Part("Blue")]


def test_full_places_hold_no_points() -> None:
    chat = Chat(is_full=True)
    with pytest.raises(TooMany):
        next(chat.steps())
    assert chat.wishes == []


def test_model_is_a_service_or_a_route() -> None:
    chat = Chat(entry(Name.DONE, **DONE))
    for model in ("copywriting", "alpha/small"):
        list(chat.steps(model=model))
    assert [(one.service, one.input.get("model")) for one in chat.wishes] == [
        ("copywriting", None),
        ("chat", "alpha/small"),
    ]
    for model in ("chat", "listing", "beta/large", ""):
        with pytest.raises(NoSuchModel):
            next(chat.steps(model=model))


def test_status_of_failed_text_is_not_the_callers() -> None:
    codes = ("GEN_422_PROVIDER_REFUSED", "GEN_401_PROVIDER_KEY", "GEN_429_PROVIDER_BUSY", "GEN_504_PROVIDER_TIMEOUT")
    assert [openai.status_of(ChatFailed("no", code=code)) for code in codes] == [400, 502, 502, 504]


class TestAnswers:
    """What the function makes of the steps."""

    @pytest.fixture
    def app(self) -> Any:
        return import_module("functions.openai.app")

    def test_stream_has_usage_and_a_last_line(self, app: Any) -> None:
        chat = Chat(None, text("Red"), entry(Name.DONE, **DONE))
        frames = list(app._streamed("copywriting", chat.steps(), has_usage=True))
        assert frames[1] == ": keep-alive\n\n"
        assert frames[-1] == "data: [DONE]\n\n"
        chunks = [json.loads(one.removeprefix("data: ")) for one in (frames[0], *frames[2:-1])]
        assert {(one["id"], one["object"], one["model"]) for one in chunks} == {
            ("gen_3", "chat.completion.chunk", "copywriting")
        }
        assert [one["choices"][0]["delta"] for one in chunks[:-1]] == [
            {"role": "assistant", "content": ""},
            {"content": "Red"},
            {},
        ]
        assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"]) == ([], 10)

    def test_broken_stream_ends_with_an_error(self, app: Any) -> None:
        chat = Chat(text("Red"), entry(Name.ERROR, message="broke off", code="GEN_502_PROVIDER_ERROR"))
        *_, last = app._streamed("copywriting", chat.steps(), has_usage=True)
        assert json.loads(last.removeprefix("data: "))["error"] == {
            "message": "broke off",
            "type": "server_error",
            "param": None,
            "code": "GEN_502_PROVIDER_ERROR",
        }

    def test_slow_whole_answer_sends_blanks_before_it(self, app: Any) -> None:
        silent = [None] * (app.SILENT_STEPS + 1)
        chat = Chat(*silent, text("Red "), text("dress."), entry(Name.DONE, **DONE))
        *blanks, whole = app._whole("copywriting", chat.steps(is_streamed=False))
        assert blanks == [" ", " "]
        answer = json.loads("".join([*blanks, whole]))
        assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Red dress."}
        assert answer["choices"][0]["finish_reason"] == "length"

    def test_failed_whole_answer_has_its_status(self, app: Any) -> None:
        chat = Chat(text("Red"), entry(Name.ERROR, message="broke off", code="GEN_502_PROVIDER_ERROR"))
        with pytest.raises(ChatFailed):
            next(app._whole("copywriting", chat.steps(is_streamed=False)))

    def test_closed_answers_cancel_their_text(self, app: Any) -> None:
        for answer in (app._streamed, app._whole):
            chat = Chat(*[None] * 9, text("Red"), entry(Name.DONE, **DONE))
            more = {"has_usage": False} if answer is app._streamed else {}
            frames = answer("copywriting", chat.steps(), **more)
            next(frames)
            frames.close()
            assert (chat.cancelled, chat.open) == (1, 0)
