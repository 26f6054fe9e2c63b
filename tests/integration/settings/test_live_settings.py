"""Live settings over a real PostgreSQL and a real Redis, in several processes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import psycopg
import pytest
from redis import Redis

from artiway.audit.model import AuditFilter
from artiway.audit.repository import AuditLog
from artiway.identity.tenants.settings import TIER_LIMITS
from artiway.platform import redis as platform_redis
from artiway.platform.cache import Cache
from artiway.platform.database import Database
from artiway.settings import registry
from artiway.settings.model import NoSuchSetting, Setting, SettingInvalid
from artiway.settings.repository import PostgresSettingReader, PostgresSettings
from artiway.settings.service import CACHE_KEY, CURRENT_S, REST_S, LiveValues, SettingsService
from artiway.tasks.settings import TOOL_PRICES
from local.servers import free_port
from tests.integration.common.conftest import Time, awaited

PRICE = TOOL_PRICES["cutout"]
OPERATOR = UUID(int=9)
READERS = 100


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def client(valkey: Redis, valkey_url: str) -> Iterator[Redis]:
    with contextlib.closing(platform_redis.connect(valkey_url, timeout_s=20)) as client:
        yield client


@pytest.fixture
def process(addresses, client, time) -> Iterator[Callable[[], LiveValues]]:
    """What another process reads settings with: a connection and a cache of its own."""
    opened: list[Database] = []

    def make() -> LiveValues:
        opened.append(Database(addresses.app))
        return LiveValues(PostgresSettingReader(opened[-1]), Cache(client, now=time), now=time)

    yield make
    for database in opened:
        database.close()


@pytest.fixture
def service(service_database, client, time) -> SettingsService:
    store, cache = PostgresSettings(service_database, AuditLog()), Cache(client, now=time)
    return SettingsService(registry.settings, store, cache, LiveValues(store, cache, now=time))


def entries(database: Database) -> list[tuple[str, str, object]]:
    with database.service_transaction() as tx:
        found = AuditLog().find(tx, AuditFilter(target=PRICE.key)).items
    return [(entry.action, str(entry.actor_id), dict(entry.details)) for entry in reversed(found)]


def test_change_is_stored_audited_and_restored(service, service_database):
    assert service.put(PRICE.key, 3, actor_id=OPERATOR).value == 3
    assert service.put(PRICE.key, 4, actor_id=OPERATOR).value == 4
    states = {state.setting.key: state for state in service.states()}
    override = states[PRICE.key].override
    assert (states[PRICE.key].value, override.value, override.updated_by) == (4, 4, OPERATOR)
    restored = service.restore(PRICE.key, actor_id=OPERATOR)
    assert (restored.value, restored.override) == (PRICE.default, None)
    service.restore(PRICE.key, actor_id=OPERATOR)  # changes nothing, so it leaves no entry
    assert entries(service_database) == [
        ("setting.changed", str(OPERATOR), {"before": None, "after": 3}),
        ("setting.changed", str(OPERATOR), {"before": 3, "after": 4}),
        ("setting.restored", str(OPERATOR), {"before": 4}),
    ]


def test_refused_changes_leave_no_trace(service, service_database):
    for value in (0, 10_001, "3", True, None, 2.5):
        with pytest.raises(SettingInvalid):
            service.put(PRICE.key, value, actor_id=OPERATOR)
    for act in (lambda: service.put("no.such", 1, actor_id=None), lambda: service.restore("no.such", actor_id=None)):
        with pytest.raises(NoSuchSetting):
            act()
    assert entries(service_database) == []
    assert all(state.override is None for state in service.states())


def test_concurrent_changes_are_audited_in_order(addresses, client, time, service_database):
    def put(value: int) -> None:
        with contextlib.closing(Database(addresses.service)) as database:
            PostgresSettings(database, AuditLog()).put(PRICE.key, value, actor_id=None)

    threads = [threading.Thread(target=put, args=(value,)) for value in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = [(details["before"], details["after"]) for _, _, details in entries(service_database)]
    assert sorted(after for _, after in steps) == list(range(1, 9))
    befores = {before for before, _ in steps}
    assert len(befores) == 8  # each change saw the one before it


def test_other_process_sees_change_after_snapshot(service, process, time):
    other = process()
    assert other.get(PRICE) == PRICE.default
    service.put(PRICE.key, 3, actor_id=None)
    assert other.get(PRICE) == PRICE.default  # it asks again after a second
    time.advance(2)
    assert other.get(PRICE) == 3
    service.restore(PRICE.key, actor_id=None)
    time.advance(2)
    assert other.get(PRICE) == PRICE.default


def test_change_reaches_separate_process_within_minute(service, valkey, valkey_url, addresses, time):
    """The invalidation is lost, as if Redis was away; the other process follows its clock alone."""
    arguments = ["follow", valkey_url, addresses.app]
    child = subprocess.Popen([sys.executable, "-m", "tests.integration.settings.child", *arguments])

    def read() -> int:
        valkey.rpush("test:ask", f"{time.seconds} {PRICE.key}")
        return int(awaited(valkey, "test:answer"))

    try:
        assert read() == PRICE.default
        with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.5)) as away:
            service._cache = Cache(away, now=time)
            service.put(PRICE.key, 3, actor_id=None)
        seen_after_s = 0
        while read() != 3:
            seen_after_s += 5
            time.advance(5)
            assert seen_after_s <= 60
        assert 5 < seen_after_s <= CURRENT_S + 5
    finally:
        valkey.rpush("test:ask", "")
        assert child.wait(60) == 0


def test_override_survives_flush_of_redis(service, process, valkey, time):
    service.put(PRICE.key, 3, actor_id=None)
    other = process()
    assert other.get(PRICE) == 3
    valkey.flushall()
    time.advance(2)
    assert (other.get(PRICE), process().get(PRICE)) == (3, 3)
    assert 0 < valkey.pttl(f"cache:value:{CACHE_KEY}") <= 3_900_000


def test_copy_serves_for_hour_without_postgres(service, process, addresses, client, time):
    service.put(PRICE.key, 3, actor_id=None)
    assert process().get(PRICE) == 3
    away = PostgresSettingReader(Database(addresses.app.replace("dbname=", "dbname=none")))
    values = LiveValues(away, Cache(client, now=time), now=time)
    for _ in range(5):
        time.advance(600)
        assert values.get(PRICE) == 3


def test_last_known_value_stays_without_both(addresses, time):
    with contextlib.closing(platform_redis.connect(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.5)) as away:
        calls: list[int] = []

        class Store:
            is_away = False

            def overrides(self):
                calls.append(1)
                if self.is_away:
                    raise RuntimeError("away")
                return PostgresSettingReader(database).overrides()

        with contextlib.closing(Database(addresses.service)) as database:
            PostgresSettings(database, AuditLog()).put(PRICE.key, 3, actor_id=None)
            store = Store()
            values = LiveValues(store, Cache(away, now=time), now=time)
            assert values.get(PRICE) == 3
            store.is_away = True
            for _ in range(10):
                time.advance(2)
                assert values.get(PRICE) == 3
            assert len(calls) < 1 + 2 * 10 * 2 / REST_S  # a failure is not repeated by every read
            assert LiveValues(store, Cache(away, now=time), now=time).get(PRICE) == PRICE.default


def test_override_beyond_new_bounds_is_reported(service, addresses, process):
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        connection.execute("INSERT INTO live_setting (key, value) VALUES (%s, '99999'), ('gone', '1')", (PRICE.key,))
    state = next(state for state in service.states() if state.setting is PRICE)
    assert (state.value, state.override.value, state.fault) == (PRICE.default, 99_999, "is more than 10000")
    assert process().get(PRICE) == PRICE.default
    assert service.put(PRICE.key, 5, actor_id=None).fault is None


def test_setting_is_readable_inside_tenant_transaction(service, addresses, client, time):
    service.put(PRICE.key, 3, actor_id=None)
    with contextlib.closing(Database(addresses.app)) as database:
        values = LiveValues(PostgresSettingReader(database), Cache(client, now=time), now=time)
        with database.tenant_transaction(uuid4()) as tx:
            assert values.get(PRICE) == 3
            assert tx.one(b"SELECT 1 AS one") == {"one": 1}


def test_application_role_cannot_change_settings(database):
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.service_transaction() as tx:
        tx.run(b"INSERT INTO live_setting (key, value) VALUES ('price.cutout', '1')")


class TestTiers:
    LIMITS = "SELECT tier, weight, concurrency, queue_depth, rate_per_second, burst, artefact_days FROM tier_default"

    def rows(self, addresses) -> dict[str, int]:
        with psycopg.connect(addresses.superuser, row_factory=psycopg.rows.dict_row) as connection:
            found = connection.execute(self.LIMITS).fetchall()
        return {f"{row['tier']}.{name}": value for row in found for name, value in row.items() if name != "tier"}

    def test_defaults_of_view_and_settings_agree(self, addresses):
        assert self.rows(addresses) == {name: setting.default for name, setting in TIER_LIMITS.items()}

    def test_bounds_of_view_and_settings_agree(self, addresses, service):
        def put(values: Callable[[Setting[int]], float]) -> None:
            with psycopg.connect(addresses.superuser, autocommit=True) as connection:
                for setting in TIER_LIMITS.values():
                    connection.execute(
                        "INSERT INTO live_setting (key, value) VALUES (%s, to_jsonb(%s::numeric)) "
                        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                        (setting.key, values(setting)),
                    )

        for values in (lambda setting: setting.minimum, lambda setting: setting.maximum):
            put(values)
            assert self.rows(addresses) == {name: values(setting) for name, setting in TIER_LIMITS.items()}
        defaults = {name: setting.default for name, setting in TIER_LIMITS.items()}
        beyond = (lambda s: s.minimum - 1, lambda s: s.maximum + 1, lambda s: s.minimum + 0.5)
        for values in beyond:
            put(values)
            assert self.rows(addresses) == defaults

    def test_limit_of_tier_acts_on_its_tenants(self, addresses, service):
        service.put("tier.vip.rate_per_second", 77, actor_id=None)
        with psycopg.connect(addresses.superuser, autocommit=True) as connection:
            for name, own in (("a", None), ("b", 5)):
                connection.execute(
                    "INSERT INTO tenant (tenant_id, name, tier, rate_per_second) VALUES (%s, %s, 'vip', %s)",
                    (uuid4(), name, own),
                )
            query = "SELECT name, policy.rate_per_second FROM tenant JOIN tenant_policy AS policy USING (tenant_id)"
            assert dict(connection.execute(query).fetchall()) == {"a": 77, "b": 5}


def test_hundred_cold_readers_load_dictionary_once(valkey, valkey_url):
    arguments = ["read", valkey_url, str(READERS // 4), str(READERS)]
    command = [sys.executable, "-m", "tests.integration.settings.child", *arguments]
    children = [subprocess.Popen(command) for _ in range(4)]
    assert [child.wait(100) for child in children] == [0] * 4
    assert valkey.get("test:loads") == "1"
    assert valkey.lrange("test:answers", 0, -1) == ["虚拟模特图"] * READERS
