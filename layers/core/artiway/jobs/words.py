"""A cron expression in words, in English and in Chinese."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal

from artiway.jobs.cron import Cron, Item, Kind

Language = Literal["zh", "en"]
# More times of day than this are described by their fields, more values of a step by their range.
_LISTED_TIMES = 6
_LISTED_VALUES = 10


def describe(cron: Cron, zone_name: str, language: Language) -> str:
    """One line: `At 09:00, on Monday to Friday (Asia/Shanghai)`, `周一至周五 09:00（Asia/Shanghai）`."""
    parts = _Parts(cron)
    return f"{_chinese(parts)}（{zone_name}）" if language == "zh" else f"{_english(parts)} ({zone_name})"


class _Parts:
    """The fields of an expression, and the questions that both languages ask."""

    def __init__(self, cron: Cron) -> None:
        self.second, self.minute, self.hour, self.day, self.month, self.weekday = cron.items[:6]
        self.year = cron.items[6] if len(cron.items) == 7 else ()
        self.is_either = cron.day_rule.is_either
        self.has_seconds = not _is_zero(self.second)
        self.times = self._times()

    def _times(self) -> list[str]:
        """The times of day, if they are few and named one by one."""
        fields = (self.hour, self.minute, self.second)
        if any(item.kind is not Kind.VALUE for items in fields for item in items):
            return []
        times = sorted(set(product(*([item.first for item in items] for items in fields))))
        if len(times) > _LISTED_TIMES:
            return []
        return [":".join(f"{part:02}" for part in (time if self.has_seconds else time[:2])) for time in times]

    def hour_span(self) -> tuple[str, str] | None:
        """The first and the last minute of one range of hours."""
        first, *others = self.hour
        if others or first.kind is not Kind.RANGE or first.step > 1:
            return None
        return f"{first.first:02}:00", f"{first.last:02}:59"

    def hourly_span(self) -> tuple[str, str] | None:
        """The first and the last time of one fire an hour in one range of hours."""
        minute, *others = self.minute
        if self.has_seconds or others or minute.kind is not Kind.VALUE or not self.hour_span():
            return None
        return f"{self.hour[0].first:02}:{minute.first:02}", f"{self.hour[0].last:02}:{minute.first:02}"


def _is_free(items: Sequence[Item]) -> bool:
    """Whether the field restricts nothing."""
    return not items or any(item.kind is Kind.EVERY and item.step == 1 for item in items)


def _is_zero(items: Sequence[Item]) -> bool:
    return items == (Item(Kind.VALUE, 0),)


def _even_step(items: Sequence[Item], size: int) -> int:
    """The step of a lone `*`, `*/n` or `0/n` if it divides the unit; 0 if the last distance would be shorter."""
    first, *others = items
    is_whole = first.kind is Kind.EVERY or (first.kind is Kind.RANGE and (first.first, first.last) == (0, size - 1))
    return first.step if is_whole and not others and size % first.step == 0 else 0


def _named(items: Sequence[Item], name: Callable[[int], str], span: str, steps: str) -> list[str]:
    """The values and ranges of a list; special days are left out."""
    parts = []
    for item in items:
        if item.kind is Kind.VALUE:
            parts.append(name(item.first))
        elif item.kind in (Kind.EVERY, Kind.RANGE):
            values = range(item.first, item.last + 1, item.step)
            if item.step > 1 and 0 < len(values) <= _LISTED_VALUES:
                parts += [name(value) for value in values]
            else:
                text = span.format(name(item.first), name(item.last))
                parts.append(text if item.step == 1 else steps.format(text, item.step))
    return list(dict.fromkeys(parts))


# ---------------------------------------------------------------- English

_EN_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_EN_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_EN_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")


def _english(parts: _Parts) -> str:
    months = "" if _is_free(parts.month) else _en_list(parts.month, lambda month: _EN_MONTHS[month - 1])
    days = _en_days(parts, months or "the month")
    phrases = [_en_time(parts), days]
    if months and not days.endswith(months):
        phrases.append(f"in {months}")
    if not _is_free(parts.year):
        phrases.append(f"in {_en_list(parts.year)}")
    text = ", ".join(phrase for phrase in phrases if phrase)
    return text[0].upper() + text[1:]


def _en_time(parts: _Parts) -> str:
    if parts.times:
        return f"at {_en_join(parts.times)}"
    step = _even_step(parts.second if parts.has_seconds else parts.minute, 60)
    if parts.has_seconds:
        if _is_free(parts.minute):
            every = "" if step else " of every minute"
            return f"{_en_each(step, 'second') or _en_at(parts.second, 'second')}{every}{_en_hours(parts)}"
        lead = _en_each(step, "second") or _en_at(parts.second, "second")
        return f"{lead}, in {_en_units(parts.minute, 'minute')}{_en_hours(parts)}"
    if step:
        return f"{_en_each(step, 'minute')}{_en_hours(parts)}"
    hour_step = _even_step(parts.hour, 24)
    if hour_step and _is_zero(parts.minute):
        return _en_each(hour_step, "hour")
    if hour_step == 1:
        return f"{_en_at(parts.minute, 'minute')} of every hour"
    if hour_step:
        return f"{_en_at(parts.minute, 'minute')}, {_en_each(hour_step, 'hour')}"
    if span := parts.hourly_span():
        return f"every hour from {span[0]} to {span[1]}"
    return f"{_en_at(parts.minute, 'minute')}{_en_hours(parts)}"


def _en_hours(parts: _Parts) -> str:
    if _is_free(parts.hour):
        return ""
    span = parts.hour_span()
    return f", from {span[0]} to {span[1]}" if span else f", in {_en_units(parts.hour, 'hour')}"


def _en_days(parts: _Parts, month: str) -> str:
    """Ends in the month if every day of it is counted in the month."""
    day, weekday = _en_dates(parts.day, month), _en_weekdays(parts.weekday, month)
    if parts.is_either:
        return f"{day} or {weekday}"
    if _is_free(parts.day) and _is_free(parts.weekday):
        return "every day" if parts.times else ""
    if _is_free(parts.weekday):
        return day
    return weekday if _is_free(parts.day) else f"{day}, only {weekday}"


def _en_dates(items: Sequence[Item], month: str) -> str:
    plain = [item for item in items if item.kind is not Kind.LAST]
    found = [_en_units(plain, "day")] if plain else []
    for item in items:
        if item.kind is Kind.LAST:
            days = "day" if item.first == 1 else "days"
            found.append("the last day" if not item.first else f"{item.first} {days} before the last day")
    text = _en_join(found)
    return f"{'' if text[0].isdigit() else 'on '}{text} of {month}"


def _en_weekdays(items: Sequence[Item], month: str) -> str:
    found = _named(items, lambda day: _EN_WEEKDAYS[day % 7], "{} to {}", "{} in steps of {}")
    for item in items:
        if item.kind is Kind.LAST_WEEKDAY:
            found.append(f"the last {_EN_WEEKDAYS[item.first]} of {month}")
        elif item.kind is Kind.NTH:
            found.append(f"the {_EN_ORDINALS[item.step]} {_EN_WEEKDAYS[item.first]} of {month}")
    return f"on {_en_join(found)}"


def _en_each(step: int, unit: str) -> str:
    if not step:
        return ""
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _en_at(items: Sequence[Item], unit: str) -> str:
    return f"at {_en_units(items, unit)}"


def _en_units(items: Sequence[Item], unit: str) -> str:
    is_one = len(items) == 1 and items[0].kind is Kind.VALUE
    return f"{unit}{'' if is_one else 's'} {_en_list(items)}"


def _en_list(items: Sequence[Item], name: Callable[[int], str] = str) -> str:
    return _en_join(_named(items, name, "{} to {}", "{} in steps of {}"))


def _en_join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


# ---------------------------------------------------------------- Chinese

_ZH_WEEKDAYS = ("周日", "周一", "周二", "周三", "周四", "周五", "周六")
_ZH_NUMBERS = ("", "一", "二", "三", "四", "五")


def _chinese(parts: _Parts) -> str:
    years = "" if _is_free(parts.year) else f"{_zh_list(parts.year)} 年，"
    return f"{years}{_zh_days(parts)}{_zh_time(parts)}"


def _zh_time(parts: _Parts) -> str:
    if parts.times:
        return _zh_join(parts.times)
    hours = _zh_hours(parts)
    if parts.has_seconds:
        step = _even_step(parts.second, 60)
        seconds = _zh_each(step, "秒") if step else f"第 {_zh_list(parts.second)} 秒"
        if _is_free(parts.minute):
            return f"{hours}{seconds}" if step else f"{hours}每分钟的{seconds}"
        return f"{hours or '每小时的'}第 {_zh_list(parts.minute)} 分{'内，' if step else '的'}{seconds}"
    if step := _even_step(parts.minute, 60):
        return f"{hours}{_zh_each(step, '分钟')}"
    hour_step = _even_step(parts.hour, 24)
    if hour_step and _is_zero(parts.minute):
        return _zh_each(hour_step, "小时")
    if hour_step:
        return f"{_zh_each(hour_step, '小时')}的第 {_zh_list(parts.minute)} 分"
    if span := parts.hourly_span():
        return f"{span[0]} 至 {span[1]} 每小时"
    return f"{hours}第 {_zh_list(parts.minute)} 分"


def _zh_hours(parts: _Parts) -> str:
    if _is_free(parts.hour):
        return ""
    span = parts.hour_span()
    return f"{span[0]} 至 {span[1]} 之间，" if span else f"{_zh_list(parts.hour)} 点内，"


def _zh_days(parts: _Parts) -> str:
    """The months and the days; empty if the time says it all."""
    has_day, has_weekday = not _is_free(parts.day), not _is_free(parts.weekday)
    is_every_month = _is_free(parts.month)
    months = "每月" if is_every_month else f"{_zh_list(parts.month)} 月的"
    if parts.is_either:
        by_month = "每月" if is_every_month else "该月"
        return f"{months}{_zh_dates(parts.day)}或{_zh_weekdays(parts.weekday, by_month)} "
    if has_day:
        only = f"且为{_zh_weekdays(parts.weekday, '该月')}时" if has_weekday else ""
        return f"{months}{_zh_dates(parts.day)}{only} "
    if has_weekday:
        return f"{'' if is_every_month else months}{_zh_weekdays(parts.weekday, '每月' if is_every_month else '')} "
    if parts.times:
        return "每天 " if is_every_month else f"{months}每天 "
    return "" if is_every_month else f"{months}每天，"


def _zh_dates(items: Sequence[Item]) -> str:
    plain = [item for item in items if item.kind is not Kind.LAST]
    found = [f" {_zh_list(plain)} 日"] if plain else []
    found += [f"倒数第 {item.first + 1} 天" if item.first else "最后一天" for item in items if item.kind is Kind.LAST]
    return _zh_join(found)


def _zh_weekdays(items: Sequence[Item], month: str) -> str:
    found = _named(items, lambda day: _ZH_WEEKDAYS[day % 7], "{}至{}", "{}中每 {} 天")
    for item in items:
        if item.kind is Kind.LAST_WEEKDAY:
            found.append(f"{month}最后一个{_ZH_WEEKDAYS[item.first]}")
        elif item.kind is Kind.NTH:
            found.append(f"{month}第{_ZH_NUMBERS[item.step]}个{_ZH_WEEKDAYS[item.first]}")
    return _zh_join(found)


def _zh_each(step: int, unit: str) -> str:
    return f"每{unit}" if step == 1 else f"每 {step} {unit}"


def _zh_list(items: Sequence[Item]) -> str:
    return _zh_join(_named(items, str, "{} 至 {}", "{}（步长 {}）"))


def _zh_join(parts: Sequence[str]) -> str:
    return "、".join(parts)
