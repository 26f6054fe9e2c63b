"""When the rows of a table leave."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from artiway.settings.model import Setting, SettingValues

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@dataclass(frozen=True)
class Rule:
    """Rows leave after the shortest of these settings, in batches of `batch` rows of the first table.

    `name` is also the name of the statement in queries.sql and a dimension of metrics. Rows of a rule with
    `is_resumed` can be kept by others; the next pass continues after them.
    """

    name: str
    periods: tuple[Setting[int], ...]
    batch: int
    unit: timedelta = DAY
    fixed: timedelta = timedelta(0)
    is_resumed: bool = False

    def age(self, values: SettingValues) -> timedelta:
        return min((values.get(period) * self.unit for period in self.periods), default=self.fixed)


@dataclass(frozen=True)
class Batch:
    """How many rows were read from the first table, and how many left all tables."""

    examined: int
    deleted: int
