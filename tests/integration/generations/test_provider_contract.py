"""One contract for providers, kept by the stand-in and by a real model behind llama.cpp's server."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artiway.generations import services
from artiway.generations.providers.model import (
    Alive,
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
    Tick,
)
from artiway.generations.providers.outbound import ChatProvider, OperatorsClient
from artiway.generations.providers.routes import parse
from local import text_model
from local.servers import free_port
from local.text_model import TextModel
from local.text_standin import TextStandin

LIMITS = Limits(connect_s=10, first_byte_s=60, first_token_s=60, idle_s=60, total_s=120, tick_s=0.5)
SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string", "maxLength": 40}, "color": {"enum": ["red", "blue"]}},
    "required": ["title", "color"],
    "additionalProperties": False,
}
LOADED_S = 60
TITLE = services.load()["title"]


@dataclass(frozen=True)
class Server:
    """A provider, configured as an operator would, and a model of it that writes for ever if it may."""

    provider: ChatProvider
    target: Target
    endless: Target

    def stream(self, *, target=None, is_cancelled=lambda: False, limits=LIMITS, **changes: Any):
        asked = {
            "messages": (
                Message(Role.SYSTEM, "You write product copy."),
                Message(Role.USER, "Write a long text about a red cotton dress with pockets."),
            ),
            "max_tokens": 24,
            "temperature": 0.0,
        }
        return self.provider.stream(target or self.target, Prompt(**{**asked, **changes}), limits, is_cancelled)


def configured(document: str, endless: str | None = None) -> Server:
    routes = parse(document)
    target = routes.targets[0]
    provider = ChatProvider(OperatorsClient(lambda: routes))
    return Server(provider, target, Target(target.provider, target.base_url, endless or target.model_id))


@pytest.fixture(scope="module", params=["standin", "model"])
def server(request):
    if request.param == "standin":
        with TextStandin() as standin:
            document = text_model.document(standin.port, "healthy")
            yield configured(document, "endless_text")
        return
    with tempfile.TemporaryDirectory() as home:
        reports: list[str] = []
        model, port = TextModel(Path(home)), free_port()
        model.start(port, reports.append)
        try:
            assert model.wait_until_ready(LOADED_S), reports
            yield configured(text_model.document(port))
        finally:
            model.stop()


def text_of(items):
    return "".join(item.text for item in items if isinstance(item, Text))


def test_stream_comes_in_pieces_and_ends(server):
    items = list(server.stream())
    pieces = [item for item in items if isinstance(item, Text)]
    assert len(pieces) >= 5
    assert isinstance(items[-1], Finish)
    assert sum(isinstance(item, Finish) for item in items) == 1


def test_usage_is_counted_and_length_kept(server):
    finish = list(server.stream(max_tokens=12))[-1]
    assert finish.reason is FinishReason.LENGTH
    assert finish.usage.output_tokens == 12
    assert finish.usage.input_tokens > 5


def test_whole_answer_has_text_and_usage(server):
    items = [item for item in server.stream(is_streamed=False) if not isinstance(item, Alive | Tick)]
    assert [type(item) for item in items] == [Text, Finish]
    assert items[-1].usage.output_tokens > 0


@pytest.mark.parametrize("is_streamed", [True, False])
def test_answer_keeps_to_its_schema(server, is_streamed):
    items = list(server.stream(json_schema=SCHEMA, max_tokens=80, is_streamed=is_streamed))
    answer = json.loads(text_of(items))
    assert set(answer) == {"title", "color"}
    assert answer["color"] in ("red", "blue")
    assert items[-1].reason is FinishReason.STOP


def test_title_service_gets_its_result(server):
    rows = TITLE.messages({"text": "a red cotton dress with pockets"}, TITLE.checked_params({}))
    messages = tuple(Message(Role(role), text) for role, text in rows)
    asked = {"json_schema": TITLE.json_schema, "max_tokens": TITLE.usual_tokens, "is_streamed": False}
    found = TITLE.parsed(text_of(list(server.stream(messages=messages, **asked))))
    assert found["title"]


def test_cancel_ends_the_text_early(server):
    seen = []
    items = []
    for item in server.stream(target=server.endless, max_tokens=2_000, is_cancelled=lambda: len(seen) >= 3):
        items.append(item)
        if isinstance(item, Text):
            seen.append(item)
    assert items[-1].reason is FinishReason.CANCELLED
    assert len(seen) == 3


def test_next_text_follows_a_cancelled_one(server):
    items = server.stream(target=server.endless, max_tokens=2_000)
    assert any(isinstance(item, Text) for item in items)  # stops at the first
    items.close()
    assert text_of(server.stream(max_tokens=8))


def test_time_limit_ends_the_text(server):
    limits = Limits(**{**vars(LIMITS), "total_s": 0.5})
    with pytest.raises(ProviderFailed) as raised:
        list(server.stream(target=server.endless, max_tokens=6_000, limits=limits))
    assert (raised.value.code, raised.value.phase) == (FailureCode.TIMEOUT, "total")


def test_texts_are_written_at_once(server):
    first, second = server.stream(), server.stream()
    texts = ["", ""]
    for one, other in zip(first, second, strict=False):
        for place, item in enumerate((one, other)):
            texts[place] += item.text if isinstance(item, Text) else ""
    assert all(texts)


def test_unicode_of_prompt_is_sent_whole(server):
    messages = (Message(Role.USER, "Describe: 红色连衣裙 👗 café\u0000 \ud83e"),)
    assert isinstance(list(server.stream(messages=messages, max_tokens=8))[-1], Finish)


def test_prompt_beyond_the_context_is_refused(server):
    with pytest.raises(ProviderFailed) as raised:
        list(server.stream(messages=(Message(Role.USER, "dress " * 20_000),)))
    assert (raised.value.code, raised.value.is_retryable) == (FailureCode.REFUSED, False)
    assert (raised.value.provider_status, raised.value.is_billable) == (400, False)
