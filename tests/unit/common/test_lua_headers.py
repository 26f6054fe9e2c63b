"""A script's header is its contract: it names the verb, its outcomes, and every key and argument that the body uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[3] / "layers/core/artiway/platform/lua").glob("*.lua"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_begins_with_its_contract(path):
    header, _, body = path.read_text("utf-8").partition("]]\n")
    assert header.startswith(f"--[[ {path.stem} -> ")
    for place in re.findall(r"(?:KEYS|ARGV)\[\d+\]", body):
        assert place in header


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_names_no_key_of_its_own(path):
    """Every key arrives through KEYS: the first argument of each command is a name bound to one."""
    body = path.read_text("utf-8").partition("]]\n")[2]
    for command, key in re.findall(r'redis\.call\("(\w+)"(?:, ([^,)]+))?', body):
        assert command == "TIME" or re.fullmatch(r"[a-z_]+|KEYS\[i\]", key), (command, key)


def test_scripts_are_all_found():
    assert {path.stem for path in SCRIPTS} == {
        "cache_claim",
        "cache_invalidate",
        "cache_store",
        "lock_acquire",
        "lock_release",
        "lock_renew",
        "take_tokens",
    }
