"""The edge as API Gateway sees it: events in, answers out."""

from __future__ import annotations

import base64
import json
from uuid import uuid4

import pytest

from artiway.errors import Conflict, TooMany
from artiway.platform import http
from artiway.platform.database import DatabaseAway
from artiway.platform.origin import OFF, Origin, hashes_of
from artiway.platform.ratelimit import Decision

TENANT, USER = uuid4(), uuid4()
SECRET = "between CloudFront and the functions"
ORIGIN = Origin(hashes_of(json.dumps({"first": SECRET})))


class Body(http.Wire):
    first_name: str
    amount: int = 0


class Answer(http.Wire):
    first_name: str


@pytest.fixture
def api():
    api = http.Api("test", origin=lambda: ORIGIN)

    @api.post("/things/<thing_id>", permission="thing.write", status=201)
    def make(thing_id: str, body: Body) -> tuple[Answer, int]:
        return Answer(first_name=f"{thing_id} {body.first_name}"), 201

    @api.get("/things", public=True)
    def show(limit: int = 5) -> dict[str, int]:
        return {"limit": limit}

    @api.delete("/things", status=204)
    def remove() -> tuple[None, int]:
        return None, 204

    @api.get("/fails/<kind>", public=True)
    def fail(kind: str) -> dict[str, int]:
        raise {
            "conflict": Conflict("taken", code="THING_409_TAKEN", owner="you"),
            "many": TooMany("slow down", retry_after_s=7),
            "away": DatabaseAway("gone"),
            "bug": ZeroDivisionError("secret detail"),
        }[kind]

    @api.get("/address", public=True)
    def address() -> dict[str, str]:
        return {"address": api.client_address, "host": api.public_host}

    @api.get("/base", public=True)
    def base() -> dict[str, str]:
        return {"url": api.public_url}

    @api.post("/keyed", public=True, keyed=True)
    def keyed() -> dict[str, str | None]:
        return {"key": api.idempotency_key}

    @api.post("/raw", public=True, raw=True)
    def raw() -> dict[str, str]:
        return {"body": api.raw_body.decode("latin-1")}

    return api


def request(method, template, *, path=None, body=None, headers=None, query=None, authorizer="me", is_base64=False):
    path = path or template
    context = {"tenantId": str(TENANT), "userId": str(USER), "permissions": "thing.write"}
    lambda_context = {"me": context, "nobody": None, "expired": {"error": "AUTH_401_TOKEN_EXPIRED"}}.get(
        authorizer, {**context, "permissions": ""}
    )
    return {
        "version": "2.0",
        "routeKey": f"{method} /api/v1{template}",
        "rawPath": f"/api/v1{path}",
        "rawQueryString": "",
        "queryStringParameters": query,
        "headers": {"content-type": "application/json", "x-origin-verify": SECRET, **(headers or {})},
        "requestContext": {
            "http": {"method": method, "path": f"/api/v1{path}", "sourceIp": "10.0.0.1"},
            "domainName": "api.example",
            "stage": "$default",
            "requestId": "req-1",
            "authorizer": {"lambda": lambda_context},
        },
        "body": body,
        "isBase64Encoded": is_base64,
    }


def call(api, *arguments, **options):
    answer = api.handler(request(*arguments, **options), None)
    return answer["statusCode"], json.loads(answer["body"] or "null"), answer["headers"]


def make(api, body, **options):
    return call(api, "POST", "/things/{thing_id}", path="/things/7", body=body, **options)


def fields(answer):
    return {problem["field"]: problem["reason"] for problem in answer["details"]["fields"]}


def test_answer_is_camel_case_with_request_ids(api):
    status, answer, headers = make(api, '{"firstName": "Ann"}')
    assert (status, answer) == (201, {"firstName": "7 Ann"})
    assert headers["x-request-id"] == "req-1"
    assert headers["x-trace-id"].startswith("1-")


def test_body_in_base64_is_read_like_any_other(api):
    body = base64.b64encode(b'{"firstName": "Ann"}').decode()
    assert make(api, body, is_base64=True)[0] == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("{", "body"),
        ("", "body"),
        (None, "body"),
        ("[]", "body"),
        ("null", "body"),
        ('"text"', "body"),
        ("NaN", "body"),
        ('{"firstName": "a", "amount": NaN}', "body"),
        ('{"firstName": "a", "surname": "b"}', "surname"),
        ('{"amount": 1}', "firstName"),
        ('{"firstName": 5}', "firstName"),
        ('{"firstName": "a\\u0000b"}', "firstName"),
        ('{"firstName": "a\\ud800"}', "firstName"),
        ('{"firstName": "a", "amount": 9223372036854775808}', "amount"),
        ('{"firstName": "a", "amount": ' + "9" * 5000 + "}", "body"),
        ('{"firstName": "a", "amount": ' + "[" * 40 + "]" * 40 + "}", None),
        ("[" * 100_000, "body"),
        ("\udcff", "body"),
    ],
)
def test_bad_body_is_refused_and_field_named(api, body, field):
    status, answer, _ = make(api, body)
    assert status == 422
    assert answer["code"] == "REQUEST_422_INVALID"
    assert answer["requestId"] == "req-1"
    if field is not None:
        assert field in fields(answer)


