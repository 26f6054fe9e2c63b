"""The UTC offsets of a time zone as segments of constant offset, in whole seconds since 1970."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

_DAY_S = 86_400
# Segments are found a block at a time; the start of a block is a segment's start without a change.
_BLOCK_S = 400 * _DAY_S


class Segment(NamedTuple):
    """UTC from `start` until before `end`. `before` is the offset in the second before `start`."""

    start: int
    end: int
    offset: int
    before: int


class Offsets:
    """Finds the segment of an instant. One day has at most one change of offset."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._blocks: dict[int, tuple[list[int], list[Segment]]] = {}
        self._recent = self._find(0)

    def at(self, instant_s: int) -> Segment:
        recent = self._recent
        if not recent.start <= instant_s < recent.end:
            self._recent = recent = self._find(instant_s)
        return recent

    def _find(self, instant_s: int) -> Segment:
        number = instant_s // _BLOCK_S
        block = self._blocks.get(number)
        if block is None:
            segments = self._segments(number * _BLOCK_S)
            block = self._blocks[number] = ([segment.start for segment in segments], segments)
        starts, segments = block
        return segments[bisect_right(starts, instant_s) - 1]

    def _segments(self, first: int) -> list[Segment]:
        end = first + _BLOCK_S
        before, offset = self._offset(first - 1), self._offset(first)
        segments, start = [], first
        for day in range(first, end, _DAY_S):
            after = self._offset(day + _DAY_S - 1)
            if after != offset:
                change = self._change(day, day + _DAY_S - 1)
                segments.append(Segment(start, change, offset, before))
                start, before, offset = change, offset, after
        segments.append(Segment(start, end, offset, before))
        return segments

    def _change(self, low: int, high: int) -> int:
        """The first second with the offset of `high`."""
        offset = self._offset(high)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._offset(middle) == offset else (middle + 1, high)
        return low

    def _offset(self, instant_s: int) -> int:
        delta = datetime.fromtimestamp(instant_s, UTC).astimezone(self._zone).utcoffset()
        assert delta is not None
        return delta.days * _DAY_S + delta.seconds


@lru_cache(maxsize=1024)
def offsets(zone: ZoneInfo) -> Offsets:
    return Offsets(zone)
