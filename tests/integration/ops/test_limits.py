"""The routes that set and show limits, through their handlers, over a real PostgreSQL and a real Redis."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from artiway import bootstrap
from artiway.generations.model import GuardLimits
from artiway.generations.ports import Decision
from artiway.ids import to_wire
from artiway.jobs.limits import limits_of
from artiway.jobs.repository import PostgresRuns
from artiway.outbox.repository import Outbox
from artiway.settings.model import Defaults
from tests.fakes.nodes import Yard
from tests.integration.payments.environment import http_event, load_function

pytestmark = pytest.mark.breaks_invariants("no task is paid for", "live_tasks_have_holds")
ALL = "ops.read ops.write tenant.manage user.manage"
FUNCTIONS = {"ops": "ops", "tenants": "tenants", "tenant": "users", "users": "users"}
Call = Callable[..., tuple[int, Any]]


@pytest.fixture
def yard(addresses) -> Iterator[Yard]:
    with contextlib.closing(Yard(addresses.superuser)) as yard:
        yield yard


@pytest.fixture
def tenant(yard) -> UUID:
    return yard.tenant("vip")


@pytest.fixture
def user(yard, tenant) -> UUID:
    return yard.user(tenant)


@pytest.fixture
def call(monkeypatch, addresses, valkey, valkey_url, tenant, user) -> Iterator[Call]:
    monkeypatch.setenv("ARTIWAY_DATABASE_URL", addresses.app)
    monkeypatch.setenv("ARTIWAY_SERVICE_DATABASE_URL", addresses.service)
    monkeypatch.setenv("ARTIWAY_REDIS_URL", valkey_url)
    bootstrap.forget_all()
    modules = {name: load_function(name) for name in set(FUNCTIONS.values())}

    def ask(method: str, target: str, body: Any = None, *, may: str = ALL) -> tuple[int, Any]:
        module = modules[FUNCTIONS[target.split("/")[1].partition("?")[0]]]
        identity = json.dumps({"tenantId": str(tenant), "userId": str(user), "permissions": may})
        headers = {"x-identity": identity, "content-type": "application/json"}
        text = b"" if body is None else json.dumps(body).encode()
        answer = module.handler(http_event(method, f"/api/v1{target}", headers, text, set(module.api.rules)), None)
        return answer["statusCode"], json.loads(answer["body"])

    yield ask
    for made in (bootstrap.database(), bootstrap.service_database(), bootstrap.redis()):
        made.close()
    bootstrap.forget_all()


class TestUserCaps:
    def test_tenant_shows_and_changes_its_own_limit(self, call, tenant):
        assert call("GET", "/tenant") == (
            200,
            {
                "tenantId": to_wire("tnt", tenant),
                "name": "T",
                "tier": "vip",
                "concurrency": 20,
                "userConcurrency": None,
                "lowBalancePoints": None,
            },
        )
        status, changed = call("PATCH", "/tenant", {"name": "Shop", "userConcurrency": 4})
        assert (status, changed["name"], changed["userConcurrency"]) == (200, "Shop", 4)
        assert call("PATCH", "/tenant", {"name": None})[1] == changed  # nothing to change
        assert call("PATCH", "/tenant", {"userConcurrency": None})[1]["userConcurrency"] is None

    def test_operator_changes_the_limit_of_a_tenant(self, call, tenant):
        path = f"/tenants/{to_wire('tnt', tenant)}"
        assert call("PATCH", path, {"userConcurrency": 0})[1]["userConcurrency"] == 0
        assert call("PATCH", path, {"weight": 3})[1]["userConcurrency"] == 0
        (listed,) = call("GET", "/tenants")[1]["items"]
        assert (listed["userConcurrency"], "userConcurrency" in listed["overrides"]) == (0, False)
        assert call("PATCH", path, {"userConcurrency": None})[1]["userConcurrency"] is None

    def test_user_gets_a_value_of_their_own(self, call, user):
        path = f"/users/{to_wire('usr', user)}"
        assert call("PATCH", path, {"concurrency": 5})[1]["concurrency"] == 5
        assert call("PATCH", path, {"status": "ACTIVE"})[1]["concurrency"] == 5
        assert [one["concurrency"] for one in call("GET", "/users")[1]["items"]] == [5]
        assert call("PATCH", path, {"concurrency": None})[1]["concurrency"] is None

    @pytest.mark.parametrize("value", [-1, 100_001, 1.5, "3", True, [1], 2**70], ids=repr)
    def test_bad_values_are_refused(self, call, tenant, user, value):
        for path, field in (
            ("/tenant", "userConcurrency"),
            (f"/tenants/{to_wire('tnt', tenant)}", "userConcurrency"),
            (f"/users/{to_wire('usr', user)}", "concurrency"),
        ):
            status, answer = call("PATCH", path, {field: value})
            assert (status, answer["code"]) == (422, "REQUEST_422_INVALID"), path

    @pytest.mark.parametrize("name", ["", " ", "x" * 201, 7, "a\x00b"])
    def test_bad_names_are_refused(self, call, name):
        assert call("PATCH", "/tenant", {"name": name})[0] == 422

    @pytest.mark.parametrize("field", ["concurrency", "weight", "tier", "status", "queueDepth"])
    def test_tenant_cannot_change_its_other_limits(self, call, field):
        assert call("PATCH", "/tenant", {field: 1})[0] == 422

    def test_user_of_another_tenant_is_not_found(self, call, yard):
        stranger = yard.user(yard.tenant())
        for user_id in (stranger, uuid4()):
            status, answer = call("PATCH", f"/users/{to_wire('usr', user_id)}", {"concurrency": 1})
            assert (status, answer["code"]) == (404, "REQUEST_404_NOT_FOUND")
        assert yard.connection.execute("SELECT count(*) FROM app_user WHERE concurrency = 1").fetchone() == (0,)

    def test_permissions_are_needed(self, call):
        assert call("PATCH", "/tenant", {"userConcurrency": 1}, may="task.submit")[0] == 403
        assert call("GET", "/tenant", may="task.submit")[0] == 403


OF_TIER = {"jobConcurrency": 50, "jobPerMinute": 1_200, "jobPeriodSeconds": 10}
OWN = {"jobConcurrency": 3, "jobPerMinute": 0, "jobPeriodSeconds": 3_600}


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in OF_TIER}


class TestJobs:
    def test_override_is_used_until_it_is_null(self, call, tenant):
        path = f"/tenants/{to_wire('tnt', tenant)}"
        (before,) = call("GET", "/tenants")[1]["items"]
        assert shown(before) == OF_TIER
        changed = call("PATCH", path, OWN)[1]
        assert shown(changed) == shown(changed["overrides"]) == OWN
        assert call("GET", "/tenants")[1]["items"] == [changed]
        assert shown(call("PATCH", path, {"weight": 3})[1]) == OWN
        back = call("PATCH", path, {"jobPerMinute": None})[1]
        assert shown(back) == OWN | {"jobPerMinute": 1_200}
        assert shown(call("PATCH", path, dict.fromkeys(OWN))[1]) == OF_TIER

    def test_engine_obeys_the_override(self, call, tenant):
        call("PATCH", f"/tenants/{to_wire('tnt', tenant)}", OWN)
        with PostgresRuns(bootstrap.service_database(), Outbox(lambda *_: None)).open() as tx:
            (row,) = tx.policies([tenant])
        limits = limits_of(row, Defaults())
        assert (limits.runs_at_once, limits.runs_per_minute, limits.shortest_period_s) == (3, 0, 3_600)

    def test_new_tenant_has_its_overrides(self, call):
        status, made = call("POST", "/tenants", {"name": "new", "tier": "free", "jobConcurrency": 77})
        assert status == 201
        assert shown(made) == {"jobConcurrency": 77, "jobPerMinute": 120, "jobPeriodSeconds": 60}

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            *(("jobConcurrency", value) for value in (-1, 100_001, 1.5, "3", True)),
            *(("jobPerMinute", value) for value in (-1, 1_000_001)),
            *(("jobPeriodSeconds", value) for value in (0, 86_401, 2**70)),
            ("jobPeriodS", 5),
            ("job_period_s", 5),
        ],
    )
    def test_bad_overrides_are_refused(self, call, tenant, field, value):
        status, answer = call("PATCH", f"/tenants/{to_wire('tnt', tenant)}", {field: value})
        assert (status, answer["code"]) == (422, "REQUEST_422_INVALID")
        assert shown(call("GET", "/tenants")[1]["items"][0]) == OF_TIER

    def test_tenant_cannot_change_them(self, call):
        for field in OF_TIER:
            assert call("PATCH", "/tenant", {field: 1})[0] == 422


class TestModels:
    def test_limit_is_set_shown_and_unset(self, call, yard, tenant):
        yard.worker(1)
        bootstrap.scheduler().ready(yard.task(tenant, 3, kind="model", model="diffusion"))
        status, answer = call("PUT", "/ops/models/diffusion", {"limit": 2})
        assert (status, answer["limit"]) == (200, 2)
        assert "figure" in answer["steps"]
        models = {one["model"]: one for one in call("GET", "/ops/models")[1]["items"]}
        assert models["diffusion"] == answer
        assert answer["running"] + answer["waiting"] == 3
        assert (models["segment"]["limit"], models["segment"]["pools"]) == (None, [])
        assert call("PUT", "/ops/models/diffusion", {"limit": None})[1]["limit"] is None

    @pytest.mark.parametrize(
        "body", [{}, {"limit": -1}, {"limit": 1_000_001}, {"limit": "2"}, {"limit": 1, "x": 1}, [], {"limit": 2.5}]
    )
    def test_bad_limits_are_refused(self, call, body):
        assert call("PUT", "/ops/models/diffusion", body)[0] == 422

    @pytest.mark.parametrize("model", ["sd9", "Diffusion", "x" * 400, "%00"])
    def test_unknown_model_is_not_found(self, call, model):
        status, answer = call("PUT", f"/ops/models/{model}", {"limit": 1})
        assert (status, answer["code"]) == (404, "REQUEST_404_NOT_FOUND")

    def test_models_of_texts_stand_beside(self, call):
        limits = GuardLimits(10, 3, {"paid": 50, "free": 10})
        models = {"copywriting": ["hub/org/large-1"]}
        bootstrap.text_claims().note_routes(Decision("paid_stream", [], limits, models))
        status, answer = call("PUT", "/ops/models/hub:org:large-1", {"limit": 2})
        assert (status, answer["limit"], answer["services"]) == (200, 2, ["copywriting"])
        assert answer in call("GET", "/ops/models")[1]["items"]
        assert call("PUT", "/ops/models/hub:org:large-2", {"limit": 2})[0] == 404

    def test_reader_cannot_set_a_limit(self, call):
        assert call("PUT", "/ops/models/diffusion", {"limit": 1}, may="ops.read")[0] == 403


class TestLanes:
    def test_absent_null_and_zero_differ(self, call):
        path = "/ops/lanes/vip_long"
        changed = call("PATCH", path, {"parallelism": 0, "sharePercent": 30, "limit": 5})[1]
        assert (changed["parallelism"], changed["sharePercent"], changed["limit"]) == (0, 30, 5)
        assert call("PATCH", path, {})[1] == changed
        assert call("PATCH", path, {"paused": True})[1] == changed | {"paused": True}
        restored = call("PATCH", path, {"parallelism": None, "sharePercent": None, "limit": None})[1]
        assert (restored["parallelism"], restored["sharePercent"], restored["limit"]) == (None, 50, 10_000)
        assert restored["paused"]

    @pytest.mark.parametrize(
        "body", [{"parallelism": -1}, {"parallelism": "1"}, {"sharePercent": 0}, {"sharePercent": 101}, {"limit": 1e9}]
    )
    def test_bad_values_are_refused(self, call, body):
        assert call("PATCH", "/ops/lanes/vip_long", body)[0] == 422


class TestWorkers:
    def test_drained_worker_is_shown(self, call, yard):
        worker = yard.worker(2)
        status, answer = call("POST", f"/ops/workers/{worker}/drain")
        assert (status, answer["workerId"], answer["draining"], answer["nodes"]) == (200, worker, True, [])
        assert [one["draining"] for one in call("GET", "/ops/workers")[1]["items"]] == [True]
        assert call("POST", f"/ops/workers/{worker}/drain")[0] == 200  # again is harmless

    @pytest.mark.parametrize("worker", ["nobody", "x" * 400, "%00", "a%20b"])
    def test_unknown_worker_is_not_found(self, call, worker):
        status, answer = call("POST", f"/ops/workers/{worker}/drain")
        assert (status, answer["code"]) == (404, "REQUEST_404_NOT_FOUND")

    def test_reader_cannot_drain(self, call, yard):
        assert call("POST", f"/ops/workers/{yard.worker(1)}/drain", may="ops.read")[0] == 403


class TestDecisions:
    @pytest.fixture
    def pair(self, yard, call) -> tuple[UUID, UUID]:
        """Two tenants of weights 5 and 1, whose nodes got four slots by turns."""
        yard.worker(4)
        vip, free = yard.tenant("vip"), yard.tenant("free")
        nodes = yard.task(vip, 3, cost_s=10) + yard.task(free, 2, cost_s=10, lane="free_default")
        assert bootstrap.scheduler().ready(nodes) >= 4
        return vip, free

    def test_choices_are_explained_newest_first(self, call, pair):
        vip, free = (to_wire("tnt", tenant_id) for tenant_id in pair)
        status, answer = call("GET", "/ops/decisions?pool=gpu")
        items = answer["items"]
        oldest = items[-1]
        assert (status, [one["tenantId"] for one in items[::-1]][:3]) == (200, [vip] * 3)
        assert (oldest["tenantId"], oldest["runnerUp"]) == (vip, {"tenantId": free, "tag": 10.0})
        assert (oldest["reason"], oldest["tag"], oldest["chargedSeconds"]) == ("smallest_tag", 2.0, 10.0)
        assert oldest["detail"] == "Its tag of 2.000 s is smaller than 10.000 s, the tag of the next tenant's node."
        assert (oldest["type"], oldest["lane"], oldest["model"], oldest["node"]) == ("cutout", "vip_short", None, "n1")
        assert oldest["taskId"].startswith("task_")
        assert (items[0]["tenantId"], items[0]["reason"], items[0]["runnerUp"]) == (free, "only_candidate", None)
        assert items[0]["detail"] == "No other tenant had a node that could run."

    def test_filters_leave_out_other_decisions(self, call, pair, yard):
        free = to_wire("tnt", pair[1])
        chosen = call("GET", f"/ops/decisions?tenantId={free}")[1]["items"]
        assert all(free in (one["tenantId"], (one["runnerUp"] or {}).get("tenantId")) for one in chosen)
        assert 0 < len(chosen) <= 5
        assert call("GET", "/ops/decisions?pool=enterprise")[1]["items"] == []
        stranger = to_wire("tnt", yard.tenant())
        assert call("GET", f"/ops/decisions?tenantId={stranger}")[1] == {"items": [], "nextCursor": None}

    def test_pages_neither_repeat_nor_miss(self, call, pair, yard):
        whole = call("GET", "/ops/decisions")[1]["items"]
        first = call("GET", "/ops/decisions?limit=2")[1]
        more = yard.task(pair[0], 1)
        yard.worker(4)
        bootstrap.scheduler().refresh("gpu", is_forced=True)
        bootstrap.scheduler().ready(more)  # newer decisions do not shift the pages
        seen, cursor = first["items"], first["nextCursor"]
        while cursor:
            page = call("GET", f"/ops/decisions?limit=2&cursor={cursor}")[1]
            seen, cursor = seen + page["items"], page["nextCursor"]
        assert seen == whole

    @pytest.mark.parametrize("query", ["limit=0", "limit=101", "pool=text", "cursor=abc", "tenantId=" + "x" * 65])
    def test_bad_queries_are_refused(self, call, query):
        assert call("GET", f"/ops/decisions?{query}")[0] == 422

    @pytest.mark.parametrize("tenant_id", ["x", "usr_" + "0" * 32])
    def test_malformed_tenant_has_no_decisions(self, call, tenant_id):
        assert call("GET", f"/ops/decisions?tenantId={tenant_id}") == (200, {"items": [], "nextCursor": None})

    def test_decisions_need_the_operator_permission(self, call):
        assert call("GET", "/ops/decisions", may="user.manage")[0] == 403
