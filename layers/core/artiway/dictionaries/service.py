"""Dictionaries: labels.toml of the layer and the titles of the tools, cached for a day."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from artiway.dictionaries.model import Label, NoSuchDictionary
from artiway.platform.ports import Cache
from artiway.tasks import catalogue

CACHE_S = 86_400
NAME = "dictionaries"
_FILES = (files("artiway.dictionaries") / "labels.toml", files("artiway.tasks") / "catalogue.toml")
TYPES = (
    "error_codes",
    "failures",
    "groups",
    "lanes",
    "node_states",
    "node_types",
    "presets",
    "steps",
    "task_states",
    "tools",
)


def load(type_: str) -> list[dict[str, Any]]:
    """The labels of a type, as the cache stores them."""
    if type_ == "tools":
        titles = [(tool.name, tool.title["zh"], tool.title["en"]) for tool in catalogue.load().tools.values()]
    else:
        titles = [(key, zh, en) for key, (zh, en) in _labels()[type_].items()]
    return [{"key": key, "zh": zh, "en": en, "order": order} for order, (key, zh, en) in enumerate(titles, start=1)]


class DictionaryService:
    """Each version of the files has keys of its own in the cache, so that a release never serves older labels."""

    def __init__(self, cache: Cache, *, load: Callable[[str], list[dict[str, Any]]] = load) -> None:
        self._cache, self._load = cache, load

    def labels(self, type_: str) -> Sequence[Label]:
        """In their order. Raises NoSuchDictionary."""
        if type_ not in TYPES:
            raise NoSuchDictionary(type_)
        rows = self._cache.get(self._key(type_), lambda: self._load(type_), ttl_s=CACHE_S)
        return [Label(**row) for row in rows or ()]

    def all_labels(self) -> Mapping[str, Sequence[Label]]:
        return {type_: self.labels(type_) for type_ in TYPES}

    def items(self) -> Iterable[tuple[str, Callable[[], list[dict[str, Any]]], float]]:
        """For the cache's warm-up: key, load and lifetime of each type."""
        return [(self._key(type_), partial(self._load, type_), CACHE_S) for type_ in TYPES]

    def refresh(self) -> int:
        for key, load, ttl_s in self.items():
            self._cache.refresh(key, load, ttl_s=ttl_s)
        return len(TYPES)

    @staticmethod
    def _key(type_: str) -> str:
        return f"{NAME}:{_version()}:{type_}"


@cache
def _version() -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()[:12]


@cache
def _labels() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    return tomllib.loads(_FILES[0].read_text("utf-8"))
