from __future__ import annotations

import ast
from pathlib import Path

from artiway.events import Event

ROOT = Path(__file__).parents[3]


def test_only_the_enum_spells_event_types():
    for folder in ("layers/core/artiway", "functions"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name == "events.py":
                continue
            texts = {
                node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)
            }
            assert not texts & set(Event), path


def test_short_name_has_no_prefix():
    assert Event.TASK_SETTLED.short == "settled"
