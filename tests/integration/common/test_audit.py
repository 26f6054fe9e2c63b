from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from artiway.audit.model import AuditFilter, CursorInvalid
from artiway.audit.repository import AuditLog
from artiway.platform import tracing
from artiway.platform.database import Database
from tests.integration.retention.passes import purge

TENANT, OTHER, ACTOR = UUID(int=1), UUID(int=2), UUID(int=3)
EVERYTHING = AuditFilter()
audit = AuditLog()


def record(database: Database, tenant_id: UUID = TENANT, **facts) -> None:
    with database.tenant_transaction(tenant_id) as tx:
        audit.record(tx, **{"actor_id": ACTOR, "action": "user.disable", "target": "usr_1", **facts})


def find(database: Database, wanted: AuditFilter = EVERYTHING, tenant_id: UUID = TENANT, **options):
    with database.tenant_transaction(tenant_id) as tx:
        return audit.find(tx, wanted, **options)


def backdate(addresses, days: float, target: str = "%") -> None:
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("UPDATE audit_log SET at = now() - %s WHERE target LIKE %s", [timedelta(days=days), target])


def test_entry_has_actor_action_target_and_time(database):
    with tracing.traced("1-01234567-0123456789abcdef01234567"):
        record(database, details={"role": "viewer", "before": ["owner"]})
    (entry,) = find(database).items
    assert (entry.tenant_id, entry.actor_id, entry.action, entry.target) == (TENANT, ACTOR, "user.disable", "usr_1")
    assert entry.details == {"role": "viewer", "before": ["owner"]}
    assert entry.trace_id == "1-01234567-0123456789abcdef01234567"
    assert abs(datetime.now(UTC) - entry.at) < timedelta(minutes=5)


def test_entry_vanishes_with_act_that_failed(database):
    with pytest.raises(ZeroDivisionError), database.tenant_transaction(TENANT) as tx:
        audit.record(tx, actor_id=ACTOR, action="a", target="t")
        raise ZeroDivisionError
    assert find(database).items == []


def test_tenant_sees_own_entries_and_platform_all(database, service_database):
    record(database)
    record(database, OTHER)
    with service_database.service_transaction() as tx:
        audit.record(tx, actor_id=None, action="tenant.create", target="tnt_2", tenant_id=OTHER)
        audit.record(tx, actor_id=None, action="lane.pause", target="lane")
        assert len(audit.find(tx, EVERYTHING).items) == 4
    assert len(find(database).items) == 1
    assert [entry.action for entry in find(database, tenant_id=OTHER).items] == ["tenant.create", "user.disable"]
    with database.service_transaction() as tx:
        assert audit.find(tx, EVERYTHING).items == []


def test_entry_for_another_tenant_is_refused(database):
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.tenant_transaction(TENANT) as tx:
        tx.run(
            b"INSERT INTO audit_log (audit_id, tenant_id, action, target)"
            b" VALUES (gen_random_uuid(), %(tenant)s, 'a', 't')",
            {"tenant": OTHER},
        )


@pytest.mark.parametrize(
    "statement", [b"UPDATE audit_log SET action = 'x'", b"DELETE FROM audit_log", b"TRUNCATE audit_log"]
)
def test_application_cannot_change_entries(database, statement):
    record(database)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.tenant_transaction(TENANT) as tx:
        tx.run(statement)


@pytest.mark.parametrize("statement", [b"UPDATE audit_log SET action = 'x'", b"TRUNCATE audit_log"])
def test_nor_can_platform(service_database, statement):
    with pytest.raises(psycopg.errors.InsufficientPrivilege), service_database.service_transaction() as tx:
        tx.run(statement)


def test_only_entries_older_than_180_days_are_deletable(database, service_database, addresses):
    for target in ("old1", "old2", "old3", "young"):
        record(database, target=target)
    backdate(addresses, 180.01, "old%")
    backdate(addresses, 179.99, "young")

    def purged() -> int:
        return purge(service_database, "audit_entries", batch=2, batches=1)["audit_entries"]

    assert [purged(), purged(), purged()] == [2, 1, 0]
    with service_database.service_transaction() as tx:
        assert tx.run(b"DELETE FROM audit_log") == 0
    assert [entry.target for entry in find(database).items] == ["young"]


def test_filters_narrow_list(database, addresses):
    record(database, target="usr_1", action="user.disable")
    record(database, target="usr_2", action="user.disable", actor_id=UUID(int=9))
    record(database, target="usr_1", action="user.enable")
    record(database, target="old", action="user.enable")
    backdate(addresses, 10, "old")

    def targets(**wanted) -> list[str]:
        return [entry.target for entry in find(database, AuditFilter(**wanted)).items]

    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert targets(actor_id=UUID(int=9)) == ["usr_2"]
    assert targets(action="user.enable") == ["usr_1", "old"]
    assert targets(target="usr_1", action="user.disable") == ["usr_1"]
    assert targets(start=yesterday) == ["usr_1", "usr_2", "usr_1"]
    assert targets(end=yesterday) == ["old"]
    assert targets(start=yesterday, end=yesterday) == []


def test_pages_have_no_gap_while_entries_arrive(database, addresses):
    for number in range(7):
        record(database, target=f"t{number}")
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("UPDATE audit_log SET at = now()")  # all at one moment: the id decides
    seen, cursor = [], None
    while True:
        page = find(database, cursor=cursor, limit=3)
        seen += [entry.target for entry in page.items]
        record(database, target="late")
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == [f"t{number}" for number in range(7)]


def test_page_holds_hundred_at_most(database):
    with database.tenant_transaction(TENANT) as tx:
        for _ in range(101):
            audit.record(tx, actor_id=ACTOR, action="a", target="t")
        page = audit.find(tx, EVERYTHING, limit=10_000)
    assert len(page.items) == 100
    assert len(find(database, cursor=page.next_cursor).items) == 1


@pytest.mark.parametrize("cursor", ["x", "!", "é", "AAAA", "MjAyNi0wMS0wMSAx", "\0", "A" * 10_000])
def test_cursor_that_is_not_ours_is_refused(database, cursor):
    with pytest.raises(CursorInvalid):
        find(database, cursor=cursor)


def test_secrets_never_reach_log(database):
    record(database, details={"password": "hunter2", "nested": {"apiKey": "ak_0123456789ab_secret"}, "name": "ok"})
    (entry,) = find(database).items
    assert entry.details == {"password": "***", "nested": {"apiKey": "***"}, "name": "ok"}


@pytest.mark.parametrize(
    "details",
    [
        {"nul": "a\0b", "k\0ey": 1},
        {"surrogate": "\ud800"},
        {"nan": float("nan"), "infinite": float("inf")},
        {"large": "字" * 100_000},
        {"many": ["x" * 100] * 1_000},
        {"when": datetime(2026, 1, 1, tzinfo=UTC), "id": TENANT},
    ],
)
def test_no_change_fails_because_of_its_details(database, details):
    record(database, details=details, target="t" * 1_000 + "\0", action="a" * 1_000)
    (entry,) = find(database).items
    assert len(entry.target) == 200
    assert entry.details
