"""Idempotency keys in PostgreSQL, under a lock per key that lasts as long as the transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from uuid import UUID

from artiway.idempotency.model import KEEP_HOURS, Answer, InProgress
from artiway.platform import sql
from artiway.platform.database import Database, Transaction

SQL = sql.load("artiway.idempotency")


@dataclass
class _Claim:
    _tx: Transaction
    _key: str

    def known(self) -> Answer | None:
        row = self._tx.one(SQL["known_answer"], {"key": self._key, "keep_hours": KEEP_HOURS})
        return None if row is None else Answer(**row)

    def keep(self, answer: Answer) -> None:
        self._tx.run(SQL["keep_answer"], {"key": self._key, **asdict(answer)})


class PostgresKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.contextmanager
    def claim(self, tenant_id: UUID, key: str) -> Iterator[_Claim]:
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["try_lock"], {"key": key})
            if row is None or not row["is_ours"]:
                raise InProgress
            yield _Claim(tx, key)


def purge(tx: Transaction, *, limit: int) -> int:
    """Delete keys that are no longer answered, at most `limit`; in a service transaction."""
    return tx.run(SQL["purge_expired"], {"keep_hours": KEEP_HOURS, "limit": limit})
