"""The Lua scripts of the fair queue: one file per verb, joined with the includes that it names, called by EVALSHA."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

import redis

FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


class Script(NamedTuple):
    text: str
    digest: str


@cache
def script(verb: str) -> Script:
    """The includes take the place of the lines that name them; nothing else of the text is changed."""
    text = (FOLDER / f"{verb}.lua").read_text()
    text = _INCLUDE.sub(lambda match: (FOLDER / "includes" / f"{match[1]}.lua").read_text(), text)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def verbs() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.lua"))


def run(client: redis.Redis, verb: str, keys: list[str], *arguments: str | int) -> str:
    """One round trip, or two when the server has not seen this script since it started."""
    code = script(verb)
    try:
        answer: Any = client.evalsha(code.digest, len(keys), *keys, *arguments)
    except redis.exceptions.NoScriptError:
        answer = client.eval(code.text, len(keys), *keys, *arguments)
    return answer.decode() if isinstance(answer, bytes) else str(answer)
