"""`@once` makes a provider keep what it made. `forget_all` drops everything, for tests that change the environment."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from functools import _lru_cache_wrapper

T = TypeVar("T")
_PROVIDERS: list[_lru_cache_wrapper[object]] = []


def once(provider: Callable[[], T]) -> _lru_cache_wrapper[T]:
    cached = cache(provider)
    _PROVIDERS.append(cached)
    return cached


def forget_all() -> None:
    for provider in _PROVIDERS:
        provider.cache_clear()
