"""Cron expressions: three dialects, the days of a month, and the next fire in a time zone.

| fields | order | weekdays | days of month and week |
| --- | --- | --- | --- |
| 5 | minute hour day month weekday | 0-7, Sunday is 0 and 7 | cron's rule: both restricted means either |
| 6 | second first | 1-7, Sunday is 1 (Quartz) | one of both is `?` or `*` |
| 7 | second first, year last | as 6 | as 6 |

Daylight saving. Local times fall into segments of constant UTC offset. A fixed hour belongs to the segment
before a change until the clock of that segment ends: a repeated hour fires once, the first time, and the hours
of a gap fire once, at the change. An hour that is `*`, `*/n`, `0/n` or names all 24 hours goes by elapsed
time: it fires at every second whose local clock matches, in both passes of a repeated hour.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, NoReturn
from zoneinfo import ZoneInfo

from artiway.errors import Refused
from artiway.jobs.offsets import Offsets, offsets

EXPRESSION_MAX = 120
FIRST_YEAR, LAST_YEAR = 1970, 2099
# No pair of fires is closer than this if there is one fire in all.
SINGLE_FIRE_S = 10**10

_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = _EPOCH.toordinal()
# Weekdays and leap years repeat after 28 years. Across 2100 a 29 February waits up to 40 years for its weekday.
_CALENDAR_YEARS = range(2000, 2028)
_SEARCH_YEARS = 48
# More than any offset, so that a jump ahead does not pass over a fire.
_JUMP_BACK_S = 2 * _DAY_S
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


class InvalidSchedule(Refused):
    """The schedule cannot be used: `field` and `reason` say why."""

    code = "JOB_422_SCHEDULE"

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}", field=field, reason=reason)
        self.field, self.reason = field, reason


class Kind(StrEnum):
    EVERY = "every"  # `*`, `?` or `*/step`
    VALUE = "value"  # first
    RANGE = "range"  # first to last, each step
    LAST = "last"  # the last day of the month, less first days
    LAST_WEEKDAY = "last_weekday"  # the last weekday `first` of the month
    NTH = "nth"  # the weekday `first` for the `step`th time in the month


class Item(NamedTuple):
    """One part of a comma list. Weekdays are 0 to 6 from Sunday; a range may end in 7."""

    kind: Kind
    first: int = 0
    last: int = 0
    step: int = 1


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    is_day: bool = False
    # A Quartz weekday is written one higher than it is stored.
    shift: int = 0

    @property
    def size(self) -> int:
        return 7 if self.name == "dayOfWeek" else self.high - self.low + 1

    def refuse(self, reason: str) -> NoReturn:
        raise InvalidSchedule(self.name, reason)


_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("dayOfMonth", 1, 31, is_day=True)
_MONTH = _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("dayOfWeek", 0, 7, _WEEKDAYS, is_day=True)
_QUARTZ_WEEKDAY = _Field("dayOfWeek", 0, 6, _WEEKDAYS, is_day=True, shift=1)
_YEAR = _Field("year", FIRST_YEAR, LAST_YEAR)


@dataclass(frozen=True, slots=True)
class DayRule:
    """Which days of a month match."""

    days: frozenset[int]
    last_days: frozenset[int]  # days before the last day
    weekdays: frozenset[int]
    last_weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    is_either: bool

    def matching(self, first_weekday: int, length: int) -> tuple[int, ...]:
        """The days of a month with this first weekday (0 is Sunday) and length."""
        found = []
        for day in range(1, length + 1):
            weekday = (first_weekday + day - 1) % 7
            by_date = day in self.days or length - day in self.last_days
            by_weekday = (
                weekday in self.weekdays
                or (weekday in self.last_weekdays and day + 7 > length)
                or (weekday, (day + 6) // 7) in self.nth_weekdays
            )
            if (by_date or by_weekday) if self.is_either else (by_date and by_weekday):
                found.append(day)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Cron:
    """A valid expression. Two with the same text are equal."""

    expr: str
    fields: int = field(compare=False)
    # The parts as written, in the order of seven fields, for the words.
    items: tuple[tuple[Item, ...], ...] = field(compare=False, repr=False)
    goes_by_elapsed_time: bool = field(compare=False, repr=False)
    day_rule: DayRule = field(compare=False, repr=False)
    _seconds: tuple[int, ...] = field(compare=False, repr=False)
    _minutes: tuple[int, ...] = field(compare=False, repr=False)
    _hours: tuple[int, ...] = field(compare=False, repr=False)
    _months: tuple[int, ...] = field(compare=False, repr=False)
    _years: tuple[int, ...] = field(compare=False, repr=False)  # empty: every year
    _days: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def next_after(self, instant: datetime, zone: ZoneInfo) -> datetime | None:
        """The first fire strictly after the instant, in UTC; None if the years of the expression are over."""
        found = self._next(_seconds_of(instant) + 1, offsets(zone))
        return None if found is None else _EPOCH + timedelta(seconds=found)

    def upcoming(self, after: datetime, zone: ZoneInfo, count: int) -> list[datetime]:
        """The next fires, at most `count`."""
        return [fire for fire, _ in zip(self._fires(after, zone), range(count), strict=False)]

    def between(self, after: datetime, until: datetime, zone: ZoneInfo, limit: int) -> list[datetime]:
        """The fires with after < fire <= until, oldest first, at most `limit`."""
        found: list[datetime] = []
        for fire in self._fires(after, zone):
            if fire > until or len(found) >= limit:
                break
            found.append(fire)
        return found

    def shortest_period_s(self) -> int:
        """The smallest distance between two fires on a clock without changes: exact up to a year.

        The night of a change of offset can shorten one distance, since a fire moves to the end of the gap.
        """
        distances = [self._days_apart() * _DAY_S + self._first_time() - self._last_time()]
        distances += [b - a for a, b in pairwise(self._seconds)]
        seconds_back = self._seconds[0] - self._seconds[-1]
        distances += [(b - a) * 60 + seconds_back for a, b in pairwise(self._minutes)]
        minutes_back = (self._minutes[0] - self._minutes[-1]) * 60 + seconds_back
        distances += [(b - a) * 3600 + minutes_back for a, b in pairwise(self._hours)]
        return min(*distances, SINGLE_FIRE_S)

    @property
    def is_every_hour(self) -> bool:
        return len(self._hours) == 24

    def first_local(self, low: int, high: int) -> int | None:
        """The first matching time of a local clock in [low, high), in seconds since 1970 on that clock."""
        found = self._local_at_or_after(low) if low < high else None
        return None if found is None or found >= high else found

    def matches_a_day(self) -> bool:
        return next(self._ordinals(), None) is not None

    def _fires(self, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        table = offsets(zone)
        found = self._next(_seconds_of(after) + 1, table)
        while found is not None:
            yield _EPOCH + timedelta(seconds=found)
            found = self._next(found + 1, table)

    def _next(self, earliest: int, table: Offsets) -> int | None:
        """The first fire at or after `earliest`, in seconds since 1970."""
        while True:
            start, end, offset, before = table.at(earliest)
            # The local times that belong to this segment: its own clock, or from where the clock before it ended.
            low = start + (offset if self.goes_by_elapsed_time else before)
            if earliest > start:
                low = max(low, earliest + offset)
            local = self._local_at_or_after(low)
            if local is None:
                return None
            if local < end + offset:
                return max(start, local - offset)
            # A clock set back at `end` shows up to a day again, which this search did not see from the beginning.
            is_seen = low + _DAY_S <= end + offset
            earliest = max(end, local - _JUMP_BACK_S) if is_seen else end

    def _local_at_or_after(self, local: int) -> int | None:
        """The first matching local time at or after this one, in seconds since 1970 on the local clock."""
        day, time = divmod(local, _DAY_S)
        ordinal = day + _EPOCH_ORDINAL
        matching = self._day_at_or_after(ordinal)
        if matching == ordinal:
            hit = self._time_at_or_after(time)
            if hit is not None:
                return local - time + hit
            matching = self._day_at_or_after(ordinal + 1)
        if matching is None:
            return None
        return (matching - _EPOCH_ORDINAL) * _DAY_S + self._first_time()

    def _time_at_or_after(self, time: int) -> int | None:
        """The first matching second of the day at or after this one."""
        hours, minutes, seconds = self._hours, self._minutes, self._seconds
        hour, rest = divmod(time, 3600)
        minute, second = divmod(rest, 60)
        at = bisect_left(hours, hour)
        if at < len(hours) and hours[at] == hour:
            at_minute = bisect_left(minutes, minute)
            if at_minute < len(minutes) and minutes[at_minute] == minute:
                at_second = bisect_left(seconds, second)
                if at_second < len(seconds):
                    return hour * 3600 + minute * 60 + seconds[at_second]
                at_minute += 1
            if at_minute < len(minutes):
                return hour * 3600 + minutes[at_minute] * 60 + seconds[0]
            at += 1
        return hours[at] * 3600 + minutes[0] * 60 + seconds[0] if at < len(hours) else None

    def _day_at_or_after(self, ordinal: int) -> int | None:
        day = date.fromordinal(ordinal)
        year, month, number = day.year, day.month, day.day
        last_year = self._years[-1] if self._years else min(year + _SEARCH_YEARS, 9998)
        while year <= last_year:
            if self._years:
                later = self._years[bisect_left(self._years, year)]
                if later != year:
                    year, month, number = later, 1, 1
            at = bisect_left(self._months, month)
            if at < len(self._months):
                if self._months[at] != month:
                    month, number = self._months[at], 1
                first, days = self._month(year, month)
                if days and number <= days[-1]:
                    return first + days[bisect_left(days, number)] - 1
                month, number = month + 1, 1
            else:
                year, month, number = year + 1, 1, 1
        return None

    def _month(self, year: int, month: int) -> tuple[int, tuple[int, ...]]:
        """The ordinal of a month's first day, and its matching days."""
        first = date(year, month, 1).toordinal()
        length = _length(year, month)
        key = first % 7 * 32 + length  # ordinal 7 is a Sunday
        days = self._days.get(key)
        if days is None:
            days = self._days[key] = self.day_rule.matching(first % 7, length)
        return first, days

    def _ordinals(self) -> Iterator[int]:
        """The matching days of the expression's years, or of a span in which every month occurs that exists."""
        for year in self._years or _CALENDAR_YEARS:
            for month in self._months:
                first, days = self._month(year, month)
                for day in days:
                    yield first + day - 1

    def _days_apart(self) -> int:
        nearest = SINGLE_FIRE_S
        for day, later in pairwise(self._ordinals()):
            nearest = min(nearest, later - day)
            if nearest == 1:
                break
        return nearest

    def _first_time(self) -> int:
        return self._hours[0] * 3600 + self._minutes[0] * 60 + self._seconds[0]

    def _last_time(self) -> int:
        return self._hours[-1] * 3600 + self._minutes[-1] * 60 + self._seconds[-1]


