"""The access check before the routes: headers, limits, idempotency, as API Gateway sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from artiway.errors import Unauthenticated
from artiway.identity.access_check import AccessCheck
from artiway.identity.model import Access
from artiway.platform import http
from artiway.platform.ratelimit import Decision
from tools.openapi import apis

ME = Access(UUID(int=1), UUID(int=2), frozenset({"thing.write"}), rate_per_second=5, burst=10, session_id=UUID(int=3))
ALLOWED = Decision(is_allowed=True, limit=10, remaining=9, reset_s=1, retry_after_s=0)


class Accounts:
    def __init__(self):
        self.access, self.asked = ME, []

    def of_session(self, **asked):
        self.asked.append(asked)
        return self.access

    def of_key(self, key, **request):
        self.asked.append((key, request))
        return replace(self.access, session_id=None, key_id=uuid4())


class Limiter:
    def __init__(self):
        self.decision, self.buckets = ALLOWED, []

    def take(self, buckets):
        self.buckets = list(buckets)
        return self.decision


class Once:
    """Keeps what succeeded; undoes by keeping nothing when an exception passes."""

    def __init__(self):
        self.kept = {}

    def run(self, *, tenant_id, user_id, key, request_hash, perform):
        if (user_id, key) not in self.kept:
            self.kept[user_id, key] = (request_hash, perform())
        return self.kept[user_id, key][1]


class Body(http.Wire):
    amount: int


@pytest.fixture
def world():
    accounts, limiter, once = Accounts(), Limiter(), Once()
    api = http.Api("test", origin=None, access_check=lambda: AccessCheck(accounts, limiter, lambda: once))
    api.performed = 0

    @api.post("/things", permission="thing.write", status=201, idempotent=True)
    def make(body: Body) -> tuple[dict[str, int], int]:
        api.performed += 1
        if body.amount == 0:
            raise http.Refused("not zero")
        return {"amount": body.amount, "number": api.performed}, 201

    @api.get("/me")
    def me() -> dict[str, str]:
        return {"session": str(api.identity.session_id), "key": str(api.identity.key_id)}

    return api, accounts, limiter, once


def call(api, method, path, *, body=None, found=None, headers=None):
    default = {"tenantId": str(ME.tenant_id), "userId": str(ME.user_id), "sessionId": str(ME.session_id)}
    event = {
        "routeKey": f"{method} /api/v1{path}",
        "rawPath": f"/api/v1{path}",
        "rawQueryString": "a=1&b=2",
        "headers": {"content-type": "application/json", **(headers or {})},
        "requestContext": {
            "http": {"method": method, "path": f"/api/v1{path}"},
            "stage": "$default",
            "requestId": "r",
            "authorizer": {"lambda": default if found is None else found},
        },
        "body": None if body is None else json.dumps(body),
    }
    answer = api.handler(event, None)
    return answer["statusCode"], json.loads(answer["body"] or "null"), answer["headers"]


def test_every_answer_of_protected_route_carries_limit(world):
    api, _, limiter, _ = world
    for path, method, body, status in [("/me", "GET", None, 200), ("/things", "POST", {"amount": "x"}, 422)]:
        found, _, headers = call(api, method, path, body=body)
        assert found == status
        assert headers["ratelimit-limit"] == "10"
        assert headers["ratelimit-remaining"] == "9"
        assert headers["ratelimit-reset"] == "1"
    assert limiter.buckets == [(f"tenant:{ME.tenant_id}", 5, 10), (f"user:{ME.user_id}", 5, 10)]


def test_over_limit_nothing_is_performed(world):
    api, _, limiter, _ = world
    limiter.decision = Decision(is_allowed=False, limit=10, remaining=0, reset_s=3, retry_after_s=2)
    status, body, headers = call(api, "POST", "/things", body={"amount": 1})
    assert (status, body["code"]) == (429, "RATE_429_LIMITED")
    assert (headers["retry-after"], headers["ratelimit-remaining"]) == ("2", "0")
    assert api.performed == 0


def test_permissions_are_current_and_not_the_tokens(world):
    api, accounts, _, _ = world
    found = {"tenantId": str(uuid4()), "userId": str(uuid4()), "sessionId": str(uuid4()), "permissions": "thing.write"}
    accounts.access = replace(ME, permissions=frozenset())
    assert call(api, "POST", "/things", body={"amount": 1}, found=found)[0] == 403


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({}, "AUTH_401_TOKEN_INVALID"),
        ({"error": "AUTH_401_TOKEN_EXPIRED"}, "AUTH_401_TOKEN_EXPIRED"),
        ({"tenantId": "x", "userId": "y", "sessionId": "z"}, "AUTH_401_TOKEN_INVALID"),
        ({"tenantId": str(ME.tenant_id), "userId": str(ME.user_id)}, "AUTH_401_TOKEN_INVALID"),
    ],
    ids=str,
)
def test_unauthenticated_request_takes_no_token(world, found, code):
    api, _, limiter, _ = world
    status, body, headers = call(api, "GET", "/me", found=found)
    assert (status, body["code"]) == (401, code)
    assert limiter.buckets == []
    assert "ratelimit-limit" not in headers


def test_api_key_check_gets_the_original_request(world):
    api, accounts, _, _ = world
    status, body, _ = call(
        api, "GET", "/me", found={"apiKey": "1"}, headers={"authorization": "Bearer ak_1", "x-artiway-nonce": "n"}
    )
    assert status == 200
    assert body["session"] == "None"
    ((key, request),) = accounts.asked
    assert key == "ak_1"
    assert (request["method"], request["target"], request["body"]) == ("GET", "/api/v1/me?a=1&b=2", b"")
    assert request["headers"]["x-artiway-nonce"] == "n"


def test_one_requests_identity_is_gone_before_next(world):
    api, accounts, _, _ = world
    assert call(api, "GET", "/me")[0] == 200
    accounts.of_session = lambda **_: (_ for _ in ()).throw(Unauthenticated("no"))
    assert call(api, "GET", "/me")[0] == 401
    assert api._identity is None


def test_repeated_request_with_key_is_performed_once(world):
    api, *_ = world
    answers = [call(api, "POST", "/things", body={"amount": 1}, headers={"idempotency-key": "k"}) for _ in range(3)]
    assert [(status, body) for status, body, _ in answers] == [(201, {"amount": 1, "number": 1})] * 3
    assert all(headers["ratelimit-limit"] == "10" for _, _, headers in answers)
    assert call(api, "POST", "/things", body={"amount": 1})[1]["number"] == 2  # without a key each is its own


def test_refusal_is_not_kept(world):
    api, _, _, once = world
    for body in ({"amount": 0}, {"amount": "x"}):
        assert call(api, "POST", "/things", body=body, headers={"idempotency-key": "k"})[0] == 422
    assert once.kept == {}
    assert call(api, "POST", "/things", body={"amount": 1}, headers={"idempotency-key": "k"})[0] == 201


def test_request_hash_contains_user_and_body(world):
    api, accounts, _, once = world
    call(api, "POST", "/things", body={"amount": 1}, headers={"idempotency-key": "a"})
    call(api, "POST", "/things", body={"amount": 2}, headers={"idempotency-key": "b"})
    accounts.access = replace(ME, user_id=uuid4())
    call(api, "POST", "/things", body={"amount": 1}, headers={"idempotency-key": "c"})
    assert len({request_hash for request_hash, _ in once.kept.values()}) == 3


@pytest.mark.parametrize("key", ["", "x" * 201, "ü", "a\tb"])
def test_invalid_idempotency_key_is_refused_by_name(world, key):
    api, *_ = world
    status, body, _ = call(api, "POST", "/things", body={"amount": 1}, headers={"idempotency-key": key})
    assert status == 422
    assert body["details"]["fields"][0]["field"] == "Idempotency-Key"


def test_no_function_has_protected_route_without_access_check():
    for name, api in apis().items():
        if any(not rule.is_public for rule in api.rules.values()):
            assert api.access_check is not None, name
