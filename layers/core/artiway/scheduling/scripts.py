"""The Lua library of the fair queue: one file per verb, shared parts, put together into the text that Redis loads."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

import redis

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^--@include ([\w/]+)$", re.MULTILINE)
_LAYOUT = re.compile(r"^--@layout (\w+)([\w ]*): ([\w ]+)\n", re.MULTILINE)
_CHAIN = re.compile(r"(?<![\w.])(\w+)((?:\.\w+)+)|(?<=[\])])\.(\w+)")


class Library(NamedTuple):
    text: str
    version: str


@cache
def library() -> Library:
    """The version is part of every function's name, so that no release ever calls the functions of another."""
    text = (_FOLDER / "library.lua").read_text()
    text = text.replace("--@verbs", "\n".join(f"--@include verbs/{verb}" for verb in verbs()))
    text = _INCLUDE.sub(lambda match: (_FOLDER / f"{match[1]}.lua").read_text(), text)
    text = _laid_out(text)
    version = sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]
    named = (f'redis.register_function("{function(verb, version)}", answer_to("{verb}"))' for verb in verbs())
    return Library(text.replace("--@register", "\n".join(named)), version)


def _laid_out(text: str) -> str:
    """`node.cost` becomes `node[4]`: what has a layout is an array. The name before the dot says which."""
    fields: dict[str, list[str]] = {}
    for name, others, layout in _LAYOUT.findall(text):
        fields |= dict.fromkeys([name, *others.split()], layout.split())

    def put(match: re.Match[str]) -> str:
        holder, chain, unnamed = match.groups()
        if unnamed:
            if any(unnamed in layout for layout in fields.values()):
                raise ValueError(f"give the holder of .{unnamed} a name that says what it is")
            return match[0]
        parts = [holder]
        for field in chain.split(".")[1:]:
            layout = fields.get(holder.rpartition("_")[2])
            parts.append(f".{field}" if layout is None else f"[{layout.index(field) + 1}]")
            holder = field
        return "".join(parts)

    return _CHAIN.sub(put, _LAYOUT.sub("", text))


def function(verb: str, version: str) -> str:
    return f"artiway_{verb}_{version}"


def verbs() -> list[str]:
    return sorted(path.stem for path in (_FOLDER / "verbs").glob("*.lua"))


def run(client: redis.Redis, verb: str, keys: list[str], *arguments: str | int) -> str:
    """One round trip, or three when the server has not seen this library since it started."""
    code = library()
    name = function(verb, code.version)
    try:
        answer: Any = client.fcall(name, len(keys), *keys, *arguments)
    except redis.exceptions.ResponseError as error:
        if "Function not found" not in str(error):
            raise
        client.function_load(code.text, replace=True)
        answer = client.fcall(name, len(keys), *keys, *arguments)
    return answer.decode() if isinstance(answer, bytes) else str(answer)
