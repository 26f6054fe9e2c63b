"""`make lint` compiles the Lua scripts and refuses names that are declared nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from artiway.scheduling import scripts
from tools.lint_lua import complaints, every_script


def test_every_script_is_clean() -> None:
    texts = every_script()
    assert len(texts) >= 20
    assert [fault for name, text in texts.items() for fault in complaints(name, text)] == []


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("local limit, lease_ms =", "local limti, lease_ms =", "global limit is not declared"),
        ("write_all()\nreturn", "write_al()\nreturn", "global write_al is not declared"),
        ("local taken = dispatch(", "taken = dispatch(", "global taken is set"),
        ("if not read_pool() then", "if not read_pool() than", "'then' expected near 'than'"),
        ("  clock = max(clock, tag)", "  clock = mx(clock, tag)", "global mx is not declared"),  # in an include
    ],
)
def test_typo_is_found_with_its_line(right: str, wrong: str, fault: str) -> None:
    text = scripts.script("dispatch").text
    assert right in text
    broken = text.replace(right, wrong, 1)
    line = text[: text.index(right)].count("\n") + 1
    found = complaints("dispatch.lua", broken)
    assert any(one.startswith("dispatch.lua:") and fault in one for one in found)
    assert abs(int(found[0].split(":")[1]) - line) <= 5


def test_command_fails_on_a_typo(tmp_path: Path) -> None:
    script = tmp_path / "typo.lua"
    script.write_text('#!lua\nlocal key = KEYS[1]\nreturn redis.call("GET", kye)\n')
    done = subprocess.run([sys.executable, "-m", "tools.lint_lua", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (1, f"{script}:3: global kye is not declared")
