"""A tenant's life through HTTP: register, invite, work with roles and keys, leave."""

from __future__ import annotations

import hashlib
import hmac
import json
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from artiway.ids import from_wire, new_id, to_wire
from tests.e2e.conftest import Platform, wait_for
from tests.e2e.people import PASSWORD, Client


@pytest.fixture
def client(platform: Platform):
    client = Client(platform.facts["apiUrl"])
    yield client
    client.close()


@pytest.fixture(scope="module")
def admin(platform: Platform):
    client = Client(platform.facts["apiUrl"])
    yield client.log_in(**platform.facts["admin"])["token"]
    client.close()


@pytest.fixture
def owner(client, admin):
    """A new tenant's owner, with a rate limit that tests do not reach."""
    found = client.register()
    assert client.call("PATCH", f"/tenants/{found['tenantId']}", {"ratePerSecond": 1_000}, token=admin).status == 200
    return found


def test_registration_creates_tenant_and_owner(client):
    email = f"Ann{uuid4().hex}@Example.com"
    made = client.call("POST", "/auth/register", {"tenantName": " Shop ", "email": email, "password": PASSWORD})
    assert made.status == 201
    assert set(made.body) == {"tenantId", "userId", "accessToken", "refreshToken", "expiresIn"}
    assert made.body["expiresIn"] == 900
    me = client.call("GET", "/me", token=made.body["accessToken"])
    assert me.status == 200
    assert me.body["email"] == email.lower()
    assert (me.body["tier"], me.body["roles"]) == ("free", ["owner"])
    assert "user.manage" in me.body["permissions"]
    again = client.call("POST", "/auth/register", {"tenantName": "x", "email": email, "password": PASSWORD})
    assert (again.status, again.body["code"]) == (409, "AUTH_409_LOGIN_TAKEN")


def test_login_is_stored_with_address_and_location(client, platform):
    made = client.register()
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        found = connection.execute(
            "SELECT method, address, location FROM login_event WHERE 'usr_' || replace(user_id::text, '-', '') = %s",
            (made["userId"],),
        ).fetchall()
    assert found == [("register", "127.0.0.1", "local network")]


def test_unknown_login_answers_like_wrong_password(client):
    email = f"{uuid4().hex}@example.com"
    client.call("POST", "/auth/register", {"tenantName": "x", "email": email, "password": PASSWORD})
    answers = [
        client.call("POST", "/auth/login", {"login": login, "password": "wrong"})
        for login in (email, f"{uuid4().hex}@example.com")
    ]
    assert {(answer.status, answer.body["code"], answer.body["message"]) for answer in answers} == {
        (401, "AUTH_401_BAD_CREDENTIALS", "the login or the password is not right")
    }


def test_guessing_is_throttled_with_time_to_wait(client):
    login = f"{uuid4().hex}@example.com"
    statuses = [
        client.call("POST", "/auth/login", {"login": login, "password": f"guess {number}"}) for number in range(12)
    ]
    refused = [answer for answer in statuses if answer.status == 429]
    assert refused
    assert {answer.status for answer in statuses} == {401, 429}
    assert all(
        answer.body["code"] == "AUTH_429_THROTTLED" and int(answer.headers["retry-after"]) >= 1 for answer in refused
    )


def test_wechat_code_logs_in_the_same_user(client):
    person = uuid4().hex
    first = client.call("POST", "/auth/wechat", {"code": f"ok-{person}-1", "app": "mini"})
    assert (first.status, first.body["isNew"]) == (200, True)
    web = client.call("POST", "/auth/wechat", {"code": f"ok-{person}-2", "app": "web"})
    assert (web.status, web.body["isNew"], web.body["userId"]) == (200, False, first.body["userId"])
    assert client.call("GET", "/me", token=web.body["accessToken"]).body["email"] is None


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [
        ("nonsense", 401, "AUTH_401_BAD_CREDENTIALS"),
        ("busy-x", 503, "AUTH_503_WECHAT"),
        ("often-x", 429, "AUTH_429_THROTTLED"),
        ("blocked-x", 403, "AUTH_403_ACCOUNT_CLOSED"),
    ],
)
def test_code_refused_by_wechat_is_refused(client, code, status, name):
    answer = client.call("POST", "/auth/wechat", {"code": code, "app": "mini"})
    assert (answer.status, answer.body["code"]) == (status, name)


