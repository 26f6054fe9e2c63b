"""Random cron expressions with their meaning.

The meaning is made together with the text, as sets of numbers, so a scan needs no parser of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True)
class Expression:
    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    last_days: frozenset[int]  # 0 is the last day of the month
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    last_weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    years: frozenset[int] | None
    is_either: bool
    is_elapsed: bool


def numbers(random: Random, low: int, high: int, *, wraps: bool = True) -> tuple[str, set[int]]:
    """One part of a list."""
    first, last = random.randint(low, high), random.randint(low, high)
    match random.choice(("value", "value", "range", "stepped", "open")):
        case "value":
            return str(first), {first}
        case "open":
            step = random.randint(1, high - low + 1)
            return f"{first}/{step}", set(range(first, high + 1, step))
        case shape:
            if first > last and not wraps:
                first, last = last, first
            ring = [*range(first, high + 1), *range(low, last + 1)] if first > last else [*range(first, last + 1)]
            if shape == "range" or first == last:
                return f"{first}-{last}", set(ring)
            step = random.randint(1, high - low + 1)
            return f"{first}-{last}/{step}", set(ring[::step])


def listed(random: Random, low: int, high: int, *, wraps: bool = True) -> tuple[str, set[int]]:
    parts = [numbers(random, low, high, wraps=wraps) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    return ",".join(text for text, _ in parts), set().union(*(values for _, values in parts))


def plain(random: Random, low: int, high: int, *, star: float, wraps: bool = True) -> tuple[str, set[int]]:
    """A whole field: `*`, `*/n` or a list."""
    if random.random() < star:
        return "*", set(range(low, high + 1))
    if random.random() < 0.25:
        step = random.randint(1, high - low + 1)
        return f"*/{step}", set(range(low, high + 1, step))
    return listed(random, low, high, wraps=wraps)


def weekday(random: Random, number: int, *, is_quartz: bool) -> str:
    """One of the ways to write a weekday."""
    if random.random() < 0.4:
        return random.choice((WEEKDAYS[number], WEEKDAYS[number].lower()))
    if is_quartz:
        return str(number + 1)
    return "7" if number == 0 and random.random() < 0.5 else str(number)


def expression(random: Random, *, fields: int | None = None, is_simple: bool = False) -> Expression:
    """With `is_simple`, only what every cron knows: no `L` in lists, no ranges that wrap."""
    fields = fields or random.choice((5, 5, 6, 6, 7))
    is_quartz, wraps = fields > 5, not is_simple
    second_text, seconds = plain(random, 0, 59, star=0.1) if is_quartz and random.random() < 0.5 else ("0", {0})
    minute_text, minutes = plain(random, 0, 59, star=0.15, wraps=wraps)
    hour_text, hours = plain(random, 0, 23, star=0.25, wraps=wraps)
    month_text, months = plain(random, 1, 12, star=0.6, wraps=wraps)
    if months == set(range(1, 13)) or random.random() < 0.7:
        pass
    else:
        month_text, months = random.choice([(MONTHS[number - 1], {number}) for number in range(1, 13)])

    day_text, days, last_days = "*", set(range(1, 32)), set[int]()
    weekday_text, weekdays, last_weekdays, nths = "*", set(range(7)), set[int](), set[tuple[int, int]]()
    shape = random.choice(("free", "day", "day", "weekday", "weekday", "both"))
    if shape == "both" and is_quartz:
        shape = "day"
    if shape in ("day", "both"):
        if random.random() < 0.25:
            before = 0 if is_simple or random.random() < 0.4 else random.randint(0, 6)
            day_text, days, last_days = (f"L-{before}" if before else "L"), set(), {before}
            if not is_simple and random.random() < 0.3:
                more_text, days = numbers(random, 1, 31)
                day_text = f"{more_text},{day_text}"
        else:
            day_text, days = plain(random, 1, 31, star=0, wraps=wraps)
    if shape in ("weekday", "both"):
        number = random.randrange(7)
        match random.choice(("plain", "plain", "step", "last", "nth", "list")):
            case "plain":
                last = random.randrange(7)
                if last < number and is_simple:
                    number, last = last, number
                names = [
                    weekday(random, day, is_quartz=is_quartz).replace("7", "0" if not is_quartz else "7")
                    for day in (number, last)
                ]
                if number == last:
                    weekday_text, weekdays = names[0], {number}
                else:
                    span = range(number, last + 1) if number < last else range(number, last + 8)
                    weekday_text, weekdays = "-".join(names), {day % 7 for day in span}
            case "step":
                step = random.randint(1, 7)
                weekday_text, weekdays = f"*/{step}", set(range(0, 7, step))
            case "last":
                written = weekday(random, number, is_quartz=is_quartz)
                if is_simple:
                    written = str(number)
                weekday_text, weekdays, last_weekdays = f"{written}L", set(), {number}
            case "nth":
                count = random.randint(1, 5)
                written = weekday(random, number, is_quartz=is_quartz)
                weekday_text, weekdays, nths = f"{written}#{count}", set(), {(number, count)}
            case "list":
                weekdays = set(random.sample(range(7), 3))
                weekday_text = ",".join(weekday(random, day, is_quartz=is_quartz) for day in weekdays)
    year_text, years = "", None
    if fields == 7:
        year_text, years = random.choice(
            (("*", None), ("2026", {2026}), ("2020-2030", set(range(2020, 2031))), ("2025/1", set(range(2025, 2100))))
        )
    is_either = not is_quartz and not day_text.startswith("*") and not weekday_text.startswith("*")
    if is_quartz:
        if shape == "free" or shape == "day":
            weekday_text = "?" if day_text != "*" or random.random() < 0.7 else "*"
        else:
            day_text = random.choice(("?", "*"))
    texts = [minute_text, hour_text, day_text, month_text, weekday_text]
    if is_quartz:
        texts = [second_text, *texts]
    if year_text:
        texts.append(year_text)
    return Expression(
        text=" ".join(texts),
        seconds=frozenset(seconds),
        minutes=frozenset(minutes),
        hours=frozenset(hours),
        days=frozenset(days),
        last_days=frozenset(last_days),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        last_weekdays=frozenset(last_weekdays),
        nth_weekdays=frozenset(nths),
        years=frozenset(years) if years else None,
        is_either=is_either,
        is_elapsed=hour_text.startswith(("*", "0/")) or len(hours) == 24,
    )
