"""Events and function folders belong to functions of the template, and the other way round."""

from __future__ import annotations

import json

from tests.unit.template.facts import ROOT, Template

EVENTS = ROOT / "events"
ENVIRONMENT_FILE = "env.local.json"


def test_functions_and_sample_events_match_both_ways(template: Template) -> None:
    folders = {template.folder_of(function).removeprefix("functions/") for function in template.functions}
    named = {file.name.partition(".")[0] for file in EVENTS.glob("*.json") if file.name != ENVIRONMENT_FILE}
    assert named == folders


def test_every_event_file_holds_a_named_object() -> None:
    for file in EVENTS.glob("*.json"):
        assert file.name.count(".") == 2, file.name
        assert isinstance(json.loads(file.read_text()), dict), file.name


def test_a_function_folder_holds_its_app_alone(template: Template) -> None:
    listed = {template.folder_of(function) for function in template.functions}
    folders = [folder for folder in (ROOT / "functions").iterdir() if folder.is_dir() and folder.name != "__pycache__"]
    assert {f"functions/{folder.name}" for folder in folders} == listed
    for folder in folders:
        assert {file.name for file in folder.iterdir()} - {"__pycache__"} == {"app.py"}, folder.name


def test_local_environment_sets_only_declared_variables(template: Template) -> None:
    changed = json.loads((EVENTS / ENVIRONMENT_FILE).read_text())["Parameters"]
    known = {variable for function in template.functions for variable in template.variables_of(function)}
    assert "AWS_ENDPOINT_URL" in changed
    assert changed.keys() - {"AWS_ENDPOINT_URL"} <= known
