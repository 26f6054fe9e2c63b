from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from artiway.errors import Refused
from artiway.idempotency.model import InProgress, KeyInvalid, KeyReused
from artiway.idempotency.repository import PostgresKeys
from artiway.idempotency.service import IdempotencyService
from artiway.outbox.model import Message
from artiway.outbox.repository import Outbox
from artiway.platform.database import Database, DatabaseAway
from tests.integration.retention.passes import purge

TENANT, OTHER = UUID(int=1), UUID(int=2)
USER, COLLEAGUE = UUID(int=3), UUID(int=4)


class Effect:
    """A business act: one row in the outbox, in the transaction that is open."""

    def __init__(self, database: Database, tenant_id: UUID = TENANT) -> None:
        self._database, self._tenant_id = database, tenant_id
        self._outbox = Outbox(lambda *_: None)
        self.runs = 0

    def __call__(self) -> tuple[int, str]:
        self.runs += 1
        with self._database.tenant_transaction(self._tenant_id) as tx:
            self._outbox.publish(tx, [Message("queue", "act", "acted")])
        return 201, f'{{"run":{self.runs}}}'


@pytest.fixture
def once(database: Database) -> IdempotencyService:
    return IdempotencyService(PostgresKeys(database))


@pytest.fixture
def effect(database: Database) -> Effect:
    return Effect(database)


def run(once, perform, key="k1", request_hash="h1", tenant_id=TENANT, user_id=USER) -> tuple[int, str]:
    return once.run(tenant_id=tenant_id, user_id=user_id, key=key, request_hash=request_hash, perform=perform)


def effects(addresses) -> int:
    with psycopg.connect(addresses.superuser) as connection:
        (count,) = connection.execute("SELECT count(*) FROM outbox").fetchone()
        return count


def age_keys(addresses, age: timedelta) -> None:
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("UPDATE idempotency_key SET created_at = now() - %s", [age])


def test_repeated_request_gets_first_answer_and_acts_once(once, effect, addresses):
    answers = [run(once, effect) for _ in range(3)]
    assert answers == [(201, '{"run":1}')] * 3
    assert (effect.runs, effects(addresses)) == (1, 1)


def test_another_request_under_same_key_is_refused(once, effect):
    run(once, effect)
    with pytest.raises(KeyReused) as refused:
        run(once, effect, request_hash="h2")
    assert (refused.value.code, effect.runs) == ("IDEM_422_KEY_REUSED", 1)


def test_second_request_conflicts_while_the_first_runs(once, addresses, effect):
    with closing(Database(addresses.app)) as elsewhere:
        second = IdempotencyService(PostgresKeys(elsewhere))

        def perform() -> tuple[int, str]:
            with pytest.raises(InProgress) as running:
                run(second, Effect(elsewhere))
            assert running.value.code == "IDEM_409_IN_PROGRESS"
            return effect()

        run(once, perform)
        assert run(second, Effect(elsewhere)) == (201, '{"run":1}')
    assert effects(addresses) == 1


def test_one_key_in_two_tenants_is_two_keys(once, database, addresses):
    assert run(once, Effect(database)) == (201, '{"run":1}')
    theirs = Effect(database, OTHER)
    assert run(once, theirs, tenant_id=OTHER, request_hash="h2") == (201, '{"run":1}')
    assert (theirs.runs, effects(addresses)) == (1, 2)


def test_one_key_of_two_users_is_two_keys(once, effect, addresses):
    assert run(once, effect) == (201, '{"run":1}')
    assert run(once, effect, user_id=COLLEAGUE, request_hash="h2") == (201, '{"run":2}')
    assert run(once, effect) == (201, '{"run":1}')
    assert effects(addresses) == 2


def test_colleague_is_not_stopped_by_running_request(once, addresses, effect):
    with closing(Database(addresses.app)) as elsewhere:
        second = IdempotencyService(PostgresKeys(elsewhere))

        def perform() -> tuple[int, str]:
            assert run(second, Effect(elsewhere), user_id=COLLEAGUE, request_hash="h2")[0] == 201
            return effect()

        run(once, perform)
    assert effects(addresses) == 2


