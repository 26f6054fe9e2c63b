"""Purges in PostgreSQL, over all tenants, as `artiway_service`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

from artiway.platform import sql
from artiway.platform.database import Database
from artiway.retention.model import Batch, Rule

SQL = sql.load("artiway.retention")
# Before the first row.
START = {"at": "-infinity", "id": "00000000-0000-0000-0000-000000000000", "number": 0}


class PostgresExpiredRows:
    def __init__(self, service_database: Database, queries: Mapping[str, bytes] = SQL) -> None:
        self._database, self._queries = service_database, queries

    def purge(self, rule: Rule, *, age: timedelta) -> Batch:
        named = {"name": f"retention:{rule.name}"}
        with self._database.service_transaction() as tx:
            tx.run(self._queries["use_indexes"])
            mine = tx.one(self._queries["try_lock"], named)
            if mine is None or not mine["is_mine"]:
                return Batch(0, 0)
            found = tx.one(self._queries["position"], named) if rule.is_resumed else None
            after = found["position"] if found else START
            row = tx.one(self._queries[rule.name], {"age": age, "limit": rule.batch, **START, **after})
            assert row is not None
            if rule.is_resumed:
                last = row["position"] if row["examined"] >= rule.batch else START
                tx.run(self._queries["keep_position"], {**named, "position": json.dumps(last)})
        return Batch(row["examined"], row["deleted"])

    def oldest_s(self) -> Mapping[str, float]:
        with self._database.service_transaction() as tx:
            rows = tx.all(self._queries["oldest_s"])
        return {row["name"]: row["age_s"] for row in rows if row["age_s"] is not None}
