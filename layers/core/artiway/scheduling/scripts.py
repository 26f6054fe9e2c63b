"""The Lua verbs: one file each, with shared parts included where a file asks for them."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

import redis

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


class Script(NamedTuple):
    text: str
    digest: str


@cache
def script(verb: str) -> Script:
    text = (_FOLDER / f"{verb}.lua").read_text()
    text = _INCLUDE.sub(lambda match: (_FOLDER / "includes" / f"{match[1]}.lua").read_text(), text)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def verbs() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.lua"))


def run(client: redis.Redis, verb: str, keys: list[str], *arguments: str | int) -> str:
    """One round trip, or two when the server has not seen the script since it started."""
    code = script(verb)
    try:
        answer: Any = client.evalsha(code.digest, len(keys), *keys, *arguments)
    except redis.exceptions.NoScriptError:
        answer = client.eval(code.text, len(keys), *keys, *arguments)
    return answer.decode() if isinstance(answer, bytes) else str(answer)
