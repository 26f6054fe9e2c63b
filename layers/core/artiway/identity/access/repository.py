"""The access check's queries, as `artiway_app`: the key or token names its tenant, the row policies do the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from artiway.identity.model import effective_permissions
from artiway.platform import redis_keys, sql
from artiway.platform.clock import Clock
from artiway.platform.database import Database, Row
from artiway.platform.redis import RedisAway, translated

if TYPE_CHECKING:
    from redis import Redis

SQL = sql.load("artiway.identity.access")


class PostgresAccess:
    def __init__(self, database: Database) -> None:
        self._database = database

    def session_access(self, tenant_id: UUID, session_id: UUID) -> dict[str, Any] | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            return _plain(tx.one(SQL["session_access"], {"session_id": session_id}))

    def key_access(self, tenant_id: UUID, key_id: UUID) -> dict[str, Any] | None:
        with self._database.tenant_transaction(tenant_id) as tx:
            return _plain(tx.one(SQL["key_access"], {"key_id": key_id}))


class SpentNonces:
    """The unique key in PostgreSQL decides. Redis only refuses most repetitions earlier."""

    def __init__(self, database: Database, redis: Redis, clock: Clock) -> None:
        self._database, self._redis, self._clock = database, redis, clock

    def spend(self, tenant_id: UUID, key_id: UUID, nonce: str, *, for_: timedelta) -> bool:
        name = redis_keys.nonce(key_id, nonce)
        try:
            with translated():
                if not self._redis.set(name, "1", nx=True, px=for_):
                    return False
        except RedisAway:
            pass
        now = self._clock.now()
        facts = {"key_id": key_id, "nonce": nonce, "expires_at": now + for_, "now": now}
        with self._database.tenant_transaction(tenant_id) as tx:
            tx.run(SQL["forget_nonces"], facts)
            return tx.run(SQL["spend_nonce"], facts) == 1


def _plain(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    limits = [row.pop(name) for name in ("key_permissions", "parent_permissions") if name in row]
    permissions = effective_permissions(row["permissions"], *limits)
    return row | {"user_id": row["user_id"].hex, "permissions": sorted(permissions)}
