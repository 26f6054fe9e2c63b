"""Idempotency keys in PostgreSQL, with an advisory lock per key until the transaction ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from uuid import UUID

from artiway.idempotency.model import KEEP_HOURS, Answer, InProgress, key_of_user
from artiway.platform import sql
from artiway.platform.database import Database, Transaction

SQL = sql.load("artiway.idempotency")


@dataclass
class _Claim:
    _tx: Transaction
    _key: str
    _sent: str

    def known(self, request_hash: str) -> Answer | None:
        wanted = {"key": self._key, "sent": self._sent, "request_hash": request_hash, "keep_hours": KEEP_HOURS}
        row = self._tx.one(SQL["known_answer"], wanted)
        return None if row is None else Answer(**row)

    def keep(self, answer: Answer) -> None:
        self._tx.run(SQL["keep_answer"], {"key": self._key, **asdict(answer)})


class PostgresKeys:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextlib.contextmanager
    def claim(self, tenant_id: UUID, user_id: UUID, key: str) -> Iterator[_Claim]:
        of_user = key_of_user(user_id, key)
        with self._database.tenant_transaction(tenant_id) as tx:
            row = tx.one(SQL["try_lock"], {"key": of_user})
            if row is None or not row["is_ours"]:
                raise InProgress
            yield _Claim(tx, of_user, key)
