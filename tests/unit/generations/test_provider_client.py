"""The client of providers against a stand-in that answers well, badly, slowly or not at all."""

from __future__ import annotations

import json
import socket
from datetime import UTC, datetime, timedelta

import pytest

from artiway.generations.providers.model import (
    Alive,
    ApiKey,
    FailureCode,
    Finish,
    FinishReason,
    Limits,
    Message,
    Prompt,
    ProviderFailed,
    Role,
    Target,
    Text,
    Thought,
    Tick,
    Usage,
)
from artiway.generations.providers.outbound import ChatProvider
from artiway.platform.outbound import Client
from local.text_standin import SCENES, TextStandin, words

CANARY = "canary-key-77aa"
TOKENS = 12
TEXT = "".join(words(TOKENS))
# Long enough for a loaded machine where nothing waits; the faults of time shorten their own phase.
LIMITS = Limits(connect_s=10, first_byte_s=20, first_token_s=20, idle_s=20, total_s=60, tick_s=0.05)
SHORT_S = 0.3
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def standin():
    with TextStandin() as server:
        yield server


@pytest.fixture
def provider(standin):
    client = Client(allowed=frozenset({("127.0.0.1", standin.port)}))
    return ChatProvider(lambda: client, now=lambda: NEW_YEAR)


def target(standin, model):
    return Target("standin", standin.base_url, model, api_key=ApiKey(CANARY))


def prompt(**changes):
    asked = {"messages": (Message(Role.SYSTEM, "Write."), Message(Role.USER, "a dress")), "max_tokens": TOKENS}
    return Prompt(**{**asked, **changes})


def stream(provider, standin, model, *, limits=LIMITS, is_cancelled=lambda: False, **changes):
    return list(provider.stream(target(standin, model), prompt(**changes), limits, is_cancelled))


def text_of(items):
    return "".join(item.text for item in items if isinstance(item, Text))


class Received:
    """The items before a failure, and the failure."""

    def __init__(self, items):
        self.items = []
        with pytest.raises(ProviderFailed) as raised:
            for item in items:
                self.items.append(item)
        self.failure = raised.value

    @property
    def text(self):
        return text_of(self.items)


def fail(provider, standin, model, *, limits=LIMITS, **changes):
    return Received(provider.stream(target(standin, model), prompt(**changes), limits, lambda: False))


# Scenes that end in the whole text, the reason and the usage that they report.
USAGE = Usage(3, TOKENS)
WHOLE = {
    "healthy": (FinishReason.LENGTH, USAGE),
    "utf8_split": (FinishReason.STOP, USAGE),
    "carriage_returns": (FinishReason.STOP, USAGE),
    "chunked": (FinishReason.STOP, None),
    "multi_line_data": (FinishReason.STOP, USAGE),
    "comments": (FinishReason.STOP, USAGE),
    "no_usage": (FinishReason.STOP, None),
    "bad_usage": (FinishReason.STOP, None),
    "usage_in_every_event": (FinishReason.STOP, USAGE),
    "null_content": (FinishReason.STOP, USAGE),
    "thoughts": (FinishReason.STOP, USAGE),
    "two_deltas": (FinishReason.STOP, USAGE),
    "other_choices": (FinishReason.STOP, USAGE),
    "parts": (FinishReason.STOP, USAGE),
    "duplicate_finish": (FinishReason.STOP, USAGE),
    "no_end_mark": (FinishReason.STOP, USAGE),
    "no_finish_reason": (FinishReason.STOP, None),
    "no_last_line": (FinishReason.STOP, None),
    "json_for_stream": (FinishReason.STOP, USAGE),
    "filtered": (FinishReason.CONTENT_FILTER, USAGE),
    "error_after_finish": (FinishReason.STOP, None),
}
# Faults: the code, and whether content came before.
FAULTS = {
    "status_400": (FailureCode.REFUSED, False),
    "status_401": (FailureCode.KEY, False),
    "status_402": (FailureCode.KEY, False),
    "status_403": (FailureCode.KEY, False),
    "status_404": (FailureCode.REFUSED, False),
    "status_413": (FailureCode.REFUSED, False),
    "status_429": (FailureCode.BUSY, False),
    "status_429_date": (FailureCode.BUSY, False),
    "status_429_bare": (FailureCode.BUSY, False),
    "status_429_quota": (FailureCode.KEY, False),
    "status_500": (FailureCode.ERROR, False),
    "status_502": (FailureCode.ERROR, False),
    "status_503": (FailureCode.AWAY, False),
    "status_504": (FailureCode.TIMEOUT, False),
    "status_529": (FailureCode.AWAY, False),
    "redirect": (FailureCode.ERROR, False),
    "endless_error": (FailureCode.ERROR, False),
    "error_before_text": (FailureCode.BUSY, False),
    "error_after_text": (FailureCode.ERROR, True),
    "error_in_json": (FailureCode.ERROR, False),
    "declined": (FailureCode.REFUSED, False),
    "half_json": (FailureCode.ANSWER, True),
    "half_json_at_end": (FailureCode.ANSWER, True),
    "half_whole_json": (FailureCode.ANSWER, False),
    "broken_utf8": (FailureCode.ANSWER, True),
    "broken_utf8_whole": (FailureCode.ANSWER, False),
    "html_page": (FailureCode.ANSWER, False),
    "empty_answer": (FailureCode.ANSWER, False),
    "wrong_shapes": (FailureCode.ANSWER, False),
    "wrong_choices": (FailureCode.ANSWER, False),
    "no_choices": (FailureCode.ANSWER, False),
    "deep_json": (FailureCode.ANSWER, False),
    "endless_line": (FailureCode.ANSWER, False),
    "closed_before_answer": (FailureCode.ANSWER, False),
    "reset_before_answer": (FailureCode.ANSWER, False),
    "closed_in_head": (FailureCode.ANSWER, False),
    "not_http": (FailureCode.ANSWER, False),
    "endless_head": (FailureCode.ANSWER, False),
    "closed_in_text": (FailureCode.ANSWER, True),
    "reset_in_text": (FailureCode.ANSWER, True),
    "closed_in_chunk": (FailureCode.ANSWER, True),
}
# Faults of time: the phase whose limit is short, and whether content came before.
SLOW = {
    "silent": ("first_byte", False),
    "dripping_head": ("first_byte", False),
    "endless_keep_alives": ("first_token", False),
    "endless_empty_deltas": ("first_token", False),
    "stall_after_text": ("idle", True),
    "keep_alives_after_text": ("idle", True),
    "endless_text": ("total", True),
}
OTHER = {"surrogates", "overlong", "usage_never_comes"}  # tests of their own


