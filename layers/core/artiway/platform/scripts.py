"""Lua scripts: one verb per file, called with EVALSHA."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from redis import Redis


class Script(Protocol):
    def __call__(self, keys: list[str], args: list[str | int]) -> Any: ...


def load(redis: Redis, verb: str, package: str = "artiway.platform.lua") -> Script:
    """The script by its file name. After a restart or a failover the call loads it again."""
    return redis.register_script(_text(package, verb))


@cache
def _text(package: str, verb: str) -> str:
    return (files(package) / f"{verb}.lua").read_text("utf-8")
