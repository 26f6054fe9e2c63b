"""Usage: tasks, texts and points by day, tool and person."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID

from artiway import zones
from artiway.errors import Refused

LONGEST_DAYS = 92
DEFAULT_DAYS = 30
MOST_LINES = 10_000
# Days outside have no usage, and near the ends of the calendar they have no beginning in every zone.
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2100, 1, 1)
DIMENSIONS = ("day", "tool", "user")


@dataclass(frozen=True)
class UsageQuery:
    """Days of a time zone, the last one included. `user_id` None: all users of the tenant."""

    first: date
    last: date
    time_zone: str
    by: frozenset[str]
    user_id: UUID | None


@dataclass(frozen=True)
class UsageLine:
    """A field that was not asked for is None. `tool` is a tool, `flow`, or `text:` and a service."""

    day: date | None
    tool: str | None
    user_id: UUID | None
    email: str | None
    display_name: str | None
    tasks: int
    texts: int
    points: int


class TooManyLines(Refused):
    code = "USAGE_422_TOO_MANY_LINES"

    def __init__(self) -> None:
        super().__init__("the answer would be too long; choose fewer days or fewer groups", limit=MOST_LINES)


def usage_query(
    *, first: date | None, last: date | None, today: date, time_zone: str, by: str, user_id: UUID | None
) -> UsageQuery:
    """Raises Refused for an unknown group or zone, and for a range that is too long or reversed."""
    if time_zone not in zones.names():
        raise _invalid("timeZone", "not a time zone")
    since, until = day_range(first, last, today)
    groups = frozenset(part.strip() for part in by.split(",") if part.strip())
    if unknown := groups - set(DIMENSIONS):
        raise _invalid("groupBy", f"unknown: {min(unknown)}; known are {', '.join(DIMENSIONS)}")
    return UsageQuery(since, until, time_zone, groups, user_id)


def day_range(first: date | None, last: date | None, today: date) -> tuple[date, date]:
    """The days of a report, the last one included. Raises Refused for a range that is too long or reversed."""
    for field, day in (("from", first), ("to", last)):
        if day is not None and not FIRST_DAY <= day <= LAST_DAY:
            raise _invalid(field, f"is not between {FIRST_DAY} and {LAST_DAY}")
    until = last or today
    since = first or until - timedelta(days=DEFAULT_DAYS - 1)
    if since > until:
        raise _invalid("from", "is after `to`")
    if (until - since).days >= LONGEST_DAYS:
        raise _invalid("from", f"a range has at most {LONGEST_DAYS} days")
    return since, until


def _invalid(field: str, reason: str) -> Refused:
    return Refused("the request is not valid", fields=[{"field": field, "reason": reason}])
