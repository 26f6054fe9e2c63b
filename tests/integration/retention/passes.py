"""Passes of the retention, for tests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from artiway.platform.database import Database
from artiway.retention.repository import SQL, PostgresExpiredRows
from artiway.retention.rules import RULES
from artiway.retention.service import RetentionService
from artiway.settings.model import Defaults, SettingValues


def purge(
    database: Database,
    *names: str,
    batch: int = 1_000,
    batches: int = 100,
    values: SettingValues | None = None,
    queries: Mapping[str, bytes] = SQL,
) -> dict[str, int]:
    """How many rows left in one pass of these rules, or of all."""
    rules = [replace(rule, batch=batch) for rule in RULES if not names or rule.name in names]
    ticks = itertools.count()
    rows = PostgresExpiredRows(database, queries)
    service = RetentionService(rows, values or Defaults(), monotonic=lambda: next(ticks), batches=batches)
    return service.run(within_s=1e9, rules=rules)
