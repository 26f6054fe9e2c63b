"""What operators see and do of the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from artiway.errors import NotFound, Refused


class NoSuchCache(NotFound):
    code = "CACHE_404_UNKNOWN"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__("no cache of this name can be refreshed", name=name[:100], known=list(known))


class PrefixRefused(Refused):
    code = "CACHE_422_PREFIX"

    def __init__(self, known: Sequence[str]) -> None:
        super().__init__("a prefix begins with the name of a cache", field="prefix", known=list(known))


@dataclass(frozen=True)
class NamedCache:
    """The reads of one cache over all processes in the last hour, and the values that Redis has of it."""

    name: str
    entries: int
    hits: int
    misses: int
    hit_rate: float
    read_p95_ms: int
    is_refreshable: bool


@dataclass(frozen=True)
class CacheReport:
    """`is_complete` is false if Redis has more values than were counted."""

    caches: Sequence[NamedCache]
    is_complete: bool
