"""The services as handlers get them: from the environment alone."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest

from artiway import bootstrap
from artiway.audit.model import AuditFilter
from artiway.platform.database import Database

TENANT, USER = UUID(int=1), UUID(int=7)


@pytest.fixture
def environment(monkeypatch, addresses, valkey, valkey_url):
    """What a function's environment holds, and a bootstrap that has not looked yet."""
    monkeypatch.setenv("ARTIWAY_DATABASE_URL", addresses.app)
    monkeypatch.setenv("ARTIWAY_SERVICE_DATABASE_URL", addresses.service)
    monkeypatch.setenv("ARTIWAY_REDIS_URL", valkey_url)
    forget()
    yield
    for database in (bootstrap.database(), bootstrap.service_database()):
        database.close()
    bootstrap.redis().close()
    forget()


def forget() -> None:
    bootstrap.forget_all()


def test_every_service_works_from_environment_alone(environment):
    assert bootstrap.cache().get("k", lambda: {"a": 1}, ttl_s=60) == {"a": 1}
    with bootstrap.locks().hold("x", ttl_s=10) as lock:
        assert lock.fence == 1
    assert bootstrap.rate_limiter().take([("k", 1, 5)]).remaining == 4
    bootstrap.live_settings().put("geo.sources", [], actor_id=None)
    assert bootstrap.geo().locate("8.8.8.8") == "unknown"

    def perform() -> tuple[int, str]:
        with bootstrap.database().tenant_transaction(TENANT) as tx:
            bootstrap.audit().record(tx, actor_id=None, action="a", target="t")
        return 200, "done"

    for _ in range(2):
        answer = bootstrap.idempotency().run(tenant_id=TENANT, user_id=USER, key="k", request_hash="h", perform=perform)
        assert answer == (200, "done")
    with bootstrap.database().tenant_transaction(TENANT) as tx:
        assert len(bootstrap.audit().find(tx, AuditFilter()).items) == 1


def test_expired_rows_of_all_tenants_are_purged(environment, addresses, database: Database):
    for tenant_id in (UUID(int=1), UUID(int=2)):
        with database.tenant_transaction(tenant_id) as tx:
            bootstrap.audit().record(tx, actor_id=None, action="a", target="t")
        bootstrap.idempotency().run(
            tenant_id=tenant_id, user_id=USER, key="k", request_hash="h", perform=lambda: (200, "")
        )
    assert set(bootstrap.purge().purge().values()) == {0}
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("UPDATE idempotency_key SET created_at = now() - interval '25 hours'")
        connection.execute("UPDATE audit_log SET at = now() - interval '181 days'")
    purged = bootstrap.purge().purge()
    assert (purged["idempotency_keys"], purged["audit_entries"]) == (2, 2)
