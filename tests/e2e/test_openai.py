"""OpenAI's own client and curl on the running stack: the examples of docs/openai.md, and what is refused."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import openai
import pytest

from local.text_standin import words
from tests.e2e.attacks import Operation, operations
from tests.e2e.conftest import Platform, wait_for
from tests.e2e.test_generations import Writer

DOCUMENT = (Path(__file__).parents[2] / "docs/openai.md").read_text("utf-8")
EXAMPLES = [block for _, block in re.findall(r"```(python|sh)\n(.*?)```", DOCUMENT, re.DOTALL)]
WHOLE, STREAMED, CANCELLED, LIMITED, CURL = EXAMPLES
DRESS = "A red cotton dress for summer"


class Developer(Writer):
    """A user with an API key, who uses OpenAI's client."""

    def __init__(self, platform: Platform, *, points: int = 100) -> None:
        super().__init__(platform, points=points)
        self.tenant_id = self.call("GET", "/me")["tenantId"]
        self.key = self.new_key("task.submit")
        self.url = platform.facts["apiUrl"].replace("/api/v1", "/openai/v1")

    def new_key(self, *permissions: str) -> str:
        return str(self.call("POST", "/api-keys", {"name": uuid4().hex, "permissions": permissions})["key"])

    def openai(self, key: str = "") -> openai.OpenAI:
        return openai.OpenAI(base_url=self.url, api_key=key or self.key, max_retries=0, timeout=60)

    def chat(self, text: str, **more: Any) -> Any:
        with self.openai() as client:
            return client.chat.completions.create(**asked(text, **more))

    def adapted(self, example: str, scene: str = "") -> str:
        """The example for this stack. The stand-in provider reads the scene in the text."""
        assert DRESS in example
        example = example.replace("http://127.0.0.1:8700/openai/v1", self.url).replace("ak_…", self.key)
        return example.replace(DRESS, f"{DRESS} scene={scene}") if scene else example

    def run(self, example: str, scene: str = "") -> str:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(self.adapted(example, scene), {})
        return output.getvalue()

    def latest(self) -> Any:
        return self.call("GET", "/generations?limit=1")["items"][0]


def asked(text: str, **more: Any) -> Any:
    return {"model": "copywriting", "messages": [{"role": "user", "content": text}], "max_tokens": 10, **more}


@pytest.fixture
def developer(platform: Platform) -> Iterator[Developer]:
    made = Developer(platform)
    with contextlib.closing(made.client):
        yield made


class TestExamples:
    def test_whole_answer(self, developer: Developer) -> None:
        printed = developer.run(WHOLE)
        found = developer.latest()
        assert found["status"] == "COMPLETED"
        tokens = found["usage"]["inputTokens"] + found["usage"]["outputTokens"]
        assert printed == f"{''.join(words(20))} {tokens}\n"
        assert developer.points() == (100 - found["chargedPoints"], 0)

    def test_streamed_answer(self, developer: Developer) -> None:
        printed = developer.run(STREAMED)
        used = developer.latest()["usage"]
        assert printed == f"{''.join(words(20))}\n{used['inputTokens'] + used['outputTokens']} tokens\n"

    def test_closed_stream_cancels_its_text(self, developer: Developer) -> None:
        generation_id = developer.run(CANCELLED, "steady-20").strip()
        ended = developer.ended(generation_id)
        assert (ended["status"], ended["usageSource"]) == ("CANCELLED", "estimated")
        assert "".join(words(512)).startswith(ended["text"])
        assert 0 < len(ended["text"]) < len("".join(words(512)))
        assert 0 < ended["chargedPoints"] < ended["pricePoints"]
        assert developer.points() == (100 - ended["chargedPoints"], 0)

    def test_full_queue_is_a_rate_limit(self, developer: Developer) -> None:
        developer.operate("PATCH", f"/tenants/{developer.tenant_id}", {"queueDepth": 1})
        waiting = developer.submit("steady-5", words=100)
        code, retry_after = developer.run(LIMITED).split()
        developer.call("POST", f"/generations/{waiting}/cancel")
        assert code == "rate_limit_exceeded"
        assert 1 <= int(retry_after) <= 300

    def test_curl_shows_the_stream(self, developer: Developer) -> None:
        with subprocess.Popen(["bash", "-c", developer.adapted(CURL, "steady-20")], stdout=subprocess.PIPE) as curl:
            assert curl.stdout is not None
            first = curl.stdout.readline()
            assert json.loads(first.removeprefix(b"data: "))["object"] == "chat.completion.chunk"
            assert developer.latest()["endedAt"] is None
            lines = [line for line in curl.stdout.read().decode().splitlines() if line]
        assert lines[-1] == "data: [DONE]"
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        text = "".join(one["choices"][0]["delta"].get("content", "") for one in chunks)
        assert text == "".join(words(20))
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"


