"""The text of the Lua scripts: what they may call, their headers and their limits."""

from __future__ import annotations

import re

import pytest

from artiway.scheduling import model, queue, scripts
from artiway.scheduling.keys import Keys, layout_of, new_epoch

LUA = scripts.FOLDER
# All are constant, logarithmic, or as long as the batch. SMEMBERS reads the users that wait at their cap.
CHEAP = {"GET", "SET", "DEL", "RENAME", "HGET", "HSET", "HDEL", "HMGET", "HGETALL", "HEXISTS", "HINCRBY", "EXPIRE"}
CHEAP |= {"ZADD", "ZREM", "ZRANGE", "ZRANGEBYSCORE", "ZSCORE", "ZRANK", "ZCARD", "ZCOUNT"}
CHEAP |= {"SADD", "SREM", "SMEMBERS", "RPUSH", "LTRIM"}
COMMAND = re.compile(r'\b(?:call|call_with|read_with)\("(\w+)"')


@pytest.mark.parametrize("verb", scripts.verbs())
class TestVerb:
    def test_header_is_the_contract(self, verb: str) -> None:
        shebang, header, *_ = (LUA / f"{verb}.lua").read_text().split("\n")
        assert shebang.startswith("#!lua")
        assert header.startswith(f"--[[ {verb} -> ")

    def test_includes_are_joined_and_nothing_else(self, verb: str) -> None:
        text, rest = scripts.script(verb).text, (LUA / f"{verb}.lua").read_text()
        assert "--@include" not in text
        for name in re.findall(r"^--@include (\w+)$", rest, re.MULTILINE):
            part = (LUA / "includes" / f"{name}.lua").read_text()
            assert text.count(part) == 1
            text, rest = text.replace(part, "", 1), rest.replace(f"--@include {name}", "", 1)
        assert text == rest

    def test_only_cheap_commands_are_called(self, verb: str) -> None:
        assert set(COMMAND.findall(scripts.script(verb).text)) <= CHEAP


def test_every_include_is_used() -> None:
    used = {
        name for path in LUA.glob("*.lua") for name in re.findall(r"^--@include (\w+)$", path.read_text(), re.MULTILINE)
    }
    assert used == {path.stem for path in (LUA / "includes").glob("*.lua")}


def test_limits_are_the_same_in_lua_and_python() -> None:
    text = (LUA / "includes" / "keys.lua").read_text()
    found = {name: float(value) for name, value in re.findall(r"^local ([A-Z_]+) = ([\de]+)\b", text, re.MULTILINE)}
    assert found["NODE_RANK"] == queue.NODE_RANK
    assert found["SAMPLES_BEFORE_AVERAGE"] == model.SAMPLES_BEFORE_AVERAGE
    assert found["TRACK_LIMIT"] == model.TRACK_LIMIT
    assert found["CLOCK_LIMIT"] == model.CLOCK_LIMIT_US
    assert found["DECISIONS_KEPT"] == queue.DECISIONS_KEPT
    assert 3 * found["USER_RANK"] + found["USER_CLOCK_LIMIT"] < 2**53


def test_keys_are_named_in_their_order() -> None:
    names = re.search(r"^local (.+) = unpack\(KEYS\)$", (LUA / "includes" / "keys.lua").read_text(), re.MULTILINE)
    assert names is not None
    assert [key.rpartition(":")[2].upper() for key in Keys("gpu").of("e")] == names[1].split(", ")


def test_all_keys_of_a_pool_share_its_tag() -> None:
    keys = Keys("gpu")
    assert {key[: key.index("}") + 1] for key in keys.of("e1")} == {keys.tag}


def test_an_epoch_names_its_layout() -> None:
    assert [layout_of(epoch) for epoch in (new_epoch(3), "", "0123456789abcdef", "x-1")] == [3, 0, 0, 0]


def test_a_key_names_its_epoch() -> None:
    keys = Keys("gpu")
    names = [
        keys.part("1-ab", "pool"),
        keys.work("1-ab", 3),
        keys.epoch,
        keys.loading,
        Keys("cpu").part("1-ab", "pool"),
    ]
    assert [keys.epoch_in(name) for name in names] == ["1-ab", "1-ab", None, None, None]
