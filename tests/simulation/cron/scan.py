"""A scan of every minute or second of a span, independent of `artiway.jobs.cron`.

Each moment of a span has labels: the local second, minute, hour, day and so on. A bit mask of a label's value has one
bit for each moment, so one AND or OR of two large integers tests every moment of the span.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache, reduce
from operator import or_
from zoneinfo import ZoneInfo

from tests.unit.jobs.expressions import Expression

LABELS: dict[str, Callable[[datetime], int]] = {
    "second": lambda at: at.second,
    "minute": lambda at: at.minute,
    "hour": lambda at: at.hour,
    "day": lambda at: at.day,
    "days_left": lambda at: calendar.monthrange(at.year, at.month)[1] - at.day,
    "month": lambda at: at.month,
    "weekday": lambda at: at.isoweekday() % 7,
    "nth": lambda at: (at.day - 1) // 7 + 1,
    "year": lambda at: at.year - 2000,
}
DAY_LABELS = ("day", "days_left", "month", "weekday", "nth", "year")


class Labels:
    """The labels of moments, and the masks of their values."""

    def __init__(self, moments: Iterable[datetime]) -> None:
        columns = {name: bytearray() for name in LABELS}
        day, of_day = None, {}
        for at in moments:
            if at.date() != day:
                day, of_day = at.date(), {name: LABELS[name](at) for name in DAY_LABELS}
            columns["second"].append(at.second)
            columns["minute"].append(at.minute)
            columns["hour"].append(at.hour)
            for name in DAY_LABELS:
                columns[name].append(of_day[name])
        self._columns = columns
        self.count = len(columns["second"])
        self.mask = cache(self._mask)

    def _mask(self, label: str, value: int) -> int:
        table = bytearray(b"0" * 256)
        table[value] = ord("1")
        return int(self._columns[label].translate(bytes(table)), 2)

    def any_of(self, label: str, values: Iterable[int]) -> int:
        return reduce(or_, (self.mask(label, value) for value in values), 0)

    def matching(self, one: Expression, *, seconds: bool) -> int:
        by_day = self.any_of("day", one.days) | self.any_of("days_left", one.last_days)
        by_weekday = self.any_of("weekday", one.weekdays)
        last_week = self.any_of("days_left", range(7))
        for weekday in one.last_weekdays:
            by_weekday |= self.mask("weekday", weekday) & last_week
        for weekday, nth in one.nth_weekdays:
            by_weekday |= self.mask("weekday", weekday) & self.mask("nth", nth)
        days = by_day | by_weekday if one.is_either else by_day & by_weekday
        found = days & self.any_of("month", one.months) & self.any_of("hour", one.hours)
        found &= self.any_of("minute", one.minutes)
        if one.years is not None:
            found &= self.any_of("year", (year - 2000 for year in one.years if year < 2100))
        return found & self.any_of("second", one.seconds) if seconds else found

    def window(self, mask: int, first: int, end: int) -> list[int]:
        """The moments of the mask with first <= moment < end."""
        width = end - first
        text = format((mask >> (self.count - end)) & ((1 << width) - 1), f"0{width}b")
        found, at = [], text.find("1")
        while at >= 0:
            found.append(first + at)
            at = text.find("1", at + 1)
        return found


class Span:
    """A span of UTC in steps of a minute or a second, and the same span of the local clock without changes."""

    def __init__(self, zone: ZoneInfo, start: datetime, end: datetime, step: timedelta) -> None:
        self.start, self.end, self.step = start, end, step
        count = (end - start) // step
        self.elapsed = Labels((start + step * n).astimezone(zone) for n in range(count))
        # Some hours more on both sides, so that a clock that is set back or forward has its times.
        first, margin = start.astimezone(zone).replace(tzinfo=None), timedelta(hours=4)
        clock = [first - margin + step * n for n in range((end - start + 2 * margin) // step)]
        self.nominal = Labels(clock)
        self.fires_at = [at.replace(tzinfo=zone).astimezone(UTC) for at in clock]
        shown = [fire.astimezone(zone).replace(tzinfo=None) for fire in self.fires_at]
        self.gaps = {n for n, at in enumerate(clock) if shown[n] != at}
        for n in sorted(self.gaps, reverse=True):  # a time that no clock shows fires with the next one that is shown
            self.fires_at[n] = self.fires_at[n + 1]
        self._hours_8 = 2 * margin // step

    def fires(self, one: Expression, start: datetime, end: datetime) -> list[datetime]:
        """The fires with start < fire <= end."""
        by_second = self.step < timedelta(minutes=1)
        seconds = [timedelta()] if by_second else [timedelta(seconds=second) for second in sorted(one.seconds)]
        labels = self.elapsed if one.is_elapsed else self.nominal
        mask = self._matching(one)
        first, last = (start - self.start) // self.step, (end - self.start) // self.step + 1
        if one.is_elapsed:
            moments = labels.window(mask, max(first, 0), min(last, labels.count))
            found = {self.start + self.step * n + second for n in moments for second in seconds}
        else:
            moments = labels.window(mask, max(first, 0), min(last + self._hours_8, labels.count))
            found = {
                self.fires_at[n] + (timedelta() if n in self.gaps else second) for n in moments for second in seconds
            }
        return sorted(fire for fire in found if start < fire <= end)

    def count(self, one: Expression) -> int:
        """About how many fires the span has."""
        return self._matching(one).bit_count() * (1 if self.step < timedelta(minutes=1) else len(one.seconds))

    def _matching(self, one: Expression) -> int:
        key = (id(self), one)
        if self._recent[0] != key:
            labels = self.elapsed if one.is_elapsed else self.nominal
            self._recent = (key, labels.matching(one, seconds=self.step < timedelta(minutes=1)))
        return self._recent[1]

    _recent: tuple[object, int] = (None, 0)


def changes(zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The minutes of a span at which the offset changes."""
    found, hour = [], start
    while hour < end:
        minutes = [hour + timedelta(minutes=n) for n in range(-1, 60)]
        offsets = [minute.astimezone(zone).utcoffset() for minute in minutes[:: len(minutes) - 1]]
        if offsets[0] != offsets[1]:
            before = offsets[0]
            found.append(next(minute for minute in minutes if minute.astimezone(zone).utcoffset() != before))
        hour += timedelta(hours=1)
    return found
