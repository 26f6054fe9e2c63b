"""Settings, cache and dictionaries through their handlers, over a real PostgreSQL and a real Redis."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from artiway import bootstrap
from artiway.audit.model import AuditFilter
from artiway.bootstrap.once import begin_anew
from artiway.caching.service import NAMES
from artiway.dictionaries.service import TYPES
from artiway.ids import to_wire
from artiway.settings import registry
from tests.fakes.nodes import Yard
from tests.integration.payments.environment import http_event, load_function

Call = Callable[..., tuple[int, Any]]
ALL = "ops.read ops.write task.submit"
USER = UUID(int=5)


@pytest.fixture
def yard(addresses) -> Iterator[Yard]:
    with contextlib.closing(Yard(addresses.superuser)) as yard:
        yield yard


@pytest.fixture
def call(monkeypatch, addresses, valkey, valkey_url, yard) -> Iterator[Call]:
    for name, value in (("DATABASE_URL", addresses.app), ("SERVICE_DATABASE_URL", addresses.service)):
        monkeypatch.setenv(f"ARTIWAY_{name}", value)
    monkeypatch.setenv("ARTIWAY_REDIS_URL", valkey_url)
    bootstrap.forget_all()
    tenant = yard.tenant("vip")
    modules = {name: load_function(name) for name in ("ops", "tasks")}

    def ask(method: str, target: str, body: Any = None, *, may: str = ALL) -> tuple[int, Any]:
        module = modules["ops" if target.startswith("/ops") else "tasks"]
        identity = json.dumps({"tenantId": str(tenant), "userId": str(USER), "permissions": may})
        headers = {"x-identity": identity, "content-type": "application/json"}
        text = b"" if body is None else json.dumps(body).encode()
        answer = module.handler(http_event(method, f"/api/v1{target}", headers, text, set(module.api.rules)), None)
        return answer["statusCode"], json.loads(answer["body"])

    yield ask
    for made in (bootstrap.database(), bootstrap.service_database(), bootstrap.redis()):
        made.close()
    bootstrap.forget_all()


def audited(action: str) -> list[str]:
    page = bootstrap.audit_trail().find(AuditFilter(action=action), cursor=None, limit=50)
    return [entry.target for entry in reversed(page.items) if entry.actor_id == USER]


class TestSettings:
    def test_list_has_every_setting_with_bounds(self, call):
        items, cursor = [], ""
        while cursor is not None:
            status, page = call("GET", f"/ops/settings?limit=30{cursor and '&cursor=' + cursor}")
            assert status == 200
            items, cursor = items + page["items"], page["nextCursor"]
        assert [item["key"] for item in items] == list(registry.settings())
        price = next(item for item in items if item["key"] == "price.cutout")
        assert price == {
            "key": "price.cutout",
            "value": 2,
            "default": 2,
            "type": "integer",
            "minimum": 1,
            "maximum": 10_000,
            "description": "points for each output",
            "updatedAt": None,
            "updatedBy": None,
            "fault": None,
        }

    def test_price_changes_tools_and_estimate(self, call):
        def prices() -> tuple[int, int]:
            tools = {tool["tool"]: tool for tool in call("GET", "/tools")[1]["items"]}
            asked = {"tool": "cutout", "inputs": {"product": "inp_" + "0" * 32}}
            return tools["cutout"]["pricePoints"], call("POST", "/tasks/estimate", asked)[1]["pricePoints"]

        assert prices() == (2, 2)
        status, changed = call("PUT", "/ops/settings/price.cutout", {"value": 7})
        assert (status, changed["value"], changed["updatedBy"]) == (200, 7, to_wire("usr", USER))
        bootstrap.setting_values().forget()  # its snapshot lives a second
        assert prices() == (7, 7)
        status, restored = call("DELETE", "/ops/settings/price.cutout")
        assert (status, restored["value"], restored["updatedAt"]) == (200, 2, None)
        bootstrap.setting_values().forget()
        assert prices() == (2, 2)
        assert audited("setting.changed") == audited("setting.restored") == ["price.cutout"]

    def test_limit_changes_accepted_counts(self, call):
        def estimate(count: int) -> int:
            body = {"tool": "style", "inputs": {"product": "inp_" + "0" * 32}, "count": count}
            return call("POST", "/tasks/estimate", body)[0]

        assert (estimate(10), estimate(11)) == (200, 422)
        assert call("PUT", "/ops/settings/limit.style", {"value": 3})[0] == 200
        bootstrap.setting_values().forget()
        assert (estimate(3), estimate(4)) == (200, 422)
        tools = {tool["tool"]: tool["count"] for tool in call("GET", "/tools")[1]["items"]}
        assert tools["style"] == {"minimum": 1, "maximum": 3, "default": 1}

    @pytest.mark.parametrize("value", [0, 10_001, "7", 7.5, True, None, [7], {"a": 1}])
    def test_value_out_of_range_is_422(self, call, value):
        status, answer = call("PUT", "/ops/settings/price.cutout", {"value": value})
        assert (status, answer["code"]) == (422, "SETTING_422_INVALID")

    def test_unknown_key_is_404_and_body_checked(self, call):
        for method, body in (("PUT", {"value": 1}), ("DELETE", None)):
            status, answer = call(method, "/ops/settings/no.such", body)
            assert (status, answer["code"]) == (404, "SETTING_404_UNKNOWN")
        assert call("PUT", "/ops/settings/price.cutout", {})[0] == 422
        assert call("PUT", "/ops/settings/price.cutout", {"value": 1, "more": 1})[0] == 422

    def test_permissions_are_needed(self, call):
        for method, path, body in (
            ("PUT", "/ops/settings/price.cutout", {"value": 3}),
            ("DELETE", "/ops/settings/price.cutout", None),
            ("POST", "/ops/cache/refresh", {"name": "settings"}),
            ("DELETE", "/ops/cache?prefix=geo:", None),
        ):
            assert call(method, path, body, may="ops.read")[0] == 403
        assert {call("GET", path, may="")[0] for path in ("/ops/settings", "/ops/cache")} == {403}

    def test_geo_sources_are_checked(self, call):
        source = {"name": "a", "url": "https://a.example.com/{ip}", "encoding": "utf-8", "location": [["x"]]}
        assert call("PUT", "/ops/settings/geo.sources", {"value": [source]})[0] == 200
        assert (
            call("PUT", "/ops/settings/geo.sources", {"value": [{**source, "url": "http://10.0.0.1/{ip}"}]})[0] == 422
        )


class TestDictionaries:
    @pytest.mark.parametrize("type_", TYPES)
    def test_every_type_has_labels(self, call, type_):
        status, answer = call("GET", f"/dictionaries/{type_}", may="")
        assert status == 200
        assert set(answer["items"][0]) == {"key", "zh", "en", "order"}

    def test_unknown_type_is_404(self, call):
        status, answer = call("GET", "/dictionaries/colours")
        assert (status, answer["code"]) == (404, "DICTIONARY_404_UNKNOWN")


class TestCache:
    def test_statistics_list_every_cache(self, call):
        call("GET", "/dictionaries/tools")
        status, answer = call("GET", "/ops/cache")
        items = {item["name"]: item for item in answer["items"]}
        assert (status, set(items), answer["complete"]) == (200, set(NAMES), True)
        assert (items["dictionaries"]["entries"], items["settings"]["entries"]) == (len(TYPES), 1)
        assert [name for name, item in items.items() if item["refreshable"]] == ["dictionaries", "settings"]

    def test_refresh_replaces_values(self, call, valkey):
        call("GET", "/tools")
        key = "cache:value:settings"
        before = valkey.get(key)
        assert call("POST", "/ops/cache/refresh", {"name": "settings"}) == (200, {"name": "settings", "refreshed": 1})
        assert valkey.get(key) != before
        assert call("POST", "/ops/cache/refresh", {"name": "dictionaries"})[1]["refreshed"] == len(TYPES)
        assert call("POST", "/ops/cache/refresh", {"name": "access"})[1]["code"] == "CACHE_404_UNKNOWN"
        assert audited("cache.refreshed") == ["settings", "dictionaries"]

    def test_delete_by_prefix_is_audited(self, call):
        call("GET", "/tools")
        assert call("DELETE", "/ops/cache?prefix=dictionaries:") == (200, {"deleted": len(TYPES)})
        assert call("DELETE", "/ops/cache?prefix=settings") == (200, {"deleted": 1})
        assert audited("cache.deleted") == ["dictionaries:", "settings"]

    @pytest.mark.parametrize("prefix", ["rate:", "lock:", "nonce:", "{artiway:wfq:gpu}", "cache:value:", "*", "s", ""])
    def test_other_prefixes_are_refused(self, call, valkey, prefix):
        call("GET", "/tools")
        before = set(valkey.keys("cache:value:*"))
        assert call("DELETE", f"/ops/cache?prefix={prefix}")[0] == 422
        assert set(valkey.keys("cache:value:*")) == before


class TestWarmUp:
    def test_first_request_warms_and_restore_repeats(self, call, valkey):
        call("GET", "/tools")
        keys = set(valkey.keys("cache:value:*"))
        assert len(keys) == 1 + len(TYPES)
        valkey.flushall()
        call("GET", "/tools")
        assert not valkey.keys("cache:value:dictionaries:*")  # warmed once in a process
        for made in (bootstrap.database(), bootstrap.service_database(), bootstrap.redis()):
            made.close()
        begin_anew()
        call("GET", "/tools")
        assert set(valkey.keys("cache:value:*")) == keys

    def test_failing_warm_up_stops_no_request(self, call, monkeypatch):
        def fail() -> int:
            raise RuntimeError("no cache")

        monkeypatch.setattr(bootstrap.warm_up, "_make", fail)
        assert call("GET", "/tools")[0] == 200
