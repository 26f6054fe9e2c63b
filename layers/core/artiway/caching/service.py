"""The cache, for operators: statistics, refresh, and deletion by prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from artiway.caching.model import CacheReport, NamedCache, NoSuchCache, PrefixRefused

MINUTES = 60
MOST_COUNTED = 100_000
MOST_DELETED = 100_000
# The names under which the features keep values. A test compares them with the code.
NAMES = ("access", "dictionaries", "durations", "geo", "settings")


class NameStatistics(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def first_level_hits(self) -> int: ...
    @property
    def second_level_hits(self) -> int: ...
    @property
    def loads(self) -> int: ...
    @property
    def read_p95_ms(self) -> int: ...
    @property
    def hit_rate(self) -> float: ...


class Overview(Protocol):
    @property
    def names(self) -> Sequence[NameStatistics]: ...
    @property
    def sizes(self) -> Mapping[str, int]: ...
    @property
    def is_complete(self) -> bool: ...


class Cache(Protocol):
    def overview(self, *, minutes: int, most_keys: int) -> Overview: ...

    def delete_prefix(self, prefix: str, *, limit: int) -> int: ...


class Trail(Protocol):
    def record(self, *, actor_id: UUID | None, action: str, target: str, details: Mapping[str, Any]) -> None: ...


class CacheService:
    """`refreshers` load a cache again and return how many values they replaced."""

    def __init__(self, cache: Cache, trail: Trail, refreshers: Mapping[str, Callable[[], int]]) -> None:
        self._cache, self._trail, self._refreshers = cache, trail, refreshers

    def report(self) -> CacheReport:
        overview = self._cache.overview(minutes=MINUTES, most_keys=MOST_COUNTED)
        read = {statistics.name: statistics for statistics in overview.names}
        names = sorted({*NAMES, *read, *overview.sizes})
        return CacheReport([self._named(name, read.get(name), overview) for name in names], overview.is_complete)

    def refresh(self, name: str, *, actor_id: UUID | None) -> int:
        """Load the values of a cache from their source and replace them everywhere."""
        if name not in self._refreshers:
            raise NoSuchCache(name, sorted(self._refreshers))
        replaced = self._refreshers[name]()
        self._trail.record(actor_id=actor_id, action="cache.refreshed", target=name, details={"values": replaced})
        return replaced

    def delete(self, prefix: str, *, actor_id: UUID | None) -> int:
        """Drop cached values everywhere, at most 100,000. Nothing but cached values can be named."""
        if prefix.partition(":")[0] not in NAMES:
            raise PrefixRefused(NAMES)
        deleted = self._cache.delete_prefix(prefix, limit=MOST_DELETED)
        self._trail.record(actor_id=actor_id, action="cache.deleted", target=prefix, details={"deleted": deleted})
        return deleted

    def _named(self, name: str, read: NameStatistics | None, overview: Overview) -> NamedCache:
        return NamedCache(
            name=name,
            entries=overview.sizes.get(name, 0),
            hits=0 if read is None else read.first_level_hits + read.second_level_hits,
            misses=0 if read is None else read.loads,
            hit_rate=1.0 if read is None else read.hit_rate,
            read_p95_ms=0 if read is None else read.read_p95_ms,
            is_refreshable=name in self._refreshers,
        )
