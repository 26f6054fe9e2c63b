"""Deletes rows whose time is over, in small batches. Several passes at once and a crash are harmless."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from artiway.platform import metrics
from artiway.platform.logs import Logger
from artiway.retention.model import Batch, Rule
from artiway.retention.rules import RULES
from artiway.settings.model import SettingValues

logger = Logger("retention")
DAY_S = 86_400


class ExpiredRows(Protocol):
    def purge(self, rule: Rule, *, age: timedelta) -> Batch:
        """Delete one batch in one transaction. Another pass that does the same makes this one return an empty batch."""

    def oldest_s(self) -> Mapping[str, float]:
        """The age of the oldest row of each rule, for the rules that have a row."""


class RetentionService:
    def __init__(
        self, rows: ExpiredRows, values: SettingValues, *, monotonic: Callable[[], float], batches: int
    ) -> None:
        """A pass takes at most `batches` of a rule."""
        self._rows, self._values, self._monotonic, self._batches = rows, values, monotonic, batches

    def run(self, *, within_s: float, rules: Sequence[Rule] = RULES) -> dict[str, int]:
        """How many rows left, by rule. The rules take turns, so a large backlog of one does not stop the others."""
        deadline = self._monotonic() + within_s
        deleted = dict.fromkeys((rule.name for rule in rules), 0)
        full = list(rules)
        for _ in range(self._batches):
            full = [rule for rule in full if self._monotonic() < deadline and self._is_full(rule, deleted)]
        for name, count in deleted.items():
            if count:
                metrics.emit("RowsPurged", count, table=name)
        for name, age_s in self._rows.oldest_s().items():
            metrics.emit("OldestRowDays", age_s / DAY_S, "None", table=name)
        return deleted

    def _is_full(self, rule: Rule, deleted: dict[str, int]) -> bool:
        """Purge a batch. True if more rows may follow."""
        try:
            batch = self._rows.purge(rule, age=rule.age(self._values))
        except Exception:
            logger.exception("rows not purged", rule=rule.name)
            metrics.emit("SweepFailures", 1, sweep="retention")
            return False
        deleted[rule.name] += batch.deleted
        return batch.examined >= rule.batch
