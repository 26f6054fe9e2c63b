"""The text of the Lua verbs, as a whole: what they may call, and that nothing is left over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artiway.scheduling import model, scripts
from artiway.scheduling.keys import Keys

LUA = Path(scripts.__file__).parent / "lua"
# All of these are older than Redis 7. KEYS, SORT, FLUSHALL and friends are not among them, and must not be.
ALLOWED = re.compile(
    r"GET|RENAME|HGET|HKEYS|HSET|HDEL|HEXISTS|HGETALL|HMGET|EXISTS|DEL|EXPIRE|SADD|SREM|SCARD|SMEMBERS"
    r"|ZADD|ZREM|ZCARD|ZRANGE|ZRANK|ZSCORE|ZRANGEBYSCORE|XADD"
)


@pytest.mark.parametrize("verb", scripts.verbs())
def test_a_verb_calls_only_commands_that_every_redis_seven_has(verb: str) -> None:
    text = scripts.script(verb).text
    assert "--@include" not in text
    called = re.findall(r'\bcall(?:_many)?\("(\w+)"', text)
    assert called
    assert len(called) == len(re.findall(r"\bcall(?:_many)?\(", text)) - text.count("call(command, ") - text.count(
        "function call_many"
    )
    assert [name for name in called if not ALLOWED.fullmatch(name)] == []
    assert text.startswith(f"--[[ {verb} -> ")


def test_every_include_is_used_and_every_use_exists() -> None:
    used = {
        name for path in LUA.glob("*.lua") for name in re.findall(r"^--@include (\w+)$", path.read_text(), re.MULTILINE)
    }
    assert used == {path.stem for path in (LUA / "includes").glob("*.lua")}


def test_limits_are_the_same_in_lua_and_python() -> None:
    text = "".join(path.read_text() for path in (LUA / "includes").glob("*.lua"))
    found = {name: int(value) for name, value in re.findall(r"^local ([A-Z_]+) = (\d+)$", text, re.MULTILINE)}
    assert found.pop("SERVICE_SECONDS") >= 3600
    assert found.pop("ARGUMENTS") < 8000  # what unpack can carry
    assert found.pop("CHUNK") > 0
    assert found == {
        "SAMPLES_BEFORE_AVERAGE": model.SAMPLES_BEFORE_AVERAGE,
        "TRACK_LIMIT": model.TRACK_LIMIT,
        "CLOCK_LIMIT": model.CLOCK_LIMIT_US,
        "PASS_OVER_LIMIT": model.PASS_OVER_LIMIT,
    }


def test_the_header_of_the_pool_names_as_many_keys_as_python_builds() -> None:
    header = (LUA / "includes" / "pool.lua").read_text().split("]]")[0]
    named = {int(n) for n in re.findall(r"KEYS\[(\d+)\]", header)}
    assert named == set(range(1, len(Keys("gpu").state("e")) + 2))


def test_all_keys_of_a_pool_share_its_hash_tag() -> None:
    keys = Keys("gpu")
    assert {key[: key.index("}") + 1] for key in [keys.epoch, keys.loading, *keys.state("e1")]} == {keys.tag}
