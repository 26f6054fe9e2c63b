"""The limits of a request's waits for PostgreSQL."""

from __future__ import annotations

import math

from artiway.platform import http, waits
from tools.openapi import apis

SLOW = {
    "GET /api/v1/ops/audit",
    "GET /api/v1/ops/fairness",
    "GET /api/v1/ops/invariants",
    "GET /api/v1/ops/margins",
    "GET /api/v1/ops/reconciliations/{day}",
    "GET /api/v1/ops/runs",
    "GET /api/v1/ops/series",
    "GET /api/v1/ops/tasks",
    "GET /api/v1/ops/tasks/{any_task_id}",
    "GET /api/v1/usage",
    "POST /api/v1/ops/simulate",
}


def test_quick_route_ignores_long_limits_of_function():
    with waits.counted(is_bounded=True, most_s=http.QUICK_S):
        waited = waits.current()
        assert waited.remaining_s(20, request_s=22) == http.QUICK_S
        waited.total_s = 2
        assert waited.remaining_s(20, request_s=22) == http.QUICK_S - 2


def test_slow_route_has_the_limits_of_function():
    with waits.counted(is_bounded=True, most_s=math.inf):
        assert waits.current().remaining_s(20, request_s=22) == 20


def test_silent_server_is_waited_for_once():
    with waits.counted(is_bounded=False):
        waits.current().is_server_silent = True
        assert waits.current().remaining_s(8, request_s=60) == 0


def test_only_reports_of_operations_are_slow():
    rules = {route: rule for api in apis().values() for route, rule in api.rules.items()}
    assert {route for route, rule in rules.items() if rule.is_slow} == SLOW
