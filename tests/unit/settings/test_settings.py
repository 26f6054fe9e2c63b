from __future__ import annotations

import ast
import functools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artiway.settings import registry
from artiway.settings.model import Defaults, Fixed, Setting, SettingInvalid
from artiway.tasks.settings import FLOW_PRICES, TOOL_LIMITS, TOOL_PRICES

ROOT = Path(__file__).parents[3]
LAYER = ROOT / "layers/core/artiway"
NUMBER = Setting("a.number", 5, "d", 1, 10)
SHARE = Setting("a.share", 0.5, "d", 0, 1)
SWITCH = Setting("a.switch", True, "d")
TEXT = Setting("a.text", "x", "d", 1, 3)
LIST = Setting("a.list", [1], "d", 0, 2, check=lambda items: None if 7 not in items else "has a 7")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("setting", [NUMBER, SHARE, SWITCH, TEXT, LIST], ids=lambda setting: setting.type)
@given(value=JSON)
def test_accepted_values_have_type_and_bounds(setting: Setting[Any], value: Any):
    if setting.fault(value) is not None:
        with pytest.raises(SettingInvalid):
            setting.parsed(value)
        return
    parsed = setting.parsed(value)
    assert type(parsed) is type(setting.default)
    assert parsed == value
    if isinstance(parsed, int | float) and not isinstance(parsed, bool):
        assert setting.minimum <= parsed <= setting.maximum
    if isinstance(parsed, str | list):
        assert setting.minimum <= len(parsed) <= setting.maximum


@given(value=st.integers())
def test_whole_numbers_within_bounds_are_accepted(value: int):
    assert (NUMBER.fault(value) is None) == (1 <= value <= 10)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((NUMBER, value) for value in (True, 5.0, "5", None, [5], 0, 11)),
        *((SHARE, value) for value in (True, math.nan, math.inf, "0.5", -0.1, 1.1, None)),
        *((SWITCH, value) for value in (1, 0, "true", None)),
        *((TEXT, value) for value in ("", "four", "a\0", "\ud800", 5)),
        *((LIST, value) for value in ([1, 2, 3], [7], {}, "[]", ["x" * 20_000])),
    ],
)
def test_other_values_are_refused(setting, value):
    with pytest.raises(SettingInvalid) as refusal:
        setting.parsed(value)
    assert (refusal.value.status, refusal.value.code) == (422, "SETTING_422_INVALID")


def test_fixed_values_leave_other_settings_alone():
    values = Fixed({NUMBER: 7})
    assert (values.get(NUMBER), values.get(SHARE), Defaults().get(NUMBER)) == (7, 0.5, 5)
    with pytest.raises(SettingInvalid):
        Fixed({NUMBER: 11})


def test_catalogue_has_setting_for_each_price():
    keys = set(registry.settings())
    assert {setting.key for setting in (*TOOL_PRICES.values(), *FLOW_PRICES.values(), *TOOL_LIMITS.values())} <= keys
    assert {"price.cutout", "price.flow.cutout", "limit.model_photo", "limit.batch_cutout"} <= keys


def test_every_settings_module_is_registered():
    files = {str(path) for path in LAYER.rglob("settings.py") if path.parent.name != "platform"}
    assert files == {module.__file__ for module in registry.MODULES}


def constants() -> list[tuple[Path, str]]:
    """The constants of each settings module that are settings, or mappings of them."""
    found = []
    for module in registry.MODULES:
        for name, value in vars(module).items():
            members = [value] if isinstance(value, Setting) else list(value.values()) if isinstance(value, dict) else []
            if any(isinstance(member, Setting) for member in members):
                found.append((Path(str(module.__file__)), name))
    return found


@pytest.mark.parametrize(("module", "name"), constants(), ids=lambda value: str(value).rpartition("/")[2])
def test_every_setting_has_a_reader(module: Path, name: str):
    """Code that reads it: another module, or a function of its own module that builds limits from values."""
    if name == "TIER_LIMITS":
        assert "'tier.'" in (LAYER / "schema/schema.sql").read_text("utf-8")
        return
    if name == "SERVICE_SETTINGS":  # generated from the services, which read them
        text = (module.parent / "services.py").read_text("utf-8")
        for setting in ("prices.input", "prices.output", "limits.input", "limits.usual", "limits.most"):
            assert f"self.values.get(self.{setting})" in text
        return
    if module.parent.name == "tasks":  # generated from the catalogue, which reads them
        text = (module.parent / "catalogue.py").read_text("utf-8")
        assert "values.get(self.price)" in text
        assert "values.get(self.limit)" in text
        assert "values.get(step.type.price)" in text
        return
    reads = [path for path in LAYER.rglob("*.py") if path != module and name in names(path)]
    inside = [node for node in ast.parse(module.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    assert reads or any(name in names_in(node) for node in inside)


@functools.cache
def names(path: Path) -> set[str]:
    return names_in(ast.parse(path.read_text("utf-8")))


def names_in(tree: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_document_lists_every_setting():
    """docs/common-services.md has a row for each; a family of settings has one row with a placeholder."""
    rows = (ROOT / "docs/common-services.md").read_text("utf-8").splitlines()
    listed = {}
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if row.startswith("| `") and len(cells) == 4 and "." in cells[0]:
            listed[cells[0].strip("`")] = cells[1:3]
    settings = registry.settings()
    tiers = {key for key in settings if key.startswith("jobs.") and key.count(".") == 2}
    families = {f"jobs.<tier>.{key.rpartition('.')[2]}" for key in tiers}
    tools = limits_of_tools()
    single = {key for key in settings if not key.startswith(("price.", "tier.")) and key not in {*tools, *tiers}}
    assert set(listed) == {
        *single,
        *families,
        "price.<tool>",
        "price.flow.<type>",
        "limit.<tool>",
        "tier.<tier>.<limit>",
    }
    for key in single - {"geo.sources"}:
        setting = settings[key]
        assert listed[key] == [f"{setting.default:,}", f"{setting.minimum:,} to {setting.maximum:,}"], key


def limits_of_tools() -> set[str]:
    return {setting.key for setting in TOOL_LIMITS.values()}