def test_wechat_code_is_good_once(client):
    code = f"ok-{uuid4().hex}-1"
    assert client.call("POST", "/auth/wechat", {"code": code, "app": "mini"}).status == 200
    assert client.call("POST", "/auth/wechat", {"code": code, "app": "mini"}).status == 401


def test_stolen_refresh_token_ends_session(client, platform):
    made = client.register()
    second = client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]})
    assert second.status == 200
    lost = client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]})
    assert lost.body["refreshToken"] == second.body["refreshToken"]  # a lost answer, asked for again
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:  # the grace is over
        connection.execute("UPDATE refresh_token SET used_at = used_at - interval '11 seconds'")
    stolen = client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]})
    assert (stolen.status, stolen.body["code"]) == (401, "AUTH_401_REFRESH_REUSED")
    after = client.call("POST", "/auth/refresh", {"refreshToken": second.body["refreshToken"]})
    assert (after.status, after.body["code"]) == (401, "AUTH_401_TOKEN_INVALID")
    wait_for(lambda: client.call("GET", "/me", token=second.body["accessToken"]).status == 401)


def test_concurrent_refreshes_through_stack_give_one_successor(client, platform):
    made = client.register()
    start = threading.Barrier(8)

    def refresh(_):
        own = Client(platform.facts["apiUrl"])
        start.wait()
        answers = [own.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]}) for _ in range(5)]
        own.close()
        return [(answer.status, answer.body.get("refreshToken")) for answer in answers]

    with ThreadPoolExecutor(8) as pool:
        answers = {answer for batch in pool.map(refresh, range(8)) for answer in batch}
    assert len(answers) == 1
    assert next(iter(answers))[0] == 200


def test_logout_ends_refresh_at_once_and_access_soon(client):
    made = client.register()
    assert client.call("POST", "/auth/logout", token=made["token"]).status == 204
    assert client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]}).status == 401
    wait_for(lambda: client.call("GET", "/me", token=made["token"]).status == 401)


def test_owner_runs_team(client, owner):
    email = f"{uuid4().hex}@example.com"
    made = client.call(
        "POST", "/users", {"email": email, "password": PASSWORD, "roles": ["viewer"]}, token=owner["token"]
    )
    assert made.status == 201
    bob = client.log_in(email)
    assert client.call("GET", "/users", token=bob["token"]).status == 403
    role = {"name": "team-lead", "permissions": ["user.manage", "task.read", "points.read"]}
    assert client.call("POST", "/roles", role, token=owner["token"]).status == 201
    path = f"/users/{made.body['userId']}"
    assert client.call("PATCH", path, {"roles": ["team-lead"]}, token=owner["token"]).body["roles"] == ["team-lead"]
    wait_for(lambda: client.call("GET", "/users", token=bob["token"]).status == 200)
    grab = client.call("PATCH", path, {"roles": ["owner"]}, token=bob["token"])
    assert (grab.status, grab.body["code"]) == (403, "AUTH_403_FORBIDDEN")
    alone = client.call("DELETE", f"/users/{owner['userId']}", token=owner["token"])
    assert (alone.status, alone.body["code"]) == (409, "USER_409_LAST_OWNER")
    assert client.call("DELETE", path, token=owner["token"]).status == 204
    wait_for(lambda: client.call("GET", "/me", token=bob["token"]).status == 401)
    assert client.call("POST", "/auth/refresh", {"refreshToken": bob["refreshToken"]}).status == 401


