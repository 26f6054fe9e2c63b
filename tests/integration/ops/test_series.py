"""Series and metrics through the handler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from artiway import bootstrap
from artiway.ids import to_wire
from artiway.series.model import SERIES
from tests.fakes.clock import FixedClock
from tests.integration.payments.environment import http_event, load_function

TENANT, USER = UUID(int=1), UUID(int=3)
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
Call = Callable[..., Any]


@pytest.fixture
def answer(monkeypatch, addresses, valkey, valkey_url) -> Iterator[Call]:
    """GET as an operator at 12:10; the minutes up to 12:05 are closed."""
    monkeypatch.setenv("ARTIWAY_DATABASE_URL", addresses.app)
    monkeypatch.setenv("ARTIWAY_SERVICE_DATABASE_URL", addresses.service)
    monkeypatch.setenv("ARTIWAY_REDIS_URL", valkey_url)
    bootstrap.forget_all()
    bootstrap.clock.supply(FixedClock(NOON + timedelta(minutes=10)))
    module = load_function("ops")

    def ask(target: str, *, may: str = "ops.read") -> Any:
        identity = json.dumps({"tenantId": str(TENANT), "userId": str(USER), "permissions": may})
        event = http_event("GET", f"/api/v1{target}", {"x-identity": identity}, b"", set(module.api.rules))
        return module.handler(event, None)

    with psycopg.connect(addresses.superuser) as connection:
        connection.execute("INSERT INTO series_pass (closed_until) VALUES (%s)", [NOON + timedelta(minutes=5)])
        for minute in range(5):
            for name, labels, value, weight, buckets in (
                ("throughput", {"pool": "gpu", "lane": "vip_short"}, 10 + minute, None, None),
                ("utilisation", {"pool": "gpu"}, 30, 60 * (minute + 1), None),
                ("wait", {"pool": "gpu", "lane": "vip_short"}, 6, 3, {"0": 2, "20": 1}),
                ("share", {"pool": "gpu", "tenantId": str(TENANT)}, 30, None, None),
                ("share", {"pool": "gpu", "tenantId": "other"}, 10, None, None),
            ):
                connection.execute(
                    "INSERT INTO series_minute VALUES (%s, %s, %s, %s, %s, %s)",
                    [
                        name,
                        NOON + timedelta(minutes=minute),
                        json.dumps(labels),
                        value,
                        weight,
                        None if buckets is None else json.dumps(buckets),
                    ],
                )
    yield ask
    for database in (bootstrap.database(), bootstrap.service_database()):
        database.close()
    bootstrap.redis().close()
    bootstrap.forget_all()


def points(answer: Call, query: str) -> Any:
    found = answer(f"/ops/series?{query}")
    assert found["statusCode"] == 200, found["body"]
    return json.loads(found["body"])


def test_points_have_time_value_and_labels(answer: Call):
    found = points(answer, "name=throughput")
    assert (found["unit"], found["merge"], found["stepSeconds"], found["isMeasured"]) == ("nodes", "sum", 60, True)
    assert found["points"][0] == {"at": "2026-03-02T12:00:00Z", "value": 10, "pool": "gpu", "lane": "vip_short"}
    assert [point["value"] for point in found["points"]] == [10, 11, 12, 13, 14]


def test_range_and_step_choose_the_points(answer: Call):
    found = points(answer, "name=throughput&from=2026-03-02T12:01:00Z&to=2026-03-02T12:04:00Z&step=120")
    assert [(point["at"], point["value"]) for point in found["points"]] == [
        ("2026-03-02T12:00:00Z", 21),
        ("2026-03-02T12:02:00Z", 25),
    ]
    (ratio,) = points(answer, "name=utilisation&step=3600")["points"]
    assert ratio["value"] == pytest.approx(150 / 900)


def test_tenants_have_their_wire_ids(answer: Call):
    (first, second) = points(answer, "name=share&step=3600")["points"]
    assert {first["tenantId"]: first["value"], second["tenantId"]: second["value"]} == {
        to_wire("tnt", TENANT): 0.75,
        "other": 0.25,
    }


def test_series_without_source_has_no_points(answer: Call, monkeypatch):
    monkeypatch.setitem(SERIES, "throughput", replace(SERIES["throughput"], is_measured=False))
    found = points(answer, "name=throughput")
    assert (found["points"], found["isMeasured"]) == ([], False)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "name"),
        ("name=nothing", "name"),
        ("name=waiting&step=59", "step"),
        ("name=waiting&step=90", "step"),
        ("name=waiting&step=86401", "step"),
        ("name=waiting&from=2026-03-02T12:00:00", "from"),
        ("name=waiting&from=2026-03-03T12:00:00Z", "from"),
        ("name=waiting&from=2026-03-01T00:00:00Z&step=60", "step"),
        ("name=waiting&from=1926-03-01T00:00:00Z", "from"),
    ],
)
def test_wrong_query_names_its_field(answer: Call, query: str, field: str):
    found = answer(f"/ops/series?{query}")
    body = json.loads(found["body"])
    assert (found["statusCode"], body["code"]) == (422, "REQUEST_422_INVALID")
    assert body["details"]["fields"][0]["field"] == field


def test_series_need_the_operators_permission(answer: Call):
    for target in ("/ops/series?name=waiting", "/ops/metrics"):
        assert answer(target, may="task.read")["statusCode"] == 403


def test_metrics_page_shows_the_newest_minute(answer: Call):
    found = answer("/ops/metrics")
    assert found["statusCode"] == 200
    media = found["headers"].get("content-type") or found["headers"]["Content-Type"]
    assert media == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {family.name: family.samples for family in text_string_to_metric_families(found["body"])}
    assert families.keys() == {"artiway_series_closed_seconds"} | {
        f"artiway_{one.name}" + ("_seconds" if one.unit == "seconds" else "")
        for one in SERIES.values()
        if one.is_measured
    }
    (completed,) = families["artiway_throughput"]
    assert (completed.labels, completed.value) == ({"pool": "gpu", "lane": "vip_short"}, 14)
    (closed,) = families["artiway_series_closed_seconds"]
    assert closed.value == (NOON + timedelta(minutes=5)).timestamp()
    (wait,) = families["artiway_wait_p50_seconds"]
    assert wait.value == pytest.approx(1, rel=0.025)


def test_new_system_has_an_empty_page(answer: Call, addresses):
    with psycopg.connect(addresses.superuser, autocommit=True) as connection:
        connection.execute("DELETE FROM series_minute")
    samples = [
        sample for family in text_string_to_metric_families(answer("/ops/metrics")["body"]) for sample in family.samples
    ]
    assert [sample.name for sample in samples] == ["artiway_series_closed_seconds"]