@lru_cache(maxsize=16_384)
def parse(expr: str) -> Cron:
    """Raises InvalidSchedule with the field and the reason. Whether a year is over, `next_after` says."""
    if len(expr) > EXPRESSION_MAX:
        raise InvalidSchedule("expr", f"longer than {EXPRESSION_MAX} characters")
    parts = expr.upper().split()
    if len(parts) not in (5, 6, 7):
        raise InvalidSchedule(
            "expr", f"{len(parts)} fields; write 5, or 6 with seconds first, or 7 with seconds first and the year last"
        )
    cron = _cron(parts)
    if not cron.matches_a_day():
        raise InvalidSchedule("dayOfMonth", f"{' '.join(parts)} matches no day of any year")
    return cron


def _cron(parts: list[str]) -> Cron:
    is_quartz = len(parts) > 5
    weekday_field = _QUARTZ_WEEKDAY if is_quartz else _WEEKDAY
    given = parts if is_quartz else ["0", *parts]
    fields = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, weekday_field, _YEAR)
    items = tuple(_items(part, kind, is_quartz=is_quartz) for part, kind in zip(given, fields, strict=len(parts) == 7))
    second, minute, hour, day, month, weekday = items[:6]
    if is_quartz:
        _check_question_marks(given[3], given[5])
    hours = _values(hour, _HOUR)
    is_either = not is_quartz and not (parts[2].startswith("*") or parts[4].startswith("*"))
    return Cron(
        expr=" ".join(parts),
        fields=len(parts),
        items=items,
        goes_by_elapsed_time=len(hours) == 24 or given[2].startswith(("*", "0/")),
        day_rule=DayRule(
            days=frozenset(_values(day, _DAY)),
            last_days=frozenset(item.first for item in day if item.kind is Kind.LAST),
            weekdays=frozenset(value % 7 for value in _values(weekday, weekday_field)),
            last_weekdays=frozenset(item.first for item in weekday if item.kind is Kind.LAST_WEEKDAY),
            nth_weekdays=frozenset((item.first, item.step) for item in weekday if item.kind is Kind.NTH),
            is_either=is_either,
        ),
        _seconds=_values(second, _SECOND),
        _minutes=_values(minute, _MINUTE),
        _hours=hours,
        _months=_values(month, _MONTH),
        _years=_values(items[6], _YEAR) if len(items) == 7 and parts[6] != "*" else (),
    )