def test_lists_come_in_pages(client, owner):
    names = [f"key {number}" for number in range(5)]
    for name in names:
        assert client.call("POST", "/api-keys", {"name": name, "permissions": []}, token=owner["token"]).status == 201
    seen, cursor = [], ""
    while True:
        page = client.call("GET", f"/api-keys?limit=2{cursor}", token=owner["token"]).body
        assert len(page["items"]) <= 2
        seen += [item["name"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == names


def test_key_works_until_it_is_deleted(client, owner):
    made = client.call("POST", "/api-keys", {"name": "ci", "permissions": ["user.manage"]}, token=owner["token"])
    assert made.status == 201
    key = made.body["key"]
    assert client.call("GET", "/users", token=key).status == 200
    assert client.call("GET", "/me", token=key).body["permissions"] == ["user.manage"]
    assert client.call("POST", "/auth/logout", token=key).status == 403
    assert client.call("POST", "/api-keys", {"name": "x", "permissions": ["task.read"]}, token=key).status == 403
    listed = client.call("GET", "/api-keys", token=owner["token"]).body["items"]
    assert [item["keyId"] for item in listed] == [made.body["keyId"]]
    assert "key" not in listed[0]
    assert client.call("DELETE", f"/api-keys/{made.body['keyId']}", token=owner["token"]).status == 204
    wait_for(lambda: client.call("GET", "/users", token=key).status == 401)


def test_key_manages_no_keys_beyond_itself(client, owner):
    def make(token, **asked):
        return client.call("POST", "/api-keys", {"name": "k", "permissions": [], **asked}, token=token)

    other = make(owner["token"]).body
    soon = datetime.now(UTC) + timedelta(minutes=5)
    parent = make(owner["token"], expiresAt=soon.isoformat(), permissions=["user.manage"]).body
    child = make(parent["key"])
    assert child.status == 201
    assert datetime.fromisoformat(child.body["expiresAt"]) == soon
    longer = make(parent["key"], expiresAt=(soon + timedelta(seconds=1)).isoformat())
    assert (longer.status, longer.body["code"]) == (403, "KEY_403_BEYOND_PARENT")
    assert make(child.body["key"]).status == 403
    listed = client.call("GET", "/api-keys", token=parent["key"]).body["items"]
    assert [(item["keyId"], item["parentKeyId"]) for item in listed] == [
        (parent["keyId"], None),
        (child.body["keyId"], parent["keyId"]),
    ]
    assert client.call("DELETE", f"/api-keys/{other['keyId']}", token=parent["key"]).status == 404
    assert client.call("DELETE", f"/api-keys/{parent['keyId']}", token=owner["token"]).status == 204
    wait_for(lambda: client.call("GET", "/me", token=child.body["key"]).status == 401)
    assert client.call("GET", "/me", token=other["key"]).status == 200


def test_colleagues_task_is_cancelled_only_with_task_manage(client, owner, platform):
    email, task_id = f"{uuid4().hex}@example.com", new_id()
    invitation = {"email": email, "password": PASSWORD, "roles": ["member"]}
    assert client.call("POST", "/users", invitation, token=owner["token"]).status == 201
    member = client.log_in(email)
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:  # over, so that nothing ever runs it
        connection.execute(
            "INSERT INTO task (tenant_id, task_id, user_id, tool, status, hold_id, lane, pool, price_points, ended_at)"
            " VALUES (%s, %s, %s, 'cutout', 'CANCELLED', %s, 'free', 'gpu', 1, now())",
            (from_wire("tnt", owner["tenantId"]), task_id, from_wire("usr", owner["userId"]), new_id()),
        )
    path = f"/tasks/{to_wire('task', task_id)}"
    for act in ("cancel", "retry"):
        refused = client.call("POST", f"{path}/{act}", token=member["token"])
        assert (refused.status, refused.body["code"]) == (403, "AUTH_403_FORBIDDEN")
        assert refused.body["details"] == {"permission": "task.manage"}
    assert client.call("POST", f"{path}/cancel", token=owner["token"]).status == 202
    stranger = client.register()
    assert client.call("POST", f"{path}/cancel", token=stranger["token"]).status == 404


def test_suspended_tenant_gets_403_of_its_own(client, admin):
    email = f"{uuid4().hex}@example.com"
    client.call("POST", "/auth/register", {"tenantName": "x", "email": email, "password": PASSWORD})
    made = client.log_in(email)
    key = client.call("POST", "/api-keys", {"name": "k", "permissions": []}, token=made["token"]).body["key"]
    path = f"/tenants/{made['tenantId']}"
    change = {"status": "SUSPENDED", "ratePerSecond": 1_000}
    assert client.call("PATCH", path, change, token=admin).status == 200
    asked = [("/me", made["token"]), ("/me", key), ("/tools", made["token"])]
    for route, token in asked:
        wait_for(lambda route=route, token=token: client.call("GET", route, token=token).status not in (200, 429))
    answers = [
        *(client.call("GET", route, token=token) for route, token in asked),
        client.call("POST", "/auth/login", {"login": email, "password": PASSWORD}),
        client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]}),
    ]
    assert {(answer.status, answer.body["code"]) for answer in answers} == {(403, "TENANT_403_SUSPENDED")}
    assert client.call("PATCH", path, {"status": "ACTIVE"}, token=admin).status == 200
    assert client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]}).status == 200


