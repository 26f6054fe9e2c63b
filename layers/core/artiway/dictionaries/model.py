"""Labels in Chinese and English, by type."""

from __future__ import annotations

from dataclasses import dataclass

from artiway.errors import NotFound


class NoSuchDictionary(NotFound):
    code = "DICTIONARY_404_UNKNOWN"

    def __init__(self, type_: str) -> None:
        super().__init__("there is no dictionary of this type", type=type_[:100])


@dataclass(frozen=True)
class Label:
    key: str
    zh: str
    en: str
    order: int
