"""Cache statistics by name, the part of a key before its first colon.

A process writes its counts once a minute: a line per read would cost more than the read. It writes metrics, and adds
to the counts of all processes in Redis, which an operator reads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from artiway.platform import metrics

REPORT_S = 60
_SAMPLES = 256
# Upper ends of the classes into which the reads of Redis are counted.
CLASSES_MS = (1, 2, 5, 10, 20, 50, 100, 1_000)


@dataclass(frozen=True)
class NameStatistics:
    """The reads of one name over all processes. `read_p95_ms` is the upper end of a class, 0 without a read."""

    name: str
    first_level_hits: int
    second_level_hits: int
    loads: int
    read_p95_ms: int

    @property
    def hit_rate(self) -> float:
        hits = self.first_level_hits + self.second_level_hits
        return hits / (hits + self.loads) if hits + self.loads else 1.0


class Statistics:
    """Counts without a lock: a lost count costs less than a lock on every read."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._reported_at = now, now()
        self._read_s: deque[float] = deque(maxlen=_SAMPLES)
        self._counts: Counter[str] = Counter()

    def first_level_hit(self, key: str) -> None:
        self._counts[f"first:{_name(key)}"] += 1

    def second_level_hit(self, key: str) -> None:
        self._counts[f"second:{_name(key)}"] += 1

    def loaded(self, key: str) -> None:
        self._counts[f"load:{_name(key)}"] += 1

    def read_took(self, key: str, seconds: float) -> None:
        self._read_s.append(seconds)
        self._counts[f"{_class_of(seconds * 1000)}:{_name(key)}"] += 1

    def is_due(self, now: float) -> bool:
        return not 0 <= now - self._reported_at < REPORT_S

    def report(self, *, entries: int) -> Mapping[str, int]:
        """Write the metrics of this process. Returns the counts and begins again."""
        self._reported_at = self._now()
        counts, self._counts = self._counts, Counter()
        hits, loads = _total(counts, "first") + _total(counts, "second"), _total(counts, "load")
        # Counts and not only the rate: the rate of many processes needs the sums.
        metrics.emit("CacheHits", hits)
        metrics.emit("CacheMisses", loads)
        metrics.emit("CacheHitRate", 100 * hits / (hits + loads) if hits + loads else 100, "Percent")
        metrics.emit("CacheEntries", entries)
        if self._read_s:
            ranked = sorted(self._read_s)
            p95 = ranked[int(0.95 * (len(ranked) - 1))]
            metrics.emit("CacheReadMilliseconds", 1000 * p95, "Milliseconds")
        self._read_s.clear()
        return counts


def by_name(counts: Mapping[str, int]) -> list[NameStatistics]:
    """The statistics of each name in the counts of many processes."""
    names = sorted({field.partition(":")[2] for field in counts})
    return [
        NameStatistics(
            name,
            counts.get(f"first:{name}", 0),
            counts.get(f"second:{name}", 0),
            counts.get(f"load:{name}", 0),
            _p95_ms([(upper, counts.get(f"{upper}:{name}", 0)) for upper in CLASSES_MS]),
        )
        for name in names
    ]


def _name(key: str) -> str:
    return key.partition(":")[0]


def _class_of(milliseconds: float) -> int:
    return next((upper for upper in CLASSES_MS if milliseconds <= upper), CLASSES_MS[-1])


def _p95_ms(classes: list[tuple[int, int]]) -> int:
    remaining = 0.95 * sum(count for _, count in classes)
    for upper, count in classes:
        remaining -= count
        if count and remaining <= 0:
            return upper
    return 0


def _total(counts: Mapping[str, int], what: str) -> int:
    return sum(count for field, count in counts.items() if field.startswith(f"{what}:"))