def test_answer_of_release_before_is_found(once, effect, addresses):
    """It stored the key without its user."""
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute(
            "INSERT INTO idempotency_key (tenant_id, idempotency_key, request_hash, status, body)"
            " VALUES (%s, 'k1', 'h1', 201, 'before')",
            [TENANT],
        )
    assert run(once, effect) == (201, "before")
    assert run(once, effect, user_id=COLLEAGUE, request_hash="h2") == (201, '{"run":1}')


def test_failure_undoes_effect_and_frees_key(once, effect, addresses):
    def fail() -> tuple[int, str]:
        effect()
        raise Refused("not like this")

    with pytest.raises(Refused):
        run(once, fail)
    assert effects(addresses) == 0
    assert run(once, effect, request_hash="another") == (201, '{"run":2}')


def test_lost_connection_leaves_neither_effect_nor_key(once, database, effect, addresses):
    def die() -> tuple[int, str]:
        answer = effect()
        with database.tenant_transaction(TENANT) as tx:
            pid = tx.one(b"SELECT pg_backend_pid() AS pid")["pid"]
        with psycopg.connect(addresses.superuser, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        return answer

    with pytest.raises(DatabaseAway):
        run(once, die)
    assert effects(addresses) == 0
    assert run(once, effect)[0] == 201
    assert effects(addresses) == 1


def test_of_twenty_concurrent_requests_one_runs(addresses):
    outcomes: list[object] = []
    together = threading.Barrier(20)

    def send() -> None:
        with closing(Database(addresses.app)) as database:
            once, effect = IdempotencyService(PostgresKeys(database)), Effect(database)
            with database.tenant_transaction(TENANT):
                pass  # connected before the race
            together.wait()
            try:
                outcomes.append(run(once, effect))
            except InProgress:
                outcomes.append("in progress")

    threads = [threading.Thread(target=send) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {(201, '{"run":1}'), "in progress"}
    assert (201, '{"run":1}') in outcomes
    assert effects(addresses) == 1


def test_key_expires_after_a_day(once, effect, addresses):
    run(once, effect)
    age_keys(addresses, timedelta(hours=23, minutes=59))
    run(once, effect)
    assert effect.runs == 1
    age_keys(addresses, timedelta(hours=24, minutes=1))
    assert run(once, effect, request_hash="h2") == (201, '{"run":2}')
    assert run(once, effect, request_hash="h2") == (201, '{"run":2}')


def test_expired_keys_are_purged_in_batches(once, effect, service_database, addresses):
    for number in range(5):
        run(once, effect, key=f"old{number}")
    age_keys(addresses, timedelta(hours=25))
    run(once, effect, key="young")

    def purged(batches: int) -> int:
        return purge(service_database, "idempotency_keys", batch=2, batches=batches)["idempotency_keys"]

    assert [purged(1), purged(3), purged(3)] == [2, 3, 0]
    assert run(once, effect, key="young") == (201, '{"run":6}')


@pytest.mark.parametrize("key", ["", "x" * 201, "a\0b", "line\nbreak", "schlüssel", "\ud800"])
def test_key_that_is_no_header_word_is_refused(once, effect, key):
    with pytest.raises(KeyInvalid) as refused:
        run(once, effect, key=key)
    assert (refused.value.status, effect.runs) == (422, 0)


def test_keys_need_a_tenant_transaction(once, effect, database):
    run(once, effect)
    with database.service_transaction() as tx:
        assert tx.all(b"SELECT * FROM idempotency_key") == []
    with pytest.raises(psycopg.Error), database.service_transaction() as tx:
        tx.run(
            b"INSERT INTO idempotency_key (tenant_id, idempotency_key, request_hash, status, body)"
            b" VALUES (gen_random_uuid(), 'k', 'h', 200, '')"
        )