def test_signed_request_passes_once_and_unchanged(client, owner):
    permissions = {"name": "signer", "permissions": ["user.manage"], "signed": True}
    key = client.call("POST", "/api-keys", permissions, token=owner["token"]).body["key"]

    def signed(method, path, body=b"", nonce=None):
        signing_key = hashlib.sha256(key[len("ak_") + 65 :].encode()).digest()
        timestamp, nonce = str(int(time.time())), nonce or uuid4().hex
        text = "\n".join([method, f"/api/v1{path}", timestamp, nonce, hashlib.sha256(body).hexdigest()])
        signature = hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()
        return {"x-artiway-timestamp": timestamp, "x-artiway-nonce": nonce, "x-artiway-signature": signature}

    shown = key[: len("ak_") + 64]  # the secret stays at home
    assert client.call("GET", "/users?limit=7", token=shown, headers=signed("GET", "/users?limit=7")).status == 200
    body = json.dumps({"name": "made-by-machine", "permissions": []}).encode()
    headers = signed("POST", "/roles", body)
    assert client.call("POST", "/roles", token=shown, headers=headers, raw=body + b" ").status == 401
    assert client.call("POST", "/roles", token=shown, headers=headers, raw=body).status == 201
    replay = client.call("POST", "/roles", token=shown, headers=headers, raw=body)
    assert (replay.status, replay.body["code"]) == (401, "AUTH_401_SIGNATURE_INVALID")
    assert client.call("GET", "/users", token=key).status == 401  # the secret alone does not do


def test_administrator_sets_the_limits_of_a_tenant(client, admin):
    owner = client.register()
    answer = client.call("GET", "/me", token=owner["token"])
    assert answer.headers["ratelimit-limit"] == "10"
    path = f"/tenants/{owner['tenantId']}"
    changed = client.call("PATCH", path, {"tier": "vip", "weight": 7, "queueDepth": 3}, token=admin)
    assert changed.status == 200
    assert (changed.body["weight"], changed.body["queueDepth"], changed.body["concurrency"]) == (7, 3, 20)
    assert changed.body["overrides"]["weight"] == 7
    wait_for(lambda: client.call("GET", "/me", token=owner["token"]).headers["ratelimit-limit"] == "100")
    back = client.call("PATCH", path, {"weight": None}, token=admin)
    assert back.body["weight"] == 5
    made = client.call(
        "POST",
        "/tenants",
        {"name": "new", "tier": "standard", "owner": {"email": f"{uuid4().hex}@example.com", "password": PASSWORD}},
        token=admin,
    )
    assert (made.status, made.body["ratePerSecond"]) == (201, 20)
    assert client.call("GET", "/tenants", token=owner["token"]).status == 403


