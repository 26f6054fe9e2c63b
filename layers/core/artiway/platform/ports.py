"""Ports that several services share. No vendor is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
JITTER_S = 300


class Cache(Protocol):
    """What services need of `platform.cache.Cache`."""

    def get(self, key: str, load: Callable[[], T | None], *, ttl_s: float, jitter_s: float = JITTER_S) -> T | None: ...

    def refresh(
        self,
        key: str,
        load: Callable[[], T | None],
        *,
        ttl_s: float,
        jitter_s: float = JITTER_S,
        is_current: Callable[[T], bool] = ...,
    ) -> T | None: ...

    def invalidate(self, key: str) -> object: ...

    def invalidate_prefix(self, prefix: str) -> object: ...
