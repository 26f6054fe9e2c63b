"""Events and function folders belong to functions of the template, and the other way round."""

from __future__ import annotations

import json

from tests.unit.template.facts import ROOT, Template

EVENTS = ROOT / "events"
ENVIRONMENT_FILE = "env.local.json"


def test_every_function_has_an_event_and_every_event_a_function(template: Template) -> None:
    folders = {template.folder_of(function).removeprefix("functions/") for function in template.functions}
    named = {file.name.partition(".")[0] for file in EVENTS.glob("*.json") if file.name != ENVIRONMENT_FILE}
    assert named == folders


def test_every_event_is_an_object_named_function_dot_case() -> None:
    for file in EVENTS.glob("*.json"):
        assert file.name.count(".") == 2, file.name
        assert isinstance(json.loads(file.read_text()), dict), file.name


def test_a_function_folder_holds_its_app_alone(template: Template) -> None:
    listed = {template.folder_of(function) for function in template.functions}
    folders = [folder for folder in (ROOT / "functions").iterdir() if folder.is_dir() and folder.name != "__pycache__"]
    assert {f"functions/{folder.name}" for folder in folders} == listed
    for folder in folders:
        assert {file.name for file in folder.iterdir()} - {"__pycache__"} == {"app.py"}, folder.name


def test_the_local_environment_changes_nothing_but_variables_that_functions_have(template: Template) -> None:
    changed = json.loads((EVENTS / ENVIRONMENT_FILE).read_text())["Parameters"]
    known = {variable for function in template.functions for variable in template.variables_of(function)}
    assert "AWS_ENDPOINT_URL" in changed
    assert changed.keys() - {"AWS_ENDPOINT_URL"} <= known
