"""What operators read, through the handler, over a real PostgreSQL and a real Redis."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from artiway import bootstrap
from artiway.ids import to_wire
from tests.integration.payments.environment import http_event, load_function

TENANT, ACTOR, ORDER = UUID(int=1), UUID(int=3), UUID(int=5)
NOW = datetime(2026, 3, 9, 4, tzinfo=UTC)
Call = Callable[..., tuple[int, Any]]


def forget() -> None:
    bootstrap.forget_all()


@pytest.fixture
def call(monkeypatch, addresses, valkey, valkey_url) -> Iterator[Call]:
    """GET as an operator; `may` says otherwise."""
    monkeypatch.setenv("ARTIWAY_DATABASE_URL", addresses.app)
    monkeypatch.setenv("ARTIWAY_SERVICE_DATABASE_URL", addresses.service)
    monkeypatch.setenv("ARTIWAY_REDIS_URL", valkey_url)
    forget()
    module = load_function("ops")

    def ask(target: str, body: Any = None, *, may: str = "ops.read") -> tuple[int, Any]:
        identity = json.dumps({"tenantId": str(TENANT), "userId": str(ACTOR), "permissions": may})
        headers = {"x-identity": identity, "content-type": "application/json"}
        method, text = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
        event = http_event(method, f"/api/v1{target}", headers, text, set(module.api.rules))
        answer = module.handler(event, None)
        return answer["statusCode"], json.loads(answer["body"])

    yield ask
    for database in (bootstrap.database(), bootstrap.service_database(), bootstrap.reader_database()):
        database.close()
    bootstrap.redis().close()
    forget()


@pytest.fixture
def compared(addresses) -> None:
    """Three days, of which the second has two differences, one of them repaired."""
    with psycopg.connect(addresses.superuser) as connection:
        for number in range(1, 4):
            connection.execute(
                "INSERT INTO bill_day (day, status, tries, payments, refunds, total_fen, differences, updated_at)"
                " VALUES (%s, 'DONE', 1, 2, 0, 1980, %s, %s)",
                [date(2026, 3, number), 2 if number == 2 else 0, NOW],
            )
        for kind, order_id, resolution in (("AMOUNT", ORDER, "OPEN"), ("UNPAID_HERE", None, "REPAIRED")):
            connection.execute(
                "INSERT INTO bill_difference (day, kind, reference, tenant_id, order_id, ours_fen, theirs_fen,"
                " resolution, found_at, resolved_at) VALUES ('2026-03-02', %s, 'n1', %s, %s, 990, 991, %s, %s, %s)",
                [kind, order_id and TENANT, order_id, resolution, NOW, None if resolution == "OPEN" else NOW],
            )


def test_bill_days_are_paged_newest_first(call: Call, compared: None):
    status, first = call("/ops/reconciliations?limit=2")
    assert (status, [one["day"] for one in first["items"]]) == (200, ["2026-03-03", "2026-03-02"])
    assert first["items"][1] == {
        "day": "2026-03-02",
        "status": "DONE",
        "tries": 1,
        "payments": 2,
        "refunds": 0,
        "totalFen": 1980,
        "differences": 2,
        "lastError": None,
        "updatedAt": "2026-03-09T04:00:00Z",
    }
    rest = call(f"/ops/reconciliations?limit=2&cursor={first['nextCursor']}")[1]
    assert ([one["day"] for one in rest["items"]], rest["nextCursor"]) == (["2026-03-01"], None)


def test_day_shows_differences_and_their_resolution(call: Call, compared: None):
    status, first = call("/ops/reconciliations/2026-03-02?limit=1")
    assert (status, first["day"], first["differences"]) == (200, "2026-03-02", 2)
    (open_one,) = first["items"]
    assert (open_one["kind"], open_one["resolution"], open_one["resolvedAt"]) == ("AMOUNT", "OPEN", None)
    assert (open_one["tenantId"], open_one["orderId"]) == (to_wire("tnt", TENANT), to_wire("ord", ORDER))
    assert (open_one["oursFen"], open_one["theirsFen"]) == (990, 991)
    (repaired,) = call(f"/ops/reconciliations/2026-03-02?limit=1&cursor={first['nextCursor']}")[1]["items"]
    assert (repaired["kind"], repaired["resolution"], repaired["orderId"]) == ("UNPAID_HERE", "REPAIRED", None)


@pytest.mark.parametrize("day", ["2026-03-04", "2026-02-30", "20260302", "9999-12-31", "yesterday", "0001-01-01"])
def test_day_that_was_not_compared_is_not_there(call: Call, compared: None, day: str):
    status, answer = call(f"/ops/reconciliations/{day}")
    assert (status, answer["code"]) == (404, "REQUEST_404_NOT_FOUND")


def record(action: str, target: str, actor_id: UUID = ACTOR) -> None:
    with bootstrap.database().tenant_transaction(TENANT) as tx:
        bootstrap.audit().record(tx, actor_id=actor_id, action=action, target=target, details={"to": "x"})


def test_audit_log_pages_over_all_tenants(call: Call):
    for number in range(3):
        record("user.invited", f"usr_{number}")
    with bootstrap.service_database().service_transaction() as tx:
        bootstrap.audit().record(tx, actor_id=None, action="lane.changed", target="vip_short")
    status, first = call("/ops/audit?limit=3")
    rest = call(f"/ops/audit?limit=3&cursor={first['nextCursor']}")[1]
    seen = [one["target"] for one in [*first["items"], *rest["items"]]]
    assert (status, seen, rest["nextCursor"]) == (200, ["vip_short", "usr_2", "usr_1", "usr_0"], None)
    newest, last = first["items"][0], rest["items"][0]
    assert (newest["tenantId"], newest["actorId"]) == (None, None)
    assert (last["tenantId"], last["actorId"]) == (to_wire("tnt", TENANT), to_wire("usr", ACTOR))
    assert last["details"] == {"to": "x"}


def test_each_audit_filter_excludes_other_entries(call: Call):
    record("user.invited", "usr_1")
    record("role.added", "painter", actor_id=UUID(int=4))

    def found(query: str) -> list[str]:
        return [one["action"] for one in call(f"/ops/audit?{query}")[1]["items"]]

    hour = timedelta(hours=1)
    before, after = ((datetime.now(UTC) + way).strftime("%Y-%m-%dT%H:%M:%SZ") for way in (-hour, hour))
    assert found(f"actor={to_wire('usr', ACTOR)}") == ["user.invited"]
    assert found("action=role.added") == ["role.added"]
    assert found("target=painter") == ["role.added"]
    assert found(f"from={before}&to={after}") == ["role.added", "user.invited"]
    assert found(f"from={after}") == found(f"to={before}") == found("actor=nobody") == []


@pytest.mark.parametrize("query", ["from=yesterday", "limit=0", "limit=101", "cursor=abc", "from=2026-03-01T00:00:00"])
def test_filter_that_cannot_be_read_is_refused(call: Call, query: str):
    status, answer = call(f"/ops/audit?{query}")
    assert (status, answer["code"]) == (422, "REQUEST_422_INVALID")


def test_healthy_platform_is_normal_with_readings(call: Call):
    status, answer = call("/ops/health")
    assert (status, answer["state"], answer["checks"]) == (200, "NORMAL", {"postgres": "ok", "redis": "ok"})
    readings = {one["name"]: one for one in answer["readings"]}
    assert readings.keys() == {
        "outboxOldest",
        "nodesWaiting",
        "redisMemory",
        "redisConnections",
        "redisBreaker",
        "oldestWaiting",
        "poolsWithoutWorkers",
        "triggerLag",
        "runBacklog",
        "runFailures",
    }
    assert answer["circuits"] == []
    assert readings["outboxOldest"] == {"name": "outboxOldest", "ok": True, "value": 0, "limit": 60, "unit": "s"}
    assert readings["redisConnections"]["value"] >= 1


def test_unsent_message_degrades_the_platform(call: Call, addresses):
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute(
            "INSERT INTO outbox (tenant_id, aggregate, destination, body, delay_s, trace_id, created_at)"
            " VALUES (%s, 'a', 'push', '{}', 0, '', now() - interval '10 minutes')",
            [TENANT],
        )
    answer = call("/ops/health")[1]
    assert answer["state"] == "DEGRADED"
    assert [one["name"] for one in answer["readings"] if not one["ok"]] == ["outboxOldest"]


def test_platform_without_redis_is_degraded_with_readings(call: Call, monkeypatch):
    monkeypatch.setenv("ARTIWAY_REDIS_URL", "redis://127.0.0.1:1/0")
    bootstrap.settings.cache_clear()
    status, answer = call("/ops/health")
    assert (status, answer["state"], answer["checks"]) == (200, "DEGRADED", {"postgres": "ok", "redis": "away"})
    values = {one["name"]: one["value"] for one in answer["readings"]}
    assert (values["outboxOldest"], values["redisMemory"], values["redisConnections"]) == (0, None, None)


def test_stopped_step_degrades_the_platform(call: Call, addresses):
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute(
            "INSERT INTO circuit (pool, step, failures, opened_at, probe_at, last_error)"
            " VALUES ('gpu', 'scene', 5, now(), now() + interval '1 minute', 'ENGINE_FAILED'),"
            " ('gpu', 'style', 5, now() - interval '1 hour', now(), 'TIME_LIMIT'), ('gpu', 'crop', 4, NULL, NULL, '')"
        )
    answer = call("/ops/health")[1]
    assert (answer["state"], all(one["ok"] for one in answer["readings"])) == ("DEGRADED", True)
    found = [(one["pool"], one["step"], one["state"], one["lastError"]) for one in answer["circuits"]]
    assert found == [("gpu", "scene", "OPEN", "ENGINE_FAILED"), ("gpu", "style", "HALF_OPEN", "TIME_LIMIT")]


@pytest.mark.breaks_invariants("a node without a history", "history_is_complete")
def test_waiting_node_without_worker_degrades(call: Call, addresses):
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO task_node (tenant_id, node_id, task_id, user_id, position, name, type, step, model, lane,"
            " pool, params, inputs, cost_us, price_points, is_result, in_degree, status, ready_at)"
            " VALUES (%s, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 0, 'n', 'model', 'scene', '',"
            " 'vip_short', 'gpu', '{}', '[]', 1, 0, true, 0, 'QUEUED', now() - interval '1 hour')",
            [TENANT],
        )
    answer = call("/ops/health")[1]
    readings = {one["name"]: one for one in answer["readings"]}
    assert answer["state"] == "DEGRADED"
    assert 3_600 <= readings["oldestWaiting"]["value"] < 3_700
    assert readings["poolsWithoutWorkers"]["value"] == 1


def test_readings_show_late_and_failing_jobs(call: Call, addresses):
    """A fire that is an hour old, three runs that are due, and of a hundred that ended four failed."""
    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "SELECT job_partition_ensure(day::date) FROM unnest(ARRAY[now(), now() - interval '1 day']) day"
        )
        connection.execute(
            "INSERT INTO job (tenant_id, job_id, user_id, name, schedule_type, expr, tzdata_version, next_fire_at,"
            " task_type, task, priority, max_attempts, base_delay_ms, max_delay_ms, concurrency_limit, overlap_policy,"
            " misfire_policy, catchup_window_s, timeout_s)"
            " VALUES (%s, %s, %s, 'j', 'CRON', '0 * * * *', '2026a', now() - interval '1 hour', 'HTTP', '{}', 'LOW',"
            " 1, 0, 0, 1, 'ALLOW_ALL', 'SKIP', 0, 1)",
            [TENANT, TENANT, TENANT],
        )
        connection.execute(
            "INSERT INTO job_run (tenant_id, run_id, job_id, scheduled_at, assigned_at, due_at, kind, state, task_type,"
            " lane, job_version, ended_at, dead_at)"
            " SELECT %s, gen_random_uuid(), %s, at, at, at, 'SCHEDULED', state, 'HTTP', 'run_low', 1,"
            " CASE WHEN state <> 'PENDING' THEN now() END, CASE WHEN state = 'FAILED' THEN now() END"
            " FROM (SELECT now() - n * interval '1 second' AS at,"
            " CASE WHEN n > 100 THEN 'PENDING' WHEN n > 96 THEN 'FAILED' ELSE 'SUCCESS' END AS state"
            " FROM generate_series(1, 103) AS n) AS runs",
            [TENANT, TENANT],
        )
    answer = call("/ops/health")[1]
    readings = {one["name"]: one for one in answer["readings"]}
    assert answer["state"] == "DEGRADED"
    assert [name for name, one in readings.items() if not one["ok"]] == ["triggerLag", "runFailures"]
    assert 3_600 <= readings["triggerLag"]["value"] < 3_700
    assert (readings["runBacklog"]["value"], readings["runFailures"]["value"]) == (3, 4)


class TestReader:
    @pytest.fixture
    def through_reader(self, call: Call, addresses, monkeypatch) -> Call:
        monkeypatch.setenv("ARTIWAY_READER_HOST", conninfo_to_dict(addresses.service)["host"])
        bootstrap.settings.cache_clear()
        return call

    @pytest.mark.parametrize("path", ["/ops/audit", "/ops/reconciliations", "/ops/health", "/ops/lanes"])
    def test_reads_of_operators_work_read_only(self, through_reader: Call, path: str):
        status, answer = through_reader(path)
        assert (status, answer.get("state", "NORMAL")) == (200, "NORMAL")

    def test_what_if_works_read_only(self, through_reader: Call):
        assert through_reader("/ops/simulate", {"changes": {}, "windowSeconds": 3600}) == (200, {"tenants": []})

    def test_server_refuses_writes_through_reader(self, through_reader: Call):
        reader = bootstrap.reader_database()
        assert reader is not bootstrap.service_database()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), reader.service_transaction() as tx:
            tx.run(b"DELETE FROM circuit")

    def test_without_setting_the_writer_reads(self, call: Call):
        assert call("/ops/health")[1]["checks"].keys() == {"postgres", "redis"}
        assert bootstrap.reader_database() is bootstrap.service_database()

    def test_reader_away_is_named(self, call: Call, monkeypatch):
        monkeypatch.setenv("ARTIWAY_READER_HOST", "127.0.0.2")  # nothing listens there
        bootstrap.settings.cache_clear()
        status, answer = call("/ops/health")
        assert (status, answer["state"], answer["checks"]["postgresReader"]) == (200, "DEGRADED", "away")
        assert answer["circuits"] == []
        assert call("/ops/audit")[0] == 503
        assert call("/ops/lanes")[0] == 200


def test_lists_in_memory_are_paged(call: Call):
    first = call("/ops/lanes?limit=7")[1]
    rest = call(f"/ops/lanes?limit=7&cursor={first['nextCursor']}")[1]
    assert (len(first["items"]), len(rest["items"]), rest["nextCursor"]) == (7, 7, None)
    assert len({one["lane"] for one in [*first["items"], *rest["items"]]}) == 14
    assert call("/ops/lanes?limit=101")[0] == 422


def test_clocks_and_shares_are_comparable_numbers(call: Call):
    (pool, _) = call("/ops/scheduler")[1]["pools"]
    assert (pool["slots"], pool["slotsByType"], pool["running"]) == (0, {}, 0)
    shares = call("/ops/fairness?windowSeconds=3600")[1]
    assert (shares["worst"], shares["worstPair"]) == (0, None)
    assert shares["worst"] <= shares["bound"]


def test_what_if_of_unknown_tenant_is_404(call: Call):
    changes = {"tenants": [{"tenantId": to_wire("tnt", TENANT), "weight": 5}]}
    assert call("/ops/simulate", {"changes": changes})[0] == 404
    assert call("/ops/simulate", {"changes": {}, "windowSeconds": 3600}) == (200, {"tenants": []})


@pytest.mark.parametrize(
    "path", ["/ops/reconciliations", "/ops/reconciliations/2026-03-02", "/ops/audit", "/ops/health"]
)
def test_reports_need_the_operator_permission(call: Call, path: str):
    status, answer = call(path, may="task.read user.manage")
    assert (status, answer["code"]) == (403, "AUTH_403_FORBIDDEN")
