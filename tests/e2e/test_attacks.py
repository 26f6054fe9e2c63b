"""Each protected route × each kind of false token, each id parameter × each kind of false id."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from artiway.ids import new_id, to_wire
from tests.e2e.attacks import DOCUMENT, Operation, altered, encoded, operations
from tests.e2e.conftest import KmsSigner, Platform, wait_for
from tests.e2e.people import PASSWORD, Client
from tests.fakes.identity import LocalSigner

PROTECTED = [operation for operation in operations() if operation.permission != "public"]
WITH_IDS = [operation for operation in PROTECTED if operation.parameters]
# How an id of each kind looks, and how the other tenant comes to have one.
PREFIXES = {
    "user_id": "usr",
    "key_id": "key",
    "order_id": "ord",
    "tenant_id": "tnt",
    "task_id": "task",
    "webhook_id": "whk",
    "delivery_id": "dlv",
    "job_id": "job",
    "run_id": "run",
    "backfill_id": "bkf",
    "generation_id": "gen",
    "invitation_id": "inv",
}
# Ids of what belongs to the platform, and names that each tenant chooses for itself: there is no other tenant's.
PLATFORM_IDS = {
    "tenant_id", "lane", "queue", "day", "pool", "model", "worker_id", "key", "type", "secret_name", "any_task_id",
}  # fmt: skip
# What the platform's own people may; a tenant's owner is refused before any id is looked at.
PLATFORM_PERMISSIONS = {"tenant.manage", "ops.read", "ops.write", "points.grant"}


@dataclass
class Cast:
    """The users of the attack tests, on the running stack."""

    client: Client
    database_url: str
    owner: dict[str, Any]
    victim: dict[str, Any]
    no_permissions: str
    admin: str
    false_tokens: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def cast(platform: Platform) -> Iterator[Cast]:
    client = Client(platform.facts["apiUrl"])
    admin = client.log_in(**platform.facts["admin"])["token"]
    owner, victim = client.register("attacker"), client.register("victim")
    for tenant in (owner, victim):
        client.call("PATCH", f"/tenants/{tenant['tenantId']}", {"ratePerSecond": 10_000}, token=admin)
    email = f"{uuid4().hex}@example.com"
    client.call("POST", "/roles", {"name": "nothing", "permissions": []}, token=owner["token"])
    made = client.call(
        "POST", "/users", {"email": email, "password": PASSWORD, "roles": ["nothing"]}, token=owner["token"]
    )
    assert made.status == 201, made
    found = Cast(client, platform.facts["databaseUrl"], owner, victim, client.log_in(email)["token"], admin)
    found.false_tokens = false_tokens(found, platform)
    found.foreign = {name: make(found) for name, make in FOREIGN.items()}
    wait_for(lambda: client.call("GET", "/me", token=owner["token"]).headers["ratelimit-limit"] == "20000")
    yield found
    client.close()
    with psycopg.connect(found.database_url) as connection:  # what was only put there to be attacked
        for name in ("task", "webhook_delivery", "job_run", "generation"):
            query = sql.SQL("DELETE FROM {} WHERE tenant_id = %s").format(sql.Identifier(name))
            connection.execute(query, (_uuid(victim["tenantId"]),))


def false_tokens(cast: Cast, platform: Platform) -> dict[str, tuple[str | None, str]]:
    """What is sent for a token, and the code of the refusal. Each differs from a good one in one thing alone."""
    token = cast.owner["token"]
    variables = platform.aws("lambda").get_function_configuration(FunctionName="AuthorizerFunction")["Environment"]
    key_id = json.loads(variables["Variables"]["ARTIWAY_TOKEN_JWKS"])["keys"][0]["kid"]
    ours, other = KmsSigner(key_id, platform.aws("kms")), LocalSigner()

    def signed(message: bytes, signer: Any) -> str:
        return (message + b"." + encoded(signer.sign(message))).decode()

    past = int(time.time()) - 1_000
    revoked = cast.client.register("revoked")["token"]
    assert cast.client.call("POST", "/auth/logout", token=revoked).status == 204
    wait_for(lambda: cast.client.call("GET", "/me", token=revoked).status == 401)
    invalid = "AUTH_401_TOKEN_INVALID"
    return {
        "no token": (None, invalid),
        "an empty token": ("", invalid),
        "no token at all": ("not.a.token", invalid),
        "expired": (signed(altered(token, claims={"iat": past, "exp": past + 900}), ours), "AUTH_401_TOKEN_EXPIRED"),
        "alg none": (altered(token, header={"alg": "none"}).decode() + ".", invalid),
        "wrong key": (signed(altered(token), other), invalid),
        "wrong audience": (signed(altered(token, claims={"aud": "another-api"}), ours), invalid),
        "wrong issuer": (signed(altered(token, claims={"iss": "another"}), ours), invalid),
        "another type": (signed(altered(token, header={"typ": "JWT"}), ours), invalid),
        "changed claims": (_changed(token), invalid),
        "another's session": (signed(altered(token, claims={"sub": str(uuid4())}), ours), invalid),
        "refresh used as access": (cast.owner["refreshToken"], invalid),
        "revoked": (revoked, invalid),
        "an unknown API key": (f"ak_{'0' * 64}_{'A' * 43}", invalid),
    }


def _changed(token: str) -> str:
    message = altered(token, claims={"per": "tenant.manage ops.write"}).decode()
    return f"{message}.{token.rpartition('.')[2]}"


def _foreign_user(cast: Cast) -> str:
    return str(cast.victim["userId"])


def _foreign_key(cast: Cast) -> str:
    made = cast.client.call("POST", "/api-keys", {"name": "k", "permissions": []}, token=cast.victim["token"])
    return str(made.body["keyId"])


def _foreign_role(cast: Cast) -> str:
    role = {"name": "victims-own", "permissions": []}
    assert cast.client.call("POST", "/roles", role, token=cast.victim["token"]).status == 201
    return "victims-own"


def _foreign_order(cast: Cast) -> str:
    package = cast.client.call("GET", "/packages", token=cast.victim["token"]).body["items"][0]["packageId"]
    order = {"packageId": package, "channel": "native"}
    made = cast.client.call("POST", "/orders", order, token=cast.victim["token"])
    assert made.status == 201, made
    return str(made.body["orderId"])


def _foreign_task(cast: Cast) -> str:
    """A task that is over, so that nothing ever runs it."""
    task_id = new_id()
    with psycopg.connect(cast.database_url) as connection:
        connection.execute(
            "INSERT INTO task (tenant_id, task_id, user_id, tool, status, hold_id, lane, pool, price_points, ended_at)"
            " VALUES (%s, %s, %s, 'cutout', 'CANCELLED', %s, 'free', 'gpu', 1, now())",
            (_uuid(cast.victim["tenantId"]), task_id, _uuid(cast.victim["userId"]), new_id()),
        )
    return to_wire("task", task_id)


def _foreign_webhook(cast: Cast) -> str:
    made = cast.client.call("POST", "/webhooks", {"url": "https://example.com/hook"}, token=cast.victim["token"])
    assert made.status == 201, made
    return str(made.body["webhookId"])


def _foreign_delivery(cast: Cast) -> str:
    delivery_id = new_id()
    with psycopg.connect(cast.database_url) as connection:
        connection.execute(
            "INSERT INTO webhook_delivery (tenant_id, delivery_id, webhook_id, event, body, status)"
            " SELECT tenant_id, %s, webhook_id, 'task.completed', '{}', 'FAILED' FROM webhook WHERE tenant_id = %s",
            (delivery_id, _uuid(cast.victim["tenantId"])),
        )
    return to_wire("dlv", delivery_id)


def _foreign_job(cast: Cast) -> str:
    job = {
        "name": "the victim's",
        "schedule": {"type": "ONCE", "at": "2035-01-01T00:00:00Z"},
        "task": {"type": "HTTP", "url": "https://example.com/hook"},
    }
    made = cast.client.call("POST", "/jobs", job, token=cast.victim["token"])
    assert made.status == 201, made
    return str(made.body["jobId"])


def _foreign_backfill(cast: Cast) -> str:
    """One without runs, of the job above."""
    past = {"from": "2026-02-23T00:00:00Z", "to": "2026-02-23T06:00:00Z"}
    made = cast.client.call("POST", f"/jobs/{_foreign_job(cast)}/backfill", past, token=cast.victim["token"])
    assert made.status == 202, made
    return str(made.body["backfillId"])


def _foreign_run(cast: Cast) -> str:
    """A run that is over, of the job above."""
    run_id = new_id()
    with psycopg.connect(cast.database_url) as connection:
        connection.execute("SELECT job_partition_ensure(current_date)")
        connection.execute(
            "INSERT INTO job_run (tenant_id, run_id, job_id, scheduled_at, assigned_at, due_at, kind, state, task_type,"
            " lane, job_version, ended_at)"
            " SELECT tenant_id, %s, job_id, now(), now(), now(), 'MANUAL', 'TERMINATED', 'HTTP', 'run_low', 1, now()"
            " FROM job WHERE tenant_id = %s LIMIT 1",
            (run_id, _uuid(cast.victim["tenantId"])),
        )
    return to_wire("run", run_id)


def _foreign_generation(cast: Cast) -> str:
    """A free text that is over, so that no worker ever writes it."""
    generation_id = new_id()
    with psycopg.connect(cast.database_url) as connection:
        connection.execute(
            "INSERT INTO generation (tenant_id, generation_id, user_id, service, lane, is_free, status, input,"
            " max_tokens, input_tokens, input_price, output_price, price_points, allowance_day, text, ended_at)"
            " VALUES (%s, %s, %s, 'copywriting', 'free_stream', true, 'CANCELLED', '{}', 1, 1, 1, 1, 0, current_date,"
            " 'the text of the victim', now())",
            (_uuid(cast.victim["tenantId"]), generation_id, _uuid(cast.victim["userId"])),
        )
    return to_wire("gen", generation_id)


def _uuid(wire_id: str) -> UUID:
    return UUID(wire_id.partition("_")[2])


def _foreign_invitation(cast: Cast) -> str:
    body = {"email": f"{uuid4().hex}@example.com", "roles": ["viewer"]}
    made = cast.client.call("POST", "/invitations", body, token=cast.victim["token"])
    return str(made.body["invitationId"])


FOREIGN: dict[str, Callable[[Cast], str]] = {
    "user_id": _foreign_user,
    "key_id": _foreign_key,
    "name": _foreign_role,
    "order_id": _foreign_order,
    "task_id": _foreign_task,
    "webhook_id": _foreign_webhook,
    "delivery_id": _foreign_delivery,
    "job_id": _foreign_job,
    "run_id": _foreign_run,
    "backfill_id": _foreign_backfill,
    "generation_id": _foreign_generation,
    "invitation_id": _foreign_invitation,
}


def test_document_is_one_that_stack_serves(platform):
    assert platform.get("/openapi.json")[2] == DOCUMENT


def test_every_id_parameter_has_an_attack():
    """A route with a new kind of id says here how another tenant comes to have one."""
    names = {name for operation in WITH_IDS for name in operation.parameters}
    assert names <= FOREIGN.keys() | PLATFORM_IDS


def test_empty_header_is_answered_in_our_own_words(cast: Cast):
    answer = cast.client.call("GET", "/me", headers={"authorization": ""})
    assert (answer.status, answer.body["code"]) == (401, "AUTH_401_TOKEN_INVALID")


@pytest.mark.parametrize("operation", PROTECTED, ids=str)
def test_no_false_token_opens_route(cast: Cast, operation: Operation):
    wrong = []
    for attack, (token, code) in cast.false_tokens.items():
        answer = cast.client.call(operation.method, operation.at(), operation.body, token=token)
        if (answer.status, answer.body["code"]) != (401, code) or set(answer.body) != _ERROR_FIELDS:
            wrong.append((attack, answer.status, answer.body))
    assert wrong == []


@pytest.mark.parametrize("operation", [operation for operation in PROTECTED if operation.permission != "user"], ids=str)
def test_route_needs_its_permission(cast: Cast, operation: Operation):
    tokens = [cast.no_permissions]
    if operation.permission in PLATFORM_PERMISSIONS:
        tokens.append(cast.owner["token"])
    for token in tokens:
        answer = cast.client.call(operation.method, operation.at(), operation.body, token=token)
        assert (answer.status, answer.body["code"]) == (403, "AUTH_403_FORBIDDEN"), answer
        assert answer.body["details"] == {"permission": operation.permission}


@pytest.mark.parametrize("operation", WITH_IDS, ids=str)
def test_foreign_id_is_not_found(cast: Cast, operation: Operation):
    """Of another tenant, random, malformed: all 404 with the same answer."""
    token = cast.admin if operation.permission in PLATFORM_PERMISSIONS else cast.owner["token"]
    answers = {}
    for name in operation.parameters:
        others = {one: cast.foreign.get(one, "x") for one in operation.parameters if one != name}
        for attack, value in _false_ids(cast, name).items():
            answer = cast.client.call(
                operation.method, operation.at(**others, **{name: value}), operation.body, token=token
            )
            answers[(name, attack)] = (answer.status, answer.body.get("message") if answer.body else None)
    assert {status for status, _ in answers.values()} == {404}, answers
    for name in set(operation.parameters) - PLATFORM_IDS:
        assert answers[(name, "of another tenant")] == answers[(name, "random")]


def _false_ids(cast: Cast, name: str) -> dict[str, str]:
    prefix = PREFIXES.get(name, "x")
    ids = {
        "random": f"{prefix}_{uuid4().hex}",
        "without its prefix": uuid4().hex,
        "of another kind": f"zzz_{uuid4().hex}",
        "too short": f"{prefix}_{uuid4().hex[:31]}",
        "not hexadecimal": f"{prefix}_{'g' * 32}",
        "long": "x" * 400,
        "SQL": "'%20OR%20'1'='1",
        "a climb": "..%2f..%2fusers",
        "not ASCII": "%C3%A9",
    }
    return ids if name in PLATFORM_IDS else {"of another tenant": cast.foreign[name], **ids}


_ERROR_FIELDS = {"code", "message", "requestId", "details"}
