"""Every tool, step, lane, state, code and preset of the code has a label in both languages, and nothing else has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artiway.caching.service import NAMES
from artiway.dictionaries import service
from artiway.scheduling.lanes import LANES
from artiway.settings.service import CACHE_KEY
from artiway.tasks import catalogue
from artiway.tasks.model import HTTP, NodeStatus, TaskStatus

ROOT = Path(__file__).parents[3]
CODE = re.compile(r"[\"']([A-Z]+_[45][0-9]{2}_[A-Z_]+)[\"']")
FAILURE = re.compile(r"(?:Failure\(|code = |is_retryable = |Outcome\.\w+: )\"([A-Z]+(?:_[A-Z]+)*)\"")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def texts(*places: str) -> str:
    files = [path for place in places for path in sorted((ROOT / place).rglob("*.py"))]
    return "\n".join(path.read_text("utf-8") for path in files)


def presets() -> set[str]:
    found = set()
    schemas = {**catalogue.load().tools["cutout"].params}
    for step in catalogue.load().steps.values():
        for name, schema in {**schemas, **step.params}.items():
            for choice in schema.get("anyOf", [schema]):
                values = [*choice.get("enum", ()), *([choice["const"]] if "const" in choice else [])]
                found |= {f"{name}.{value}" for value in values if isinstance(value, str)}
    return found


EXPECTED = {
    "tools": lambda: set(catalogue.load().tools),
    "groups": lambda: {tool.group for tool in catalogue.load().tools.values()},
    "steps": lambda: {*catalogue.load().steps, HTTP},
    "node_types": lambda: {*catalogue.load().types, HTTP},
    "lanes": lambda: set(LANES),
    "task_states": lambda: set(TaskStatus),
    "node_states": lambda: set(NodeStatus),
    "presets": presets,
    "error_codes": lambda: set(CODE.findall(texts("layers/core/artiway", "functions", "local"))),
    "failures": lambda: set(FAILURE.findall(texts("layers/core/artiway/tasks", "worker"))),
}


def test_types_are_those_of_the_table():
    assert set(EXPECTED) == set(service.TYPES)


@pytest.mark.parametrize("type_", service.TYPES)
def test_labels_and_code_have_same_keys(type_):
    rows = service.load(type_)
    assert {row["key"] for row in rows} == EXPECTED[type_]()
    assert [row["order"] for row in rows] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize("type_", service.TYPES)
def test_labels_are_chinese_and_english(type_):
    for row in service.load(type_):
        assert set(row) == {"key", "zh", "en", "order"}
        assert CHINESE.search(row["zh"]) or row["key"].startswith("format."), row
        assert row["en"], row
        assert not CHINESE.search(row["en"]), row
        assert max(len(row["zh"]), len(row["en"])) <= 80, row


def test_console_and_dictionary_agree_on_states():
    words = (ROOT / "console/src/i18n/words/values.ts").read_text("utf-8")
    for row in service.load("task_states"):
        assert f'status_{row["key"]}: ["' in words
        assert f'"{row["zh"]}"' in words


def test_names_of_caches_are_those_in_use():
    prefix = re.compile(r"f\"(\w+):\{")
    users = [
        path for path in (ROOT / "layers/core/artiway").rglob("*.py") if "import Cache\n" in path.read_text("utf-8")
    ]
    found = {name for path in users for name in prefix.findall(path.read_text("utf-8"))}
    assert found - {"task"} | {CACHE_KEY, service.NAME} == set(NAMES)
