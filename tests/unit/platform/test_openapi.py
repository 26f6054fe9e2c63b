from __future__ import annotations

import json
import re

import pytest
import yaml

from artiway.platform import openapi
from artiway.tasks.model import NodeStatus, TaskStatus
from tools import openapi as builder

ROOT = builder.ROOT
BASE = "/api/v1"


class _Loader(yaml.SafeLoader):
    """Reads a template's short intrinsics as plain values; their meaning does not matter here."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)


def template_routes() -> dict[str, set[str]]:
    """Function folder → the HTTP routes that template.yaml gives it."""
    resources = yaml.load((ROOT / "template.yaml").read_text("utf-8"), _Loader)["Resources"]
    routes: dict[str, set[str]] = {}
    for resource in resources.values():
        if resource["Type"] == "AWS::Serverless::Api":  # it streams from functions that answer other methods themselves
            paths = resource["Properties"]["DefinitionBody"]["paths"]
            for path in paths:
                folder = "openai" if path.startswith("/openai/") else "events"
                method = "POST" if path.endswith("/completions") else "GET"
                routes.setdefault(folder, set()).add(f"{method} {path}")
        if resource["Type"] != "AWS::Serverless::Function":
            continue
        events = resource["Properties"].get("Events", {}).values()
        found = {
            f"{event['Properties']['Method'].upper()} {event['Properties']['Path']}"
            for event in events
            if event["Type"] == "HttpApi" and "Path" in event["Properties"]
        }
        folder = resource["Properties"]["CodeUri"].strip("/").split("/")[-1]
        routes.setdefault(folder, set()).update(found)
    return routes


def test_document_is_one_that_routes_make():
    assert openapi.text() == builder.document(), "run `make openapi`"


def test_template_routes_equal_the_handlers_routes():
    declared = {name: set(api.rules) for name, api in builder.apis().items()}
    routed = {name: routes for name, routes in template_routes().items() if routes}
    assert routed == declared


def test_every_operation_documents_permission_and_errors():
    for path, operations in json.loads(openapi.text())["paths"].items():
        for method, operation in operations.items():
            assert operation["x-permission"], (method, path)
            assert operation["summary"], (method, path)
            invalid = "400" if path.startswith("/openai/") else "422"
            assert {invalid, "500", "503"} <= operation["responses"].keys()
            if operation["x-permission"] != "public":
                assert operation["security"] == [{"bearer": []}]
                assert {"401", "403", "429"} <= operation["responses"].keys()


KEYED = {
    ("/points/grants", "post"),
    ("/points/transfers", "post"),
    ("/orders", "post"),
    ("/orders/{order_id}/refunds", "post"),
    ("/tasks", "post"),
    ("/flows", "post"),
}


def test_routes_that_contract_gives_idempotency_key_document_it():
    keyed = {
        (path.removeprefix(BASE), method)
        for path, operations in json.loads(openapi.text())["paths"].items()
        for method, operation in operations.items()
        if any(one["name"] == "Idempotency-Key" for one in operation.get("parameters", []))
    }
    assert keyed >= KEYED


def test_every_list_has_cursor_and_limit():
    document = json.loads(openapi.text())
    lists = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
            schema = success.get("content", {}).get("application/json", {}).get("schema", {})
            schema = schema.get("anyOf", [schema])[0]
            named = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
            if "items" not in named.get("properties", {}):
                continue
            lists += 1
            assert {"items", "nextCursor"} <= set(named["required"]), (method, path)
            assert {"cursor", "limit"} <= {one["name"] for one in operation["parameters"]}, (method, path)
    assert lists > 10


def test_every_answer_documents_headers_that_it_carries():
    document = json.loads(openapi.text())
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                shared = answer.get("$ref", "").rpartition("/")[2]
                names = set((document["components"]["responses"][shared] if shared else answer)["headers"])
                assert names <= document["components"]["headers"].keys()
                assert "X-Request-Id" in names, (method, path, status)
                assert ("Retry-After" in names) == (status in {"429", "503"}), (method, path, status)
                is_limited = operation["x-permission"] != "public" and status != "401"
                assert ("RateLimit-Remaining" in names) == is_limited, (method, path, status)


def test_states_on_wire_are_those_of_domain():
    schemas = json.loads(openapi.text())["components"]["schemas"]
    for body, states in (("AcceptedBody", TaskStatus), ("NodeBody", NodeStatus), ("ReasonBody", NodeStatus)):
        assert schemas[body]["properties"]["status"]["enum"] == list(states)


def test_every_reference_of_the_document_resolves():
    document = json.loads(openapi.text())
    for kind in ("schemas", "responses", "headers"):
        names = set(re.findall(rf'"#/components/{kind}/([\w-]+)"', openapi.text()))
        assert names, kind
        assert names <= document["components"][kind].keys()


@pytest.mark.parametrize(
    ("method", "path", "code", "allow"),
    [
        ("GET", "/api/v1/nothing", "REQUEST_404_NO_ROUTE", None),
        ("GET", "/", "REQUEST_404_NO_ROUTE", None),
        ("POST", "/api/v1/health", "REQUEST_405_METHOD", ["GET"]),
        ("DELETE", "/api/v1/health/", "REQUEST_405_METHOD", ["GET"]),
    ],
)
def test_request_that_no_route_takes_is_explained(method, path, code, allow):
    error = openapi.explain_missing(method, path)
    assert (error.code, error.details.get("allow")) == (code, allow)


def test_page_carries_everything_inside_it():
    page = openapi.page()
    assert "SwaggerUIBundle" in page
    assert not re.search(r'<(script|link)[^>]+(src|href)="https?:', page)
