"""Every operation has a description, error codes and examples that its schemas accept."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from artiway.platform import openapi
from artiway.tasks import catalogue
from tools import openapi_text
from tools.openapi import ROOT

DOCUMENT = json.loads(openapi.text())
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if path.startswith(("/api/v1/", "/openai/v1/"))
}


def contents(operation: Any) -> Iterator[tuple[str, Any]]:
    success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    for part, content in (("request", operation.get("requestBody", {})), ("answer", success)):
        if "application/json" in content.get("content", {}):
            yield part, content["content"]["application/json"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_described_with_its_codes(name):
    operation = OPERATIONS[name]
    assert operation["description"].startswith(operation["summary"])
    refused = {status for status in operation["responses"] if not status.startswith("2")}
    assert operation["x-error-codes"].keys() == refused
    for status, codes in operation["x-error-codes"].items():
        assert codes, (name, status)
        assert all(code == "FAIL" or code.islower() or code.split("_")[1] == status for code in codes), (name, codes)


@pytest.mark.parametrize("name", OPERATIONS)
def test_examples_are_complete_and_valid(name):
    for part, content in contents(OPERATIONS[name]):
        schema = {**content["schema"], "components": DOCUMENT["components"]}
        checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        faults = [
            f"{part} {'.'.join(map(str, fault.path))}: {fault.message}"
            for fault in checker.iter_errors(content["example"])
        ]
        assert not faults
    for parameter in OPERATIONS[name].get("parameters", []):
        if parameter.get("required"):
            schema = {**parameter["schema"], "components": DOCUMENT["components"]}
            jsonschema.Draft202012Validator(schema).validate(parameter["example"])


def test_codes_of_the_document_exist():
    labels = (ROOT / "layers/core/artiway/dictionaries/labels.toml").read_text("utf-8")
    known = set(re.findall(r"[A-Z]+_\d{3}_[A-Z_]+", labels))
    used = {code for one in OPERATIONS.values() for codes in one["x-error-codes"].values() for code in codes}
    own = {code for codes in openapi_text._text()["openai_codes"].values() for code in codes if code.islower()}
    assert used - {"FAIL"} - own <= known


def test_rules_and_texts_match_an_operation():
    text = tomllib.loads(openapi_text.TEXT.read_text("utf-8"))
    keys = [name.replace("/api/v1", "") for name in OPERATIONS]
    for rule in text["codes"]:
        assert any(re.search(rule["match"], key) for key in keys), rule["match"]
    assert text["texts"].keys() <= {one["operationId"] for one in OPERATIONS.values()}


def test_parameters_are_typed_for_each_tool():
    by_tool = DOCUMENT["components"]["schemas"]["SubmitBody"]["properties"]["params"]["x-params-by-tool"]
    assert by_tool.keys() == catalogue.load().tools.keys()
    cutout = DOCUMENT["components"]["schemas"]["CutoutParams"]
    assert {"background", "featherPx"} <= cutout["properties"].keys()
    jsonschema.Draft202012Validator(cutout).validate({"background": "white"})
    assert not jsonschema.Draft202012Validator(cutout).is_valid({"background": "plaid"})
