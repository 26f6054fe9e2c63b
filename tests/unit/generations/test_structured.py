"""Structured services: the prompt that asks for JSON, and the check of what came."""

from __future__ import annotations

import json

import pytest

from artiway.generations import services
from artiway.generations.services import NotOfSchema
from artiway.tasks import parameters

TITLE = services.load()["title"]
GOOD = {"title": "Red cotton dress", "keywords": ["dress", "连衣裙"]}
STRUCTURED = [one for one in services.load().values() if one.json_schema]


def test_answer_of_the_schema_is_the_result() -> None:
    assert TITLE.parsed(f" {json.dumps(GOOD)}\n") == GOOD


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Red cotton dress",
        json.dumps(GOOD)[:-4],
        f"```json\n{json.dumps(GOOD)}\n```",
        json.dumps([GOOD]),
        "null",
        json.dumps({"title": "Red cotton dress"}),
        json.dumps({**GOOD, "price": 3}),
        json.dumps({**GOOD, "title": 3}),
        json.dumps({**GOOD, "title": "x" * 201}),
        json.dumps({**GOOD, "keywords": []}),
        json.dumps({**GOOD, "keywords": ["k"] * 6}),
        json.dumps({**GOOD, "keywords": ["k", 2]}),
        json.dumps({**GOOD, "title": "a\x00b"}),
        "[" * 100_000,
    ],
)
def test_any_other_answer_is_refused(answer: str) -> None:
    with pytest.raises(NotOfSchema):
        TITLE.parsed(answer)


def test_message_says_what_is_wrong() -> None:
    with pytest.raises(NotOfSchema, match="keywords: item 1: not of type string"):
        TITLE.parsed(json.dumps({**GOOD, "keywords": ["k", 2]}))


@pytest.mark.parametrize("service", STRUCTURED, ids=lambda one: one.name)
def test_schema_has_only_keywords_that_are_checked(service: services.Service) -> None:
    schema = service.json_schema
    assert schema is not None
    assert schema.keys() == {"type", "required", "additionalProperties", "properties"}
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert set(schema["required"]) == schema["properties"].keys()
    for one in schema["properties"].values():
        assert one.keys() <= parameters.KEYWORDS


def test_braces_of_a_prompt_are_kept() -> None:
    (_, system), (_, prompt) = TITLE.messages({"text": "a {tone} dress {}"}, {"language": "English"})
    assert "in English" in system
    assert "a {tone} dress {}" in prompt
    assert '{"title": "...", "keywords": ["..."]}' in prompt
