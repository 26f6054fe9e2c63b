"""`@once` makes a provider keep the value that it made.

Tests replace the outside world with `supply`, and drop every value with `forget_all`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from artiway.platform.snapshots import after_restore

T = TypeVar("T")
_PROVIDERS: list[Provider[Any]] = []


class Provider(Generic[T]):
    """Calls its function once. Modules import the provider itself, so a supplied value reaches all of them."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._made = make, list[T]()
        self.__doc__ = make.__doc__

    def __call__(self) -> T:
        if not self._made:
            self._made.append(self._make())
        return self._made[0]

    def supply(self, value: Any) -> None:
        """Use this value in place of the one that the function would make, until it is forgotten."""
        self._made = [value]

    @property
    def is_made(self) -> bool:
        return bool(self._made)

    def cache_clear(self) -> None:
        self._made = []


def once(make: Callable[[], T]) -> Provider[T]:
    provider = Provider(make)
    _PROVIDERS.append(provider)
    return provider


def forget_all() -> None:
    for provider in _PROVIDERS:
        provider.cache_clear()


def begin_anew() -> None:
    """After the restore of a SnapStart snapshot, from which many processes begin with the same memory.

    Connections of the snapshot are closed, its settings and caches are old, and its random numbers repeat.
    """
    random.seed()
    forget_all()


after_restore(begin_anew)
