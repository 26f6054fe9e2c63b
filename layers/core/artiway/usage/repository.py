"""Usage from the rows of tasks and texts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from uuid import UUID

from artiway import zones
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.usage.model import MOST_LINES, TooManyLines, UsageLine, UsageQuery

SQL = sql.load("artiway.usage")


class PostgresUsage:
    def __init__(self, database: Database) -> None:
        self._database = database

    def lines(self, tenant_id: UUID, wanted: UsageQuery) -> Sequence[UsageLine]:
        """By day, tool and e-mail address. Raises TooManyLines."""
        zone = zones.zone(wanted.time_zone)
        facts = {
            "start": datetime.combine(wanted.first, time(), zone),
            "end": datetime.combine(wanted.last + timedelta(days=1), time(), zone),
            "time_zone": wanted.time_zone,
            "user_id": wanted.user_id,
            "by_day": "day" in wanted.by,
            "by_tool": "tool" in wanted.by,
            "by_user": "user" in wanted.by,
            "limit": MOST_LINES + 1,
        }
        with self._database.tenant_transaction(tenant_id) as tx:
            rows = tx.all(SQL["usage"], facts)
        if len(rows) > MOST_LINES:
            raise TooManyLines
        return [UsageLine(**row) for row in rows]
