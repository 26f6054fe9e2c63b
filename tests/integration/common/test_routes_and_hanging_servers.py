"""Every route of the API while PostgreSQL or Redis hangs: a documented answer, in time, and only where there is no way
around it a refusal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest

from artiway import bootstrap
from artiway.audit.repository import AuditLog
from artiway.bootstrap import payments
from artiway.identity.repository import PostgresAccounts
from artiway.identity.service import AuthService
from artiway.identity.token_verifier import Verifier
from artiway.ids import new_id, to_wire
from artiway.platform import http
from tests.conftest import Addresses
from tests.e2e.attacks import Operation, operations
from tests.fakes.clock import FixedClock
from tests.fakes.identity import LocalSigner, QuickPasswords
from tests.fakes.outbox import unsent_outbox
from tests.integration.common.hung import DATABASE, frozen, redis_waits
from tests.integration.identity.conftest import ISSUER, make_auth
from tools.openapi import apis

# Streams answer through another runtime: tests/unit/platform/test_streams.py. The logout ends the session: last.
ROUTES = sorted(
    (operation for operation in operations() if not operation.path.endswith("/events")),
    key=lambda operation: "logout" in operation.path,
)
PROTECTED = [operation for operation in ROUTES if operation.permission != "public"]
# What is promised: an answer within three seconds, of which Redis may take one.
ANSWER_S, REDIS_S = 3, 1
# Limits for the tests over all routes, whose number matters more than their length.
SHORT = {
    "DATABASE_CONNECT_TIMEOUT_S": "0.05",
    "DATABASE_BEGIN_TIMEOUT_S": "0.05",
    "DATABASE_STATEMENT_TIMEOUT_MS": "10",
    "DATABASE_REQUEST_TIMEOUT_S": "0.1",
    "REDIS_CONNECT_TIMEOUT_S": "0.05",
    "REDIS_TIMEOUT_S": "0.05",
}
# For the server that works, on a machine that is busy with other tests.
LONG = {
    "DATABASE_CONNECT_TIMEOUT_S": "10",
    "DATABASE_BEGIN_TIMEOUT_S": "60",
    "DATABASE_STATEMENT_TIMEOUT_MS": "60000",
    "DATABASE_REQUEST_TIMEOUT_S": "60",
}
IDS = {
    "user_id": "usr",
    "key_id": "key",
    "order_id": "ord",
    "tenant_id": "tnt",
    "task_id": "task",
    "webhook_id": "whk",
    "delivery_id": "dlv",
}
PARAMETERS = {"lane": "vip_short", "queue": "push", "day": "2026-01-01", "name": "editor"}
PARAMETERS |= {"model": "diffusion", "worker_id": "worker-1", "key": "price.cutout", "type": "tools"}
QUERIES = {"DELETE /ops/cache": {"prefix": "geo:"}, "GET /ops/series": {"name": "waiting"}}
# Where the least body of the document is refused for what it says.
BODIES: dict[str, Callable[[], Any]] = {
    "PUT /ops/models/{model}": lambda: {"limit": None},
    "PUT /ops/settings/{key}": lambda: {"value": 3},
    "POST /ops/cache/refresh": lambda: {"name": "settings"},
    "POST /auth/register": lambda: {"tenantName": "t", "email": email(), "password": PASSWORD},
    "POST /orders": lambda: {"packageId": "starter", "channel": "native"},
    "POST /points/grants": lambda: {"userId": to_wire("usr", new_id()), "amount": 5, "reason": "r"},
    "POST /points/transfers": lambda: {"toUserId": to_wire("usr", new_id()), "amount": 5},
    "POST /tasks": lambda: {"tool": "model_photo", "inputs": {"product": to_wire("inp", new_id())}},
    "POST /tasks/estimate": lambda: {"tool": "model_photo", "inputs": {"product": to_wire("inp", new_id())}},
    "POST /users": lambda: {"email": email(), "password": PASSWORD, "roles": ["viewer"]},
    "POST /webhooks": lambda: {"url": f"https://example.com/{uuid4().hex}"},
    **{
        f"POST /ops/{kind}/{act}": lambda prefix=prefix: {"ids": [to_wire(prefix, new_id())]}
        for kind, prefix in (("runs", "run"), ("generations", "gen"))
        for act in ("retry", "cancel")
    },
}
# They read files of the layer, or SQS, or say what is away.
NO_DATABASE = {
    "GET /docs",
    "GET /openapi.json",
    "GET /health",
    "GET /ops/health",
    "GET /packages",
    "GET /dictionaries",
    "GET /dictionaries/{type}",
    "GET /ops/cache",
    "GET /services",
    "GET /ops/dlq/{queue}",
    "POST /ops/dlq/{queue}/discard",
    "POST /ops/dlq/{queue}/replay",
}
# Only WeChat can sign what they take; the tests of payments do so in its name.
SIGNED_BY_WECHAT = {"POST /wechat/pay/notify", "POST /wechat/refund/notify"}
# The queue's clocks are in Redis alone.
NO_FALLBACK = {"GET /ops/scheduler", "GET /ops/fairness", "GET /ops/decisions"}
# They read and change Redis itself.
NO_FALLBACK |= {"GET /ops/cache", "DELETE /ops/cache"}
MERCHANT = SimpleNamespace(mchid="1900000001", appid="wx0000000000000001")  # enough to store an order
EMAIL, PASSWORD = "admin@example.com", "correct horse"


def email() -> str:
    return f"{uuid4().hex}@example.com"


def by_name(route: str) -> Operation:
    return next(operation for operation in ROUTES if str(operation) == route)


def is_understood(operation: Operation) -> bool:
    """Whether we know how to ask for something that makes sense; a new route is at least asked."""
    has_body = operation.body is None or not operation.spec["requestBody"].get("required") or str(operation) in BODIES
    return has_body and set(operation.parameters) <= {*IDS, *PARAMETERS}


@dataclass
class Platform:
    """All functions in one process, and an administrator with every permission."""

    handlers: dict[str, http.Api]
    session: dict[str, str]
    renew: Callable[[], object]  # a new environment of the functions, with the settings that the test wants

    def call(self, operation: Operation) -> tuple[int, dict[str, Any], dict[str, str]]:
        ids = {name: to_wire(prefix, new_id()) for name, prefix in IDS.items()}
        path = operation.at(**ids, **PARAMETERS)
        found = self.session if operation.permission != "public" else None
        wanted = BODIES.get(str(operation), lambda: unlike(operation.body))()
        body = None if wanted is None else json.dumps(wanted)
        event = {
            "version": "2.0",
            "routeKey": f"{operation.method} {operation.path}",
            "rawPath": f"/api/v1{path}",
            "rawQueryString": urlencode(QUERIES.get(str(operation), {})),
            "queryStringParameters": QUERIES.get(str(operation), {}),
            "headers": {"content-type": "application/json", "idempotency-key": uuid4().hex},
            "pathParameters": {},
            "requestContext": {
                "http": {"method": operation.method, "path": f"/api/v1{path}", "sourceIp": "192.0.2.1"},
                "domainName": "api.example.com",
                "stage": "$default",
                "requestId": "r",
                "authorizer": {"lambda": found},
            },
            "body": body,
            "isBase64Encoded": False,
        }
        answer = self.handlers[event["routeKey"]].handler(event, None)
        text = answer["body"]
        return answer["statusCode"], json.loads(text) if text.startswith("{") else {}, answer["headers"]


def unlike(value: Any) -> Any:
    """The same body with texts that no request had before: making a thing twice would be another answer."""
    if isinstance(value, dict):
        return {name: unlike(item) for name, item in value.items()}
    if isinstance(value, list):
        return [unlike(item) for item in value]
    return f"x{uuid4().hex[:20]}" if isinstance(value, str) and set(value) == {"x"} else value


def forget() -> None:
    """Make everything anew, as a new environment of the functions would."""
    for made in (bootstrap.database, bootstrap.service_database, bootstrap.redis):
        if made.is_made:
            made().close()
    bootstrap.forget_all()


@pytest.fixture(scope="module")
def handlers():
    return {route: api for api in apis().values() for route in api.rules}


@pytest.fixture
def start(monkeypatch, postgres_server, valkey_server, handlers):
    """The platform on servers that work, with the settings of a function of the API and those given."""
    addresses, signer = Addresses.of(postgres_server.url, DATABASE), LocalSigner()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # no AWS here, and it refuses at once

    def set_up(settings: dict[str, str]) -> AuthService:
        environment = {
            "DATABASE_URL": addresses.app,
            "SERVICE_DATABASE_URL": addresses.service,
            "REDIS_URL": valkey_server.url,
            "EVENTS_WAIT_MS": "0",
            "ARTEFACT_BUCKET": "artefacts",
        }
        for name in {*SHORT, *LONG}:
            monkeypatch.delenv(f"ARTIWAY_{name}", raising=False)
        for name, value in (environment | settings).items():
            monkeypatch.setenv(f"ARTIWAY_{name}", value)
        forget()
        auth = make_auth(
            bootstrap.service_database(), FixedClock(datetime.now(UTC)), signer, revocations=bootstrap.cached_access()
        )
        monkeypatch.setattr(bootstrap, "auth", lambda: auth)  # without KMS
        cipher = SimpleNamespace(encrypt=lambda **_: b"ciphertext")
        # Without KMS. The package names a provider as its module.
        monkeypatch.setattr(import_module("artiway.bootstrap.definitions"), "job_secret_cipher", lambda: cipher)
        parameter = SimpleNamespace(text=lambda: "{}")  # no dead-letter queue
        monkeypatch.setattr(import_module("artiway.bootstrap.recovery"), "dead_letter_parameter", lambda: parameter)
        monkeypatch.setattr(payments, "merchant", lambda: lambda: MERCHANT)
        return auth

    def make(*, is_warm: bool = False, **settings: str) -> Platform:
        """`is_warm`: the cache knows what the administrator may do."""
        auth = set_up(LONG)
        bootstrap.redis().flushall()
        accounts = PostgresAccounts(bootstrap.service_database(), AuditLog(), unsent_outbox())
        accounts.put_administrator(email=EMAIL, password_hash=QuickPasswords().hash(PASSWORD))
        tokens = auth.login(login=EMAIL, password=PASSWORD, address="")
        bootstrap.tenants().change(tokens.tenant_id, {"rate_per_second": 10_000}, actor_id=tokens.user_id)
        claims = Verifier(json.dumps({"keys": [signer.jwk()]}), issuer=ISSUER).verify(tokens.access_token)
        if is_warm:
            session_id = UUID(claims.family_id)
            ids = {"tenant_id": tokens.tenant_id, "user_id": tokens.user_id, "session_id": session_id}
            assert "ops.write" in bootstrap.access().of_session(**ids).permissions
        session = {"tenantId": str(tokens.tenant_id), "userId": str(tokens.user_id), "sessionId": claims.family_id}
        return Platform(handlers, session, renew=lambda: set_up(settings))

    yield make
    forget()


def refusal(answer: tuple[int, dict[str, Any], dict[str, str]]) -> tuple[int, str, str]:
    status, body, headers = answer
    return status, str(body.get("code")), headers.get("retry-after", "")


class TestPostgres:
    AWAY = (503, "PLATFORM_503_DATABASE", "2")

    def test_access_check_without_postgres_is_503(self, start, postgres_server):
        platform = start(**SHORT)
        platform.renew()
        with frozen(postgres_server):
            answers = {str(operation): refusal(platform.call(operation)) for operation in PROTECTED}
        assert set(answers.values()) == {self.AWAY}, answers

    def test_route_without_postgres_answers_503_if_needed(self, start, postgres_server):
        platform = start(is_warm=True, **SHORT)
        platform.renew()
        with frozen(postgres_server):
            # What needs no database comes first: on a busy machine the others take longer than a minute, and the access
            # check is cached for no longer.
            routes = sorted(ROUTES, key=lambda operation: str(operation) not in NO_DATABASE)
            answers = [(operation, refusal(platform.call(operation))) for operation in routes]
        for operation, answer in answers:
            if str(operation) in NO_DATABASE:
                assert answer[0] in {200, 404}, operation
            elif answer != self.AWAY and not is_understood(operation):
                assert answer[0] in {404, 422}, operation
            elif str(operation) not in SIGNED_BY_WECHAT:
                assert answer == self.AWAY, operation

    @pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "cold"])
    @pytest.mark.parametrize("route", ["GET /me", "POST /points/transfers", "GET /ops/invariants", "POST /auth/login"])
    def test_answer_comes_within_three_seconds(self, start, postgres_server, route, is_connected):
        platform, operation = start(is_warm=is_connected), by_name(route)
        platform.renew()
        if is_connected:
            platform.call(operation)
        with frozen(postgres_server):
            began = time.monotonic()
            answer = refusal(platform.call(operation))
            assert time.monotonic() - began < ANSWER_S
        assert answer == self.AWAY
        assert platform.call(operation)[0] != 503

    def test_health_is_degraded_within_three_seconds(self, start, postgres_server, valkey_server):
        platform, operation = start(), by_name("GET /health")
        platform.renew()
        assert platform.call(operation)[1]["status"] == "ok"
        with frozen(postgres_server), frozen(valkey_server):
            began = time.monotonic()
            _, answer, _ = platform.call(operation)
            assert time.monotonic() - began < ANSWER_S
        assert answer == {"status": "degraded", "checks": {"postgres": "away", "redis": "away"}}


class TestRedis:
    AWAY = (503, "PLATFORM_503_REDIS", "2")

    def test_route_waits_once_and_answers_as_ever(self, start, monkeypatch, valkey_server):
        platform = start(**SHORT | LONG)
        answers = []
        with frozen(valkey_server):
            for operation in ROUTES:
                platform.renew()
                with redis_waits(monkeypatch) as asked:
                    answers.append((operation, refusal(platform.call(operation))))
                assert len(asked.unanswered) <= 1, operation
        platform = start(**LONG)
        platform.renew()
        for operation, answer in answers:
            if str(operation) in NO_FALLBACK:
                assert answer == self.AWAY, operation
            elif str(operation) == "POST /points/trial":  # once per tenant
                assert (answer[0], platform.call(operation)[0]) == (201, 409)
            else:
                assert answer[0] == platform.call(operation)[0], operation

    @pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "cold"])
    @pytest.mark.parametrize("route", ["GET /me", "GET /health", "GET /ops/health", "POST /ops/lanes/{lane}/pause"])
    def test_all_waits_for_redis_take_second(self, start, monkeypatch, valkey_server, route, is_connected):
        platform, operation = start(**LONG), by_name(route)
        platform.renew()
        if is_connected:
            bootstrap.redis().ping()
        with frozen(valkey_server), redis_waits(monkeypatch) as asked:
            status, _, _ = platform.call(operation)
        assert status == 200
        assert 0 < asked.waited_s < REDIS_S