def test_tenant_over_its_limit_gets_retry_after(client, admin):
    owner = client.register()
    client.call("PATCH", f"/tenants/{owner['tenantId']}", {"ratePerSecond": 1, "burst": 2}, token=admin)
    wait_for(lambda: client.call("GET", "/me", token=owner["token"]).headers["ratelimit-limit"] == "2")
    answers = [client.call("GET", "/me", token=owner["token"]) for _ in range(8)]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    assert refused[0].body["code"] == "RATE_429_LIMITED"
    assert int(refused[0].headers["retry-after"]) >= 1
    assert refused[0].headers["ratelimit-remaining"] == "0"


def test_without_redis_people_work_on(client, stack, platform):
    made = client.register()
    with stack.unwatched():
        stack.servers["valkey"].process.kill()
        stack.servers["valkey"].process.wait()
        assert client.call("GET", "/me", token=made["token"]).status == 200
        assert client.call("POST", "/auth/refresh", {"refreshToken": made["refreshToken"]}).status == 200
        assert client.call("POST", "/auth/logout", token=made["token"]).status == 204
    wait_for(lambda: platform.health()["status"] == "ok")
    wait_for(lambda: client.call("GET", "/me", token=made["token"]).status == 401, seconds=70)


def test_administrator_of_stack_is_kept_to_its_owner(stack, platform):
    file = stack.home / "admin.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == platform.facts["admin"]


# --- bad input: the field is named, nothing is written, nothing breaks


BAD_BODIES = {
    "malformed": (b"{", 422),
    "not an object": (b"[1]", 422),
    "empty": (b"", 422),
    "a NUL": (b'{"tenantName": "a\\u0000b", "email": "a@example.com", "password": "correct horse"}', 422),
    "a lone surrogate": (b'{"tenantName": "\\ud800", "email": "a@example.com", "password": "correct horse"}', 422),
    "an endless integer": (b'{"tenantName": ' + b"9" * 5_000 + b"}", 422),
    "a huge integer": (b'{"tenantName": "a", "email": "a@example.com", "password": 1e400}', 422),
    "deep": (b'{"tenantName": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", 422),
    "not UTF-8": (b'{"tenantName": "\xff"}', 422),
    "a constant that is not JSON": (b'{"tenantName": NaN}', 422),
    "an unknown field": (
        b'{"tenantName": "a", "email": "a@example.com", "password": "correct horse", "isAdmin": true}',
        422,
    ),
    "too large": (b'{"tenantName": "' + b"a" * 1_000_001 + b'"}', 413),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_invalid_body_writes_nothing(client, platform, case):
    raw, status = BAD_BODIES[case]
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        count = "SELECT (SELECT count(*) FROM tenant), (SELECT count(*) FROM app_user), (SELECT count(*) FROM session)"
        before = connection.execute(count).fetchone()
        answer = client.call("POST", "/auth/register", raw=raw)
        connection.rollback()
        assert connection.execute(count).fetchone() == before
    assert answer.status == status, answer
    assert set(answer.body) == {"code", "message", "requestId", "details"}
    if status == 422:
        assert answer.body["details"]["fields"][0]["field"]


def test_unknown_field_is_one_that_is_named(client):
    answer = client.call("POST", "/auth/register", raw=BAD_BODIES["an unknown field"][0])
    assert answer.body["details"]["fields"] == [
        {"field": "isAdmin", "reason": answer.body["details"]["fields"][0]["reason"]}
    ]


def test_another_media_type_is_refused(client):
    answer = client.call("POST", "/auth/login", raw=b"login=a", headers={"content-type": "text/plain"})
    assert (answer.status, answer.body["code"]) == (415, "REQUEST_415_MEDIA_TYPE")