class TestModels:
    def test_models_are_services_and_routes(self, developer: Developer) -> None:
        with developer.openai() as client:
            names = {one.id: one.owned_by for one in client.models.list()}
        model = next(name for name in names if "/" in name)
        assert names["copywriting"] == names["title"] == "artiway"
        assert not names.keys() & {"image_tags", "listing"}
        assert names[model] == model.partition("/")[0]

    def test_named_model_gets_the_conversation(self, developer: Developer, text_standin: Any) -> None:
        with developer.openai() as client:
            model = next(one.id for one in client.models.list() if "/" in one.id)
        conversation = [
            {"role": "developer", "content": "Be brief."},
            {"role": "assistant", "content": "What is it?"},
            {"role": "user", "content": [{"type": "text", "text": "a dress scene=healthy"}]},
        ]
        answer = developer.chat("", model=model, messages=conversation, temperature=0.5, stop=["."], seed=7)
        assert (answer.model, answer.choices[0].message.content) == (model, "".join(words(10)))
        sent = text_standin.requests[-1].body
        assert [one["role"] for one in sent["messages"]] == ["system", "assistant", "user"]
        assert (sent["temperature"], sent["stop"], sent["seed"]) == (0.5, ["."], 7)
        found = developer.latest()
        assert (found["service"], f"{found['provider']}/{found['modelId']}") == ("chat", model)

    def test_structured_service_answers_with_json(self, developer: Developer) -> None:
        answer = developer.chat("a red dress", model="title", max_tokens=None)
        assert json.loads(answer.choices[0].message.content).keys() == {"title", "keywords"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("more", "param", "code"),
        [
            ({"tools": []}, "tools", "unknown_parameter"),
            ({"extra_body": {"user": "x"}}, "user", "unknown_parameter"),
            ({"n": 2}, "n", "invalid_value"),
            ({"temperature": 3}, "temperature", "invalid_value"),
            ({"max_tokens": 100_000}, "max_tokens", "invalid_value"),
            ({"messages": [{"role": "assistant", "content": "x"}]}, "messages.0", "invalid_value"),
            (
                {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
                "messages.0.content.0",
                "invalid_value",
            ),
            ({"messages": [{"role": "user", "content": "词" * 5_000}]}, "messages", "context_length_exceeded"),
        ],
    )
    def test_unsupported_field_is_named(self, developer: Developer, more: Any, param: str, code: str) -> None:
        with pytest.raises(openai.BadRequestError) as refused:
            developer.chat("x", **more)
        assert refused.value.code == code
        assert (refused.value.param or "").startswith(param)
        assert refused.value.type == "invalid_request_error"
        assert developer.points() == (100, 0)

    def test_unknown_model_is_not_found(self, developer: Developer) -> None:
        for model in ("gpt-4o", "image_tags", "alpha/none"):
            with pytest.raises(openai.NotFoundError) as refused:
                developer.chat("x", model=model)
            assert (refused.value.code, refused.value.param) == ("model_not_found", "model")

    def test_key_and_permission_are_checked(self, developer: Developer) -> None:
        with pytest.raises(openai.AuthenticationError) as unknown, developer.openai("ak_false") as client:
            client.models.list()
        assert (unknown.value.code, unknown.value.type) == ("invalid_api_key", "invalid_request_error")
        weak = developer.new_key("task.read")
        with pytest.raises(openai.PermissionDeniedError), developer.openai(weak) as client:
            client.chat.completions.create(**asked("x"))

    def test_empty_account_has_no_quota(self, platform: Platform) -> None:
        poor = Developer(platform, points=0)
        with contextlib.closing(poor.client), pytest.raises(openai.APIStatusError) as refused:
            poor.chat("x", max_tokens=2_048)
        assert (refused.value.status_code, refused.value.code) == (402, "insufficient_quota")

    def test_failed_text_costs_nothing(self, developer: Developer) -> None:
        with pytest.raises(openai.APIStatusError) as failed:
            developer.chat("a dress scene=status_400")
        assert failed.value.status_code == 400
        with pytest.raises(openai.APIError, match="provider"), developer.openai() as client:
            list(client.chat.completions.create(**asked("a dress scene=error_after_text", stream=True)))
        assert wait_for(lambda: developer.points() == (100, 0), seconds=10)


@pytest.mark.parametrize("operation", operations("/openai/v1/"), ids=str)
def test_false_tokens_open_no_route(developer: Developer, operation: Operation) -> None:
    for token in (None, "", "not.a.token", f"ak_{'0' * 64}_{'A' * 43}", developer.token + "x"):
        answer = developer.client.call(operation.method, operation.path, operation.body, token=token)
        assert (answer.status, answer.body["error"]["code"]) == (401, "invalid_api_key"), (token, answer)
        assert answer.body["error"].keys() == {"message", "type", "param", "code"}


def test_unknown_path_has_the_form_of_openai(developer: Developer) -> None:
    answer = developer.client.call("POST", "/openai/v1/embeddings", {}, token=developer.key)
    assert (answer.status, answer.body["error"]["code"]) == (404, "unknown_url")
