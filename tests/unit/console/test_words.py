"""The console's text: each text of a page and each value of the API has an entry in both languages."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from artiway.dictionaries.service import TYPES
from artiway.generations import services
from artiway.generations.feed.model import UsageSource
from artiway.identity.model import Tier
from artiway.jobs.admission import LANE_WEIGHTS
from artiway.payments.bill import Difference
from artiway.payments.model import OrderStatus
from artiway.points.model import Kind
from artiway.recovery.invariants import CHECKS
from artiway.scheduling.lanes import LANES
from artiway.settings import registry
from artiway.tasks import catalogue
from artiway.tasks.model import NodeStatus, TaskStatus

SOURCES = Path(__file__).resolve().parents[3] / "console/src"
AREAS = sorted((SOURCES / "i18n/words").glob("*.ts"))
LINE = re.compile(r'^  (\w+): (\[".*"\]),$', re.MULTILINE)
ENTRIES = [(name, json.loads(pair)) for area in AREAS for name, pair in LINE.findall(area.read_text("utf-8"))]
WORDS: dict[str, list[str]] = dict(ENTRIES)


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("artiway") / "openapi.json").read_text("utf-8"))["components"]["schemas"]
    return found[name]


def literals(name: str, field: str) -> list[str]:
    values: list[str] = schema(name)["properties"][field]["enum"]
    return values


def dead_letter_queues() -> list[str]:
    """The queues of the template, and the runs that failed for good."""
    template = (SOURCES.parents[1] / "template.yaml").read_text("utf-8")
    return ["runs", *re.findall(r'^ +"(\w+)":\["\$\{\w', template, re.MULTILINE)]


def parts_of_texts() -> set[str]:
    return {name for service in services.load().values() for name in (service.json_schema or {}).get("properties", {})}


def test_every_entry_has_two_languages():
    assert len(WORDS) > 100
    assert [name for name, pair in WORDS.items() if len(pair) != 2] == []
    lacking = [name for name, pair in WORDS.items() if not all(pair) and not name.startswith("unit_")]
    assert lacking == []


def test_no_key_stands_in_two_areas():
    names = [name for name, _ in ENTRIES]
    assert sorted(names) == sorted(set(names))


def test_both_languages_have_the_same_places_for_values():
    place = re.compile(r"\{(\w+)\}")
    assert [name for name, (en, zh) in WORDS.items() if set(place.findall(en)) != set(place.findall(zh))] == []


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
        ("usage_", list(UsageSource)),
        ("invariant_", [name for name, *_ in CHECKS]),
        ("level_", ["INFO", "WARN", "ERROR"]),
        ("pool_", sorted({spec.pool for spec in LANES.values()})),
        ("runLane_", [lane.removeprefix("run_") for lane in LANE_WEIGHTS]),
        ("dead_", dead_letter_queues()),
        ("dictionary_", list(TYPES)),
        ("textPart_", sorted(parts_of_texts())),
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


def test_every_setting_has_chinese_words():
    """The API describes settings in English. `*` of an entry stands for one part of a key."""
    text = (SOURCES / "pages/ops/settingWords.ts").read_text("utf-8")
    entries = re.findall(r'^  \["([\w.*]+)", "[^"]*[\u4e00-\u9fff][^"]*"\],$', text, re.MULTILINE)
    patterns = {one: re.compile(re.escape(one).replace(r"\*", "[^.]+")) for one in entries}
    keys = list(registry.settings())
    assert [key for key in keys if not any(one.fullmatch(key) for one in patterns.values())] == []
    assert [one for one, pattern in patterns.items() if not any(pattern.fullmatch(key) for key in keys)] == []