def test_every_scene_has_an_expectation():
    assert {*WHOLE, *FAULTS, *SLOW, *OTHER} == set(SCENES)
    assert len({*FAULTS, *SLOW}) >= 25


class TestAnswers:
    @pytest.mark.parametrize("model", WHOLE)
    def test_text_is_whole_whatever_the_frames(self, provider, standin, model):
        items = stream(provider, standin, model)
        assert text_of(items) == TEXT
        assert items[-1] == Finish(*WHOLE[model])
        assert [item for item in items[:-1] if isinstance(item, Finish)] == []

    def test_thoughts_are_counted_and_not_shown(self, provider, standin):
        items = stream(provider, standin, "thoughts")
        assert [item.characters for item in items if isinstance(item, Thought)] == [2, 6]

    def test_keep_alives_are_no_text(self, provider, standin):
        assert Alive() in stream(provider, standin, "comments")

    def test_text_can_be_stored_as_utf8(self, provider, standin):
        text = text_of(stream(provider, standin, "surrogates"))
        assert text == "a\U0001f9f5bc\ufffddef\ufffd"
        assert text.encode()

    def test_text_without_usage_ends_soon(self, provider, standin, monkeypatch):
        monkeypatch.setattr("artiway.generations.providers.outbound.TAIL_S", SHORT_S)
        items = stream(provider, standin, "usage_never_comes")
        assert (text_of(items), items[-1]) == (TEXT, Finish(FinishReason.STOP, None))

    def test_text_beyond_max_tokens_is_stopped(self, provider, standin):
        items = stream(provider, standin, "overlong")
        assert items[-1] == Finish(FinishReason.LENGTH, None)
        assert TOKENS * 32 < len(text_of(items)) <= TOKENS * 32 + 100
        assert standin.wait_until_left("overlong")

    def test_steady_text_comes_piece_by_piece(self, provider, standin):
        items = provider.stream(target(standin, "steady-50"), prompt(), LIMITS, lambda: False)
        pieces = [item.text for item in items if isinstance(item, Text)]
        assert pieces == words(TOKENS)

    def test_whole_answer_is_one_text(self, provider, standin):
        items = stream(provider, standin, "healthy", is_streamed=False)
        assert [item for item in items if not isinstance(item, Alive | Tick)] == [
            Text(TEXT),
            Finish(FinishReason.STOP, USAGE),
        ]

    @pytest.mark.parametrize("is_streamed", [True, False])
    def test_schema_gives_json(self, provider, standin, is_streamed):
        schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
        items = stream(provider, standin, "healthy", json_schema=schema, is_streamed=is_streamed)
        assert json.loads(text_of(items)) == {"title": "Cotton dress"}
        sent = standin.requests[-1].body["response_format"]
        assert sent == {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}

    def test_request_is_the_protocol(self, provider, standin):
        picture = Message(Role.USER, "tags", images=("https://pictures.example.com/1",))
        stream(provider, standin, "healthy", messages=(picture,), temperature=0.5)
        request = standin.requests[-1]
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {CANARY}"
        assert request.body == {
            "model": "healthy",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "tags"},
                        {"type": "image_url", "image_url": {"url": "https://pictures.example.com/1"}},
                    ],
                }
            ],
            "max_tokens": TOKENS,
            "temperature": 0.5,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def test_provider_without_key_gets_no_header(self, provider, standin):
        bare = Target("standin", standin.base_url, "healthy")
        assert text_of(provider.stream(bare, prompt(), LIMITS, lambda: False)) == TEXT
        assert "authorization" not in standin.requests[-1].headers