def test_body_over_the_limit_is_not_parsed(api):
    body = '{"firstName": "' + "a" * 1_000_000 + '"}'
    assert make(api, body)[:2][0] == 413
    assert make(api, base64.b64encode(body.encode()).decode(), is_base64=True)[1]["code"] == "REQUEST_413_TOO_LARGE"


@pytest.mark.parametrize("media_type", ["text/plain", "application/xml", "", "multipart/form-data; boundary=x"])
def test_another_media_type_is_refused(api, media_type):
    status, answer, _ = make(api, '{"firstName": "Ann"}', headers={"content-type": media_type})
    assert (status, answer["code"]) == (415, "REQUEST_415_MEDIA_TYPE")


def test_bad_query_names_its_parameter(api):
    status, answer, _ = call(api, "GET", "/things", query={"limit": "many"})
    assert (status, set(fields(answer))) == (422, {"limit"})
    assert call(api, "GET", "/things", query={"limit": "\0"})[0] == 422


@pytest.mark.parametrize(
    ("authorizer", "status", "code"),
    [
        ("nobody", 401, "AUTH_401_TOKEN_INVALID"),
        ("expired", 401, "AUTH_401_TOKEN_EXPIRED"),
        ("weak", 403, "AUTH_403_FORBIDDEN"),
    ],
)
def test_missing_permission_is_refused_before_the_body(api, authorizer, status, code):
    found, answer, _ = make(api, "{", authorizer=authorizer)
    assert (found, answer["code"]) == (status, code)


def test_public_route_needs_no_identity(api):
    assert call(api, "GET", "/things", authorizer="nobody")[:2] == (200, {"limit": 5})


def test_answer_without_content_has_no_body(api):
    assert api.handler(request("DELETE", "/things"), None)["body"] == ""


def test_failure_keeps_its_code_and_facts(api):
    status, answer, _ = call(api, "GET", "/fails/{kind}", path="/fails/conflict")
    assert (status, answer["code"], answer["details"]) == (409, "THING_409_TAKEN", {"owner": "you"})


@pytest.mark.parametrize(("kind", "status", "seconds"), [("many", 429, "7"), ("away", 503, "2")])
def test_retryable_error_has_retry_after(api, kind, status, seconds):
    found, _, headers = call(api, "GET", "/fails/{kind}", path=f"/fails/{kind}")
    assert (found, headers["retry-after"]) == (status, seconds)


def test_only_throttled_requests_are_counted(api, capsys):
    for kind in ("many", "conflict", "many"):
        call(api, "GET", "/fails/{kind}", path=f"/fails/{kind}")
    written = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(line["RequestsThrottled"][0] for line in written if "RequestsThrottled" in line) == 2


def test_bug_is_logged_whole_and_shown_plain(api, capsys):
    status, answer, _ = call(api, "GET", "/fails/{kind}", path="/fails/bug")
    assert (status, answer["code"]) == (500, "PLATFORM_500_INTERNAL")
    assert "secret detail" not in json.dumps(answer)
    assert "secret detail" in capsys.readouterr().out


def test_unknown_route_has_documented_shape(api):
    status, answer, _ = call(api, "GET", "/nothing")
    assert (status, answer["code"], sorted(answer)) == (
        404,
        "REQUEST_404_NO_ROUTE",
        ["code", "details", "message", "requestId"],
    )


def test_raw_route_gets_bytes_as_they_came(api):
    body = base64.b64encode(b"\xff\x00not json").decode()
    status, answer, _ = call(api, "POST", "/raw", body=body, is_base64=True, headers={"content-type": "text/plain"})
    assert (status, answer) == (200, {"body": "\xff\x00not json"})


def test_refused_raw_route_answers_in_wechats_format(api):
    status, answer, headers = call(api, "POST", "/raw", body="x" * 1_000_001, headers={"content-type": "text/plain"})
    assert (status, answer) == (413, {"code": "FAIL", "message": "the body is too large"})
    assert headers["x-request-id"] == "req-1"


@pytest.mark.parametrize("proof", ["", "another value", f"{SECRET}, {SECRET}", "ü"])
@pytest.mark.parametrize(
    ("method", "template", "body"),
    [
        ("GET", "/things", None),
        ("GET", "/unknown", None),
        ("POST", "/things/{thing_id}", "{"),
        ("POST", "/raw", "x" * 1_000_001),
        ("DELETE", "/things", None),
    ],
)
def test_direct_request_is_refused_before_all_else(api, method, template, body, proof):
    status, answer, headers = call(
        api, method, template, body=body, headers={"x-origin-verify": proof}, authorizer="nobody"
    )
    assert (status, answer["code"]) == (403, "FAIL" if template == "/raw" else "EDGE_403_DIRECT")
    assert headers["x-request-id"] == "req-1"


