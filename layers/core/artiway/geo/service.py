"""The location of an IP address from several sources in order, within one time limit; else "unknown"."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from artiway.geo.model import LOCAL, UNKNOWN, SourceFailed, parse_address
from artiway.platform.ports import Cache

CACHE_S = 3_600


class Source(Protocol):
    name: str

    def locate(self, address: str, *, timeout_s: float) -> str:
        """The location, or SourceFailed within `timeout_s`."""


class GeoService:
    """A failure of a source never reaches the caller. `report(source, is_success)` is called after each query."""

    def __init__(
        self,
        sources: Callable[[], Sequence[Source]],
        cache: Cache,
        *,
        source_timeout_s: float,
        limit_s: float,
        report: Callable[[str, bool], None] = lambda _source, _is_success: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources, self._cache, self._report, self._now = sources, cache, report, now
        self._source_timeout_s, self._limit_s = source_timeout_s, limit_s

    def locate(self, address: str) -> str:
        return self.locator()(address)

    def locator(self) -> Callable[[str], str]:
        """Finds locations with the sources in force now. It reads no setting, so another thread may call it."""
        sources = self._sources()
        return lambda address: self._locate(address, sources)

    def _locate(self, address: str, sources: Sequence[Source]) -> str:
        parsed = parse_address(address)
        if parsed is None:
            return UNKNOWN
        if not parsed.is_global:
            return LOCAL  # no source knows a private address, and none shall receive it
        return self._cache.get(f"geo:{parsed}", lambda: self._query(str(parsed), sources), ttl_s=CACHE_S) or UNKNOWN

    def _query(self, address: str, sources: Sequence[Source]) -> str | None:
        """None if all sources fail. The cache keeps a null for five minutes; until then no source is queried."""
        deadline = self._now() + self._limit_s
        for source in sources:
            remaining_s = deadline - self._now()
            if remaining_s <= 0:
                break
            try:
                location = source.locate(address, timeout_s=min(remaining_s, self._source_timeout_s))
            except SourceFailed:
                self._report(source.name, False)
            else:
                self._report(source.name, True)
                return location
        return None