class TestFaults:
    @pytest.mark.parametrize("model", FAULTS)
    def test_fault_ends_in_its_code(self, provider, standin, model):
        received = fail(provider, standin, model)
        code, is_billable = FAULTS[model]
        assert (received.failure.code, received.failure.is_billable) == (code, is_billable)
        assert bool(received.text) == is_billable
        assert (received.failure.provider, received.failure.model_id) == ("standin", model)

    @pytest.mark.parametrize("model", SLOW)
    def test_slow_answer_ends_with_its_phase(self, provider, standin, model):
        phase, is_billable = SLOW[model]
        limits = Limits(**{**vars(LIMITS), f"{phase}_s": SHORT_S})
        received = fail(provider, standin, model, limits=limits)
        assert (received.failure.code, received.failure.phase) == (FailureCode.TIMEOUT, phase)
        assert received.failure.is_billable == is_billable
        assert standin.wait_until_left(model)

    def test_whole_answer_is_bounded_by_total_alone(self, provider, standin):
        short = Limits(**{**vars(LIMITS), "first_byte_s": 0.01, "first_token_s": 0.01, "idle_s": 0.01})
        items = stream(provider, standin, "steady-100", limits=short, is_streamed=False)
        assert text_of(items) == TEXT
        received = fail(
            provider, standin, "silent", limits=Limits(**{**vars(LIMITS), "total_s": SHORT_S}), is_streamed=False
        )
        assert received.failure.phase == "total"

    def test_silence_gives_ticks(self, provider, standin):
        received = fail(provider, standin, "silent", limits=Limits(**{**vars(LIMITS), "first_byte_s": SHORT_S}))
        assert set(received.items) == {Tick()}
        assert len(received.items) >= 2

    @pytest.mark.parametrize(
        ("model", "seconds"), [("status_429", 7), ("status_429_date", 30), ("status_429_bare", None), ("status_503", 2)]
    )
    def test_retry_after_is_seconds_or_date(self, provider, standin, model, seconds):
        assert fail(provider, standin, model).failure.retry_after_s == seconds

    @pytest.mark.parametrize("model", ["status_401", "status_500", "error_after_text", "not_http", "html_page"])
    def test_key_is_neither_shown_nor_logged(self, provider, standin, model, capsys):
        failure = fail(provider, standin, model).failure
        output = capsys.readouterr()
        assert CANARY not in f"{failure} {failure!r} {failure.details} {vars(failure)} {output.out} {output.err}"

    def test_missing_key_sends_nothing(self, provider, standin):
        before = len(standin.requests)
        bare = Target("standin", standin.base_url, "healthy", is_key_missing=True)
        received = Received(provider.stream(bare, prompt(), LIMITS, lambda: False))
        assert (received.failure.code, received.items) == (FailureCode.KEY, [])
        assert len(standin.requests) == before

    def test_closed_port_is_away(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        client = Client(allowed=frozenset({("127.0.0.1", port)}))
        place = Target("own", f"http://127.0.0.1:{port}/v1", "m")
        failure = Received(ChatProvider(lambda: client).stream(place, prompt(), LIMITS, lambda: False)).failure
        assert (failure.code, failure.phase, failure.is_waiting) == (FailureCode.AWAY, "connect", True)

    def test_host_that_is_not_configured_is_refused(self, standin):
        failure = Received(
            ChatProvider(Client).stream(target(standin, "healthy"), prompt(), LIMITS, lambda: False)
        ).failure
        assert failure.code == FailureCode.AWAY


class TestCancel:
    @pytest.mark.parametrize("model", ["silent", "stall_after_text", "endless_text", "endless_keep_alives"])
    def test_cancel_closes_the_connection(self, provider, standin, model):
        standin.left_early.clear()
        seen = []
        items = stream(provider, standin, model, is_cancelled=lambda: len(seen) > 4 or seen.append(1))
        assert items[-1] == Finish(FinishReason.CANCELLED, None)
        assert standin.wait_until_left(model)

    def test_closing_the_iterator_closes_the_connection(self, provider, standin):
        standin.left_early.clear()
        items = provider.stream(target(standin, "stall_after_text"), prompt(), LIMITS, lambda: False)
        next(items)
        items.close()
        assert standin.wait_until_left("stall_after_text")


def test_retry_after_has_bounds(provider):
    from artiway.generations.providers.protocol import retry_after_s

    now = lambda: NEW_YEAR  # noqa: E731
    values = {"-5": 1, "0": 1, "1.2": 2, "1e9": 3_600, "inf": None, "nan": None, "": None}
    assert {value: retry_after_s({"retry-after": value}, now) for value in values} == values
    past = (NEW_YEAR - timedelta(days=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert retry_after_s({"retry-after": past}, now) == 1
