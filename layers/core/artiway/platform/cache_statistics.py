"""Cache metrics once a minute: a line per read would cost more than the read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from artiway.platform import metrics

REPORT_S = 60
_SAMPLES = 256


class Statistics:
    """Counts without a lock: a lost count costs less than a lock on every read."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._reported_at = now, now()
        self._read_s: deque[float] = deque(maxlen=_SAMPLES)
        self.first_level_hits = self.second_level_hits = self.loads = 0

    @property
    def hit_rate(self) -> float:
        hits = self.first_level_hits + self.second_level_hits
        return hits / (hits + self.loads) if hits + self.loads else 1.0

    def read_took(self, seconds: float) -> None:
        self._read_s.append(seconds)

    def is_due(self, now: float) -> bool:
        return not 0 <= now - self._reported_at < REPORT_S

    def report(self, *, entries: int) -> None:
        self._reported_at = self._now()
        hits = self.first_level_hits + self.second_level_hits
        # Counts and not only the rate: the rate of many processes needs the sums.
        metrics.emit("CacheHits", hits)
        metrics.emit("CacheMisses", self.loads)
        metrics.emit("CacheHitRate", 100 * self.hit_rate, "Percent")
        metrics.emit("CacheEntries", entries)
        if self._read_s:
            ranked = sorted(self._read_s)
            p95 = ranked[int(0.95 * (len(ranked) - 1))]
            metrics.emit("CacheReadMilliseconds", 1000 * p95, "Milliseconds")
        self.first_level_hits = self.second_level_hits = self.loads = 0
        self._read_s.clear()
