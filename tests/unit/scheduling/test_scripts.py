"""The text of the Lua library, as a whole: what it may call, and that nothing is left over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artiway.scheduling import model, scripts
from artiway.scheduling.keys import Keys

LUA = Path(scripts.__file__).parent / "lua"


def test_the_library_calls_only_commands_that_are_cheap_whatever_redis_holds() -> None:
    text = scripts.library().text
    assert "--@" not in text
    called = re.findall(r'\bcall\("(\w+)"', text)
    assert len(called) == len(re.findall(r"\bcall\(", text))
    assert set(called) <= {"GET", "SET", "RENAME", "XADD", "HLEN", "HMGET", "HSET", "HDEL"}


@pytest.mark.parametrize("verb", scripts.verbs())
def test_a_verb_has_a_file_that_says_what_it_answers(verb: str) -> None:
    text = (LUA / "verbs" / f"{verb}.lua").read_text()
    assert text.startswith(f"--[[ {verb} -> ")
    assert f"function verbs.{verb}(" in text


def test_every_part_is_included_and_every_include_exists() -> None:
    used = re.findall(r"^--@include parts/(\w+)$", (LUA / "library.lua").read_text(), re.MULTILINE)
    assert sorted(used) == sorted(path.stem for path in (LUA / "parts").glob("*.lua"))


def test_every_verb_is_registered_under_the_version_of_the_text() -> None:
    code = scripts.library()
    registered = re.findall(r'^redis\.register_function\("(\w+)"', code.text, re.MULTILINE)
    assert registered == [scripts.function(verb, code.version) for verb in scripts.verbs()]


def test_limits_are_the_same_in_lua_and_python() -> None:
    text = "".join(path.read_text() for path in (LUA / "parts").glob("*.lua"))
    found = {name: int(value) for name, value in re.findall(r"^local ([A-Z_]+) = (\d+)$", text, re.MULTILINE)}
    assert found.pop("SERVICE_MINUTES") >= 60
    assert found.pop("SPARE") > 0
    assert found == {
        "SAMPLES_BEFORE_AVERAGE": model.SAMPLES_BEFORE_AVERAGE,
        "TRACK_LIMIT": model.TRACK_LIMIT,
        "CLOCK_LIMIT": model.CLOCK_LIMIT_US,
        "PASS_OVER_LIMIT": model.PASS_OVER_LIMIT,
    }


def test_the_header_of_the_library_names_as_many_keys_as_python_builds() -> None:
    header = (LUA / "library.lua").read_text().split("]]")[0]
    named = {int(n) for n in re.findall(r"KEYS\[(\d+)\]", header)}
    assert named == set(range(1, len(Keys("gpu").of("e")) + 1))


def test_all_keys_of_a_pool_share_its_hash_tag() -> None:
    keys = Keys("gpu")
    assert {key[: key.index("}") + 1] for key in keys.of("e1")} == {keys.tag}


def test_fields_of_what_has_a_layout_become_numbers_by_the_name_before_the_dot() -> None:
    layout = "--@layout node first: id line\n--@layout line: first track\n"
    laid_out = scripts._laid_out(layout + "next_node.line.first.id = queue.nodes.id .. node[1].name .. track.id")
    assert laid_out == "next_node[2][1][1] = queue.nodes.id .. node[1].name .. track.id"


@pytest.mark.parametrize("text", ["node.cost = 1", "nodes[i].id = 1", "find(id).id = 1"])
def test_a_field_without_a_place_or_a_holder_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"cost|give the holder"):
        scripts._laid_out(f"--@layout node: id\n{text}")


def test_lines_stand_right_behind_the_fields_of_users_and_crowds() -> None:
    text = (LUA / "parts" / "state.lua").read_text()
    fields = {name: len(row.split()) for name, row in re.findall(r"^--@layout (\w+)[\w ]*: (.+)$", text, re.MULTILINE)}
    assert f"local USER, CROWD = {fields['user']}, {fields['crowd']} " in text