def test_direct_request_reaches_no_access_check():
    def access_check():
        raise AssertionError("no work is done for a direct request")

    api = http.Api("test", origin=lambda: ORIGIN, access_check=access_check)

    @api.get("/things")
    def things() -> dict[str, int]:
        return {}

    assert call(api, "GET", "/things", headers={"x-origin-verify": ""})[0] == 403


def test_api_without_check_answers_direct_requests():
    for origin in (None, lambda: Origin(OFF)):
        api = http.Api("test", origin=origin)

        @api.get("/things", public=True)
        def things() -> dict[str, int]:
            return {}

        assert call(api, "GET", "/things", headers={"x-origin-verify": ""})[0] == 200


def test_viewer_of_cloudfront_is_used(api):
    headers = {"true-client-ip": "2001:db8::1", "x-viewer-host": "d1.cloudfront.net"}
    assert call(api, "GET", "/address", headers=headers)[1] == {"address": "2001:db8::1", "host": "d1.cloudfront.net"}


@pytest.mark.parametrize(
    "headers", [{}, {"cloudfront-viewer-address": "6.6.6.6:1", "x-forwarded-for": "6.6.6.6", "host": "evil.example"}]
)
def test_other_headers_name_no_viewer(api, headers):
    assert call(api, "GET", "/address", headers=headers)[1] == {"address": "10.0.0.1", "host": "api.example"}


@pytest.mark.parametrize(
    ("scheme", "url"), [("http", "http://api.example"), ("https", "https://api.example"), ("x", "https://api.example")]
)
def test_public_url_has_scheme_of_request(api, scheme, url):
    assert call(api, "GET", "/base", headers={"x-forwarded-proto": scheme})[1] == {"url": url}


@pytest.mark.parametrize("origin", [None, lambda: Origin(OFF)])
def test_unchecked_request_names_no_viewer(origin):
    api = http.Api("test", origin=origin)

    @api.get("/address", public=True)
    def address() -> dict[str, str]:
        return {"address": api.client_address, "host": api.public_host}

    headers = {"true-client-ip": "6.6.6.6", "x-viewer-host": "evil.example"}
    assert call(api, "GET", "/address", headers=headers)[1] == {"address": "10.0.0.1", "host": "api.example"}


@pytest.mark.parametrize(("key", "status"), [(None, 200), ("k" * 200, 200), ("", 422), ("k" * 201, 422), ("a\tb", 422)])
def test_keyed_route_gets_valid_key_or_none(api, key, status):
    headers = {} if key is None else {"idempotency-key": key}
    found, answer, _ = call(api, "POST", "/keyed", headers=headers)
    assert found == status
    assert answer == {"key": key} if status == 200 else "Idempotency-Key" in fields(answer)


def test_pages_contain_each_item_once():
    items, seen, cursor = list(range(7)), [], None
    while True:
        page, cursor = http.page_of(items, cursor, 3)
        seen += page
        if cursor is None:
            break
    assert seen == items
    assert http.page_of(items[:6], http.page_of(items, None, 6)[1], 3) == ([], None)
    assert http.page_of([], None, 3) == ([], None)


def test_trace_of_the_caller_is_kept(api):
    trace = "1-65f00000-0123456789abcdef01234567"
    _, _, headers = call(api, "GET", "/things", headers={"x-amzn-trace-id": f"Root={trace};Sampled=1"})
    assert headers["x-trace-id"] == trace


class CountingAccess:
    """Lets the test's user in and notes what was counted."""

    def __init__(self) -> None:
        self.counted: list[bool] = []

    def admit(self, request: http.Request) -> http.Admission:
        limit = Decision(is_allowed=True, limit=5, remaining=4, reset_s=0, retry_after_s=0)
        return http.Admission(http.Identity(TENANT, USER, frozenset()), limit)

    def count_failure(self, *, is_counted: bool) -> None:
        self.counted.append(is_counted)
        raise ConnectionError("no Redis")


@pytest.mark.parametrize(
    ("route", "status", "counted"),
    [("/fine", 200, []), ("/refused", 409, []), ("/bug", 500, [True]), ("/away", 503, [True]), ("/open", 503, [False])],
)
def test_server_errors_are_counted_once(route, status, counted):
    """Also that an answer does not depend on its count. `/open` is a public route, which no limiter counted."""
    access = CountingAccess()
    api = http.Api("test", origin=None, access_check=lambda: access)
    raised = {"/refused": Conflict("taken"), "/bug": ZeroDivisionError(), "/fine": None}

    @api.get(route, public=route == "/open")
    def answer() -> dict[str, str]:
        if error := raised.get(route, DatabaseAway("gone")):
            raise error
        return {}

    assert call(api, "GET", route)[0] == status
    assert access.counted == counted
