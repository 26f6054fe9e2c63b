"""The margin report, from the daily usage of all tenants."""

from __future__ import annotations

from dataclasses import fields

from artiway.generations.margins.model import DIMENSIONS, Margin, MarginLine, MarginQuery, MarginReport
from artiway.platform import sql
from artiway.platform.database import Database
from artiway.usage.model import MOST_LINES, TooManyLines

SQL = sql.load("artiway.generations.margins")
SUMS = [column.name for column in fields(Margin)]


class PostgresMargins:
    def __init__(self, database: Database) -> None:
        self._database = database

    def report(self, wanted: MarginQuery) -> MarginReport:
        """By day, the dearest first. Raises TooManyLines."""
        facts = {
            "first": wanted.first,
            "last": wanted.last,
            "tenant_id": wanted.tenant_id,
            "service": wanted.service,
            "model": wanted.model,
            "limit": MOST_LINES + 1,
            **{f"by_{name}": name in wanted.by for name in DIMENSIONS},
        }
        with self._database.service_transaction() as tx:
            rows = tx.all(SQL["margins"], facts)
        if len(rows) > MOST_LINES:
            raise TooManyLines
        lines = [
            MarginLine(
                day=row["day"],
                model=row["model"],
                service=row["service"],
                tenant_id=row["tenant_id"],
                tenant_name=row["tenant_name"],
                user_id=row["user_id"],
                email=row["email"],
                margin=Margin(**{name: row[name] for name in SUMS}),
            )
            for row in rows
        ]
        return MarginReport(lines, _sum([line.margin for line in lines]))


def _sum(margins: list[Margin]) -> Margin:
    return Margin(**{name: sum(getattr(one, name) for one in margins) for name in SUMS}) if margins else Margin()
