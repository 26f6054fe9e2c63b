"""The console's text: each text of a page and each value of the API has an entry in both languages."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from artiway.identity.model import Tier
from artiway.payments.bill import Difference
from artiway.payments.model import OrderStatus
from artiway.points.model import Kind
from artiway.tasks import catalogue
from artiway.tasks.model import NodeStatus, TaskStatus

SCRIPTS = Path(__file__).resolve().parents[3] / "console/js"
LINE = re.compile(r'^  (\w+): (\[".*"\]),$', re.MULTILINE)
WORDS: dict[str, list[str]] = {
    name: json.loads(pair) for name, pair in LINE.findall((SCRIPTS / "i18n.js").read_text("utf-8"))
}
PAGES = {file.name: file.read_text("utf-8") for file in SCRIPTS.glob("*.js")}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("artiway") / "openapi.json").read_text("utf-8"))["components"]["schemas"]
    return found[name]


def literals(name: str, field: str) -> list[str]:
    values: list[str] = schema(name)["properties"][field]["enum"]
    return values


def test_every_entry_has_two_languages():
    assert len(WORDS) > 200
    assert [name for name, pair in WORDS.items() if len(pair) != 2] == []
    lacking = [name for name, (_, chinese) in WORDS.items() if not chinese and not name.startswith("unit_")]
    assert lacking == []


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_text_of_a_page_has_an_entry(page: str):
    assert set(re.findall(r'\bt\("(\w+)"', PAGES[page])) <= WORDS.keys()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_import_names_an_existing_export(page: str):
    for names, source in re.findall(r'import \{ ([^}]+) \} from "\./([\w.]+)"', PAGES[page]):
        exported = set(re.findall(r"export (?:async )?(?:function|const|class) (\w+)", PAGES[source]))
        assert {name.strip() for name in names.split(",")} <= exported, source


@pytest.mark.parametrize(
    ("prefix", "values"),
    [
        ("status_", [*TaskStatus, *NodeStatus]),
        ("kind_", list(Kind)),
        ("order_", list(OrderStatus)),
        ("tier_", list(Tier)),
        ("difference_", list(Difference)),
        ("bill_", literals("BillDayBody", "status")),
        ("resolution_", literals("DifferenceBody", "resolution")),
        ("state_", literals("GuardBody", "state")),
        ("health_", literals("HealthBody", "status")),
        ("user_", ["ACTIVE", "DISABLED"]),
        ("waiting_", literals("ReasonBody", "waitingFor")),
        ("group_", sorted({tool.group for tool in catalogue.load().tools.values()})),
        (
            "param_",
            sorted({name for tool in catalogue.load().tools.values() for name in tool.json_schema["properties"]}),
        ),
    ],
)
def test_every_value_of_the_api_has_an_entry(prefix: str, values: list[str | StrEnum]):
    assert values
    assert {f"{prefix}{value}" for value in values} <= WORDS.keys()