def _check_question_marks(day: str, weekday: str) -> None:
    """Quartz wants `?` in one of the two day fields; `*` beside it means the same and is accepted."""
    if day == weekday == "?":
        raise InvalidSchedule("dayOfWeek", "`?` stands in one of the two day fields, not in both")
    if day not in ("*", "?") and weekday not in ("*", "?"):
        raise InvalidSchedule(
            "dayOfWeek", "with 6 or 7 fields, day of month or day of week must be `?`: both are restricted"
        )


def _items(text: str, kind: _Field, *, is_quartz: bool) -> tuple[Item, ...]:
    if text == "?":
        if not (is_quartz and kind.is_day):
            kind.refuse("`?` stands for day of month or day of week, in expressions with 6 or 7 fields")
        return (Item(Kind.EVERY, kind.low, kind.low + kind.size - 1),)
    return tuple(_item(part, kind, is_quartz=is_quartz) for part in text.split(","))


def _item(part: str, kind: _Field, *, is_quartz: bool) -> Item:
    if not part:
        kind.refuse("a list has an empty part")
    if kind is _DAY:
        if "W" in part:
            kind.refuse(f"`{part}`: `W` (nearest working day) is not supported; use weekdays or fixed days")
        if part.startswith("L"):
            return Item(Kind.LAST, _days_before_last(part))
    if kind.name == "dayOfWeek":
        if part == "L":
            if not is_quartz:
                kind.refuse("`L` alone is Saturday in Quartz only; write SAT, or 5L for the last Friday")
            return Item(Kind.VALUE, 6)
        if part.endswith("L"):
            return Item(Kind.LAST_WEEKDAY, _number(part[:-1], kind) % 7)
        if "#" in part:
            weekday, _, count = part.partition("#")
            if count not in ("1", "2", "3", "4", "5"):
                kind.refuse(f"`{part}`: after `#` stands 1 to 5")
            return Item(Kind.NTH, _number(weekday, kind) % 7, 0, int(count))
    base, slash, step_text = part.partition("/")
    step = _step(step_text, kind) if slash else 1
    if base == "*":
        return Item(Kind.EVERY, kind.low, kind.low + kind.size - 1, step)
    first_text, dash, last_text = base.partition("-")
    first = _number(first_text, kind)
    if not dash:
        return Item(Kind.RANGE, first, kind.high, step) if slash else Item(Kind.VALUE, first)
    last = _number(last_text, kind)
    if last < first and kind is _YEAR:
        kind.refuse(f"`{part}` ends before it starts")
    return Item(Kind.RANGE, first, last, step)


def _days_before_last(part: str) -> int:
    if part == "L":
        return 0
    count = part.removeprefix("L-")
    if count == part or not _is_number(count) or not 0 <= int(count) <= 30:
        _DAY.refuse(f"`{part}`: write `L`, or `L-3` with 0 to 30 days before the last")
    return int(count)


def _step(text: str, kind: _Field) -> int:
    if not _is_number(text) or not 1 <= int(text) <= kind.size:
        kind.refuse(f"the step `/{text}` is not a number from 1 to {kind.size}")
    return int(text)


def _number(text: str, kind: _Field) -> int:
    if text in kind.names:
        return kind.names.index(text) + (1 if kind is _MONTH else 0)
    low, high = kind.low + kind.shift, kind.high + kind.shift
    if not _is_number(text):
        if text in ("L", "W", "LW") or "#" in text:
            kind.refuse(f"`{text}` is for the day fields only")
        names = f" or {kind.names[0]}-{kind.names[-1]}" if kind.names else ""
        kind.refuse(f"`{text}` is not a number from {low} to {high}{names}")
    number = int(text)
    if not low <= number <= high:
        kind.refuse(f"{number} is out of {low} to {high}")
    return number - kind.shift


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _values(items: tuple[Item, ...], kind: _Field) -> tuple[int, ...]:
    """The numbers that the items name, in order. A range that ends before it starts wraps: FRI-MON, 22-2."""
    found: set[int] = set()
    for item in items:
        if item.kind is Kind.VALUE:
            found.add(item.first)
        elif item.kind in (Kind.EVERY, Kind.RANGE):
            last = item.last if item.first <= item.last else item.last + kind.size
            found.update(
                value if value <= kind.high else value - kind.size for value in range(item.first, last + 1, item.step)
            )
    return tuple(sorted(found))


def _seconds_of(instant: datetime) -> int:
    """Whole seconds since 1970, rounded down: a fire in the same second as a fraction is over."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    since = instant - _EPOCH
    return since.days * _DAY_S + since.seconds


def _length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
