"""Flows with HTTP nodes, old logs in the archive, and the guard of runs, on one running stack."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import Request, urlopen
from uuid import UUID, uuid4

import psycopg
import pytest

from artiway.ids import from_wire, to_wire
from local import photos
from local.emulator import client
from tests.e2e.conftest import wait_for
from tests.e2e.people import Answer, Client
from tests.e2e.studio import RECEIVER_PORT, Studio
from tests.unit.tasks.test_webhooks import verified

TARGET = f"http://127.0.0.1:{RECEIVER_PORT}"
FAR = {"type": "ONCE", "at": "2035-01-01T00:00:00Z"}
AGE = 60  # days
LOW_LIMITS = {"run_guard.backlog": 1, "run_guard.backlog_for_s": 20, "run_guard.calm_for_s": 20}
ENDED = {"COMPLETED", "PARTIAL", "FAILED", "CANCELLED"}
Call = Callable[..., Answer]


@pytest.fixture(scope="module")
def received() -> Iterator[list[tuple[str, dict[str, str], bytes]]]:
    """What the shop's system gets. `/no` answers 404, any other path 200 with its name."""
    found: list[tuple[str, dict[str, str], bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            found.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(404 if self.path == "/no" else 200)
            self.end_headers()
            self.wfile.write(f"order {self.path}".encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", RECEIVER_PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def people(studio: Studio, received: object) -> Iterator[tuple[Call, Call]]:
    """An owner with points, and an administrator."""
    facts = studio.stack.facts
    with contextlib.closing(Client(facts["apiUrl"])) as api:
        admin = api.log_in(**facts["admin"])["token"]
        owner = api.register("flows")

        def as_user(token: str) -> Call:
            return lambda method, path, body=None, **more: api.call(method, path, body, token=token, **more)

        as_user(admin)("PATCH", f"/tenants/{owner['tenantId']}", {"ratePerSecond": 10_000})
        grant = {"userId": owner["userId"], "amount": 1_000, "reason": "a start"}
        key = {"idempotency-key": uuid4().hex}
        assert as_user(admin)("POST", "/points/grants", grant, headers=key).status in {200, 201}
        yield as_user(owner["token"]), as_user(admin)


@pytest.fixture
def call(people) -> Call:
    return people[0]


@pytest.fixture
def admin(people) -> Call:
    return people[1]


@pytest.fixture
def database(studio: Studio) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(studio.stack.facts["databaseUrl"], autocommit=True) as connection:
        yield connection


def sweep(studio: Studio, name: str, **more: Any) -> Any:
    lambdas = client("lambda", studio.stack.facts["lambdaUrl"])
    answer = lambdas.invoke(FunctionName="WatchdogFunction", Payload=json.dumps({"pass": name, **more}).encode())
    assert "FunctionError" not in answer
    return json.load(answer["Payload"])


def upload(call: Call) -> str:
    photo = photos.shirt(photos.BLUE, side=160)
    ticket = call("POST", "/uploads", {"contentType": "image/png", "bytes": len(photo)}).body
    urlopen(Request(ticket["url"], photo, ticket["headers"], method="PUT"), timeout=30).close()
    return str(ticket["inputId"])


def submit(call: Call, *nodes: dict[str, Any], **more: Any) -> Answer:
    return call("POST", "/flows", {"nodes": nodes, **more}, headers={"idempotency-key": uuid4().hex})


def ended(call: Call, task_id: str) -> Any:
    path = f"/tasks/{task_id}"
    return wait_for(lambda: (view := call("GET", path).body)["status"] in ENDED and view, 120)


class TestFlow:
    def test_picture_is_announced_to_the_shop(self, call, received):
        secret = call("POST", "/jobs/signing-secret").body["signingSecret"]
        assert call("PUT", "/secrets/SHOP_KEY", {"value": "s3cr3t-of-the-shop"}).status == 200
        order = {"name": "order", "type": "http", "params": {"url": f"{TARGET}/order", "body": "new"}}
        picture = {"name": "picture", "tool": "cutout", "inputs": {"product": upload(call)}}
        body = {"order": "{{nodes.order.answer}}", "picture": "{{nodes.picture.url}}"}
        headers = {"Authorization": "Bearer secret:SHOP_KEY"}
        params = {"url": f"{TARGET}/ready", "headers": headers, "body": body}
        accepted = submit(call, order, picture, {"name": "ready", "type": "http", "params": params})
        assert accepted.status == 202, accepted
        view = ended(call, accepted.body["taskId"])
        assert view["status"] == "COMPLETED", view
        nodes = {node["name"]: node for node in view["nodes"]}
        assert nodes["ready"]["dependsOn"] == ["order", "picture"]
        answer = nodes["ready"]["answer"]
        assert (answer["httpStatus"], answer["text"]) == (200, "order /ready")
        assert nodes["picture"]["answer"] is None
        (sent,) = [one for one in received if one[0] == "/ready"]
        assert verified(secret, sent[1], sent[2])
        assert sent[1]["authorization"] == "Bearer s3cr3t-of-the-shop"
        assert sent[1]["idempotency-key"] == f"{accepted.body['taskId']}:ready"
        found = json.loads(sent[2])
        assert found["order"] == "order /order"
        with urlopen(found["picture"], timeout=30) as got:
            assert got.read(4) == b"\x89PNG"
        assert view["chargedPoints"] == view["pricePoints"] == accepted.body["pricePoints"]

    def test_stop_cancels_what_has_not_started(self, call, received):
        nodes = [
            {"name": name, "type": "http", "params": {"url": f"{TARGET}/{path}"}, "dependsOn": before}
            for name, path, before in (("bad", "no", []), ("first", "stopped", []), ("later", "stopped", ["first"]))
        ]
        nodes[1]["dependsOn"] = ["refused"]
        nodes.append({"name": "refused", "type": "http", "params": {"url": f"{TARGET}/no"}})
        accepted = submit(call, *nodes, onFailure="stop")
        view = ended(call, accepted.body["taskId"])
        statuses = {node["name"]: node["status"] for node in view["nodes"]}
        assert (statuses["first"], statuses["later"], view["status"]) == ("CANCELLED", "CANCELLED", "FAILED")
        assert "/stopped" not in [path for path, _, _ in received]
        assert view["chargedPoints"] == 0

    @pytest.mark.parametrize(
        "params",
        [
            {"url": "http://169.254.169.254/latest/meta-data"},
            {"url": f"{TARGET}/x", "body": "{{nodes.nobody.answer}}"},
            {"url": f"{TARGET}/x", "headers": {"X": "secret:NOT_THERE"}},
            {"url": f"{TARGET}/x", "body": "x" * 70_000},
        ],
        ids=["private", "unknown node", "unknown secret", "large"],
    )
    def test_bad_node_is_refused_and_nothing_stored(self, call, params):
        before = call("GET", "/tasks").body["items"]
        answer = submit(call, {"name": "a", "type": "http", "params": params})
        assert (answer.status, answer.body["code"]) == (422, "REQUEST_422_INVALID")
        assert call("GET", "/tasks").body["items"] == before

    def test_scheduled_flow_makes_its_call(self, call, received):
        node = {"name": "a", "type": "http", "params": {"url": f"{TARGET}/scheduled"}}
        task = {"type": "FLOW", "nodes": [node], "onFailure": "stop"}
        job = call("POST", "/jobs", {"name": "f", "schedule": FAR, "task": task})
        assert job.status == 201, job
        run = call("POST", f"/jobs/{job.body['jobId']}/trigger", headers={"idempotency-key": uuid4().hex}).body
        path = f"/runs/{run['runId']}"
        shown = wait_for(lambda: (view := call("GET", path).body)["endedAt"] and view, 120)
        assert shown["state"] == "SUCCESS", shown
        assert [path for path, _, _ in received].count("/scheduled") == 1
        assert call("DELETE", "/secrets/SHOP_KEY").status in {204, 404}

    def test_secret_of_a_scheduled_flow_stays(self, call):
        assert call("PUT", "/secrets/FLOW_KEY", {"value": "v"}).status == 200
        node = {"name": "a", "type": "http", "params": {"url": f"{TARGET}/x", "body": "secret:FLOW_KEY"}}
        assert (
            call("POST", "/jobs", {"name": "g", "schedule": FAR, "task": {"type": "FLOW", "nodes": [node]}}).status
            == 201
        )
        assert call("DELETE", "/secrets/FLOW_KEY").status == 409


def aged(database: psycopg.Connection[Any], run_id: UUID) -> UUID:
    """Move the rows of a run into the past. A run's id begins with its time in milliseconds."""
    old = UUID(int=run_id.int - (AGE * 86_400_000 << 80))
    day = f"date (now() - interval '{AGE} days')"
    database.execute(
        f"SELECT job_partition_ensure(({day} + number)::date) FROM generate_series(-1, 1) AS number".encode()
    )
    for table in ("job_run", "run_result", "run_log"):
        times = database.execute(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name = %s AND data_type LIKE 'timestamp%%'",
            [table],
        ).fetchall()
        changes = ", ".join(f"{name} = {name} - interval '{AGE} days'" for (name,) in times)
        database.execute(f"UPDATE {table} SET run_id = %s, {changes} WHERE run_id = %s".encode(), [old, run_id])
    return old


@pytest.fixture(scope="module")
def archived(people, studio):
    """A run with its log that ended 60 days ago, and what the API showed of it before it was archived."""
    call = people[0]
    body = {"name": "old", "schedule": FAR, "task": {"type": "HTTP", "url": f"{TARGET}/no"}}
    job = call("POST", "/jobs", body).body
    run = call("POST", f"/jobs/{job['jobId']}/trigger", headers={"idempotency-key": uuid4().hex}).body
    wait_for(lambda: call("GET", f"/runs/{run['runId']}").body["endedAt"], 60)
    with psycopg.connect(studio.stack.facts["databaseUrl"], autocommit=True) as database:
        path = f"/runs/{to_wire('run', aged(database, from_wire('run', run['runId'])))}"
        before = (call("GET", path).body, call("GET", f"{path}/logs").body["items"])
        assert before[0]["state"] == "FAILED"
        assert before[1]
        counts = sweep(studio, "archive")
        assert counts["failures"] == 0
        assert counts["days"] >= 1
        left = database.execute("SELECT count(*) FROM job_run WHERE run_id = %s", [from_wire("run", path[6:])])
        assert left.fetchone() == (0,)
    return path, before


class TestOldLog:
    @pytest.fixture
    def objects(self, studio):
        """The objects of the archive, which a test may damage; they are put back after it."""
        s3 = client("s3", studio.stack.facts["awsUrl"])
        kept = {}
        for bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
            for one in s3.list_objects_v2(Bucket=bucket, Prefix="archive/").get("Contents", []):
                key = (bucket, one["Key"])
                kept[key] = s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
        assert kept
        yield s3, kept
        for (bucket, key), content in kept.items():
            s3.put_object(Bucket=bucket, Key=key, Body=content)

    def shown(self, call, path, limit):
        lines, cursor = [], ""
        while True:
            page = call("GET", f"{path}/logs?limit={limit}{cursor}")
            assert page.status == 200, page
            lines += page.body["items"]
            if page.body["nextCursor"] is None:
                return call("GET", path).body, lines
            cursor = f"&cursor={page.body['nextCursor']}"

    def test_log_is_read_back_line_by_line(self, call, archived):
        path, before = archived
        assert self.shown(call, path, 1) == before

    @pytest.mark.parametrize("damage", ["missing", "changed"])
    def test_damaged_object_is_reported_and_kept(self, call, archived, objects, studio, damage):
        path, before = archived
        s3, kept = objects
        for (bucket, key), content in kept.items():
            if damage == "missing":
                s3.delete_object(Bucket=bucket, Key=key)
            else:
                s3.put_object(Bucket=bucket, Key=key, Body=content[:30] + bytes([content[30] ^ 1]) + content[31:])
        for suffix in ("", "/logs"):
            answer = call("GET", f"{path}{suffix}")
            assert (answer.status, answer.body["code"]) == (503, "JOB_503_ARCHIVE_DAMAGED")
        sweep(studio, "archive")  # the index stays, so that a copy that is put back is read
        for (bucket, key), content in kept.items():
            s3.put_object(Bucket=bucket, Key=key, Body=content)
        assert self.shown(call, path, 500) == before


class TestGuard:
    @pytest.fixture
    def overloaded(self, call, admin):
        """Limits that three waiting runs exceed, and a lane in which they wait."""
        for name, value in LOW_LIMITS.items():
            assert admin("PUT", f"/ops/settings/{name}", {"value": value}).status == 200
        assert admin("POST", "/ops/lanes/run_low/pause", {"reason": "a test"}).status == 200
        body = {"name": "low", "schedule": FAR, "task": {"type": "HTTP", "url": f"{TARGET}/low"}, "priority": "LOW"}
        job = call("POST", "/jobs", body).body["jobId"]
        yield lambda: call("POST", f"/jobs/{job}/trigger", headers={"idempotency-key": uuid4().hex})
        admin("POST", "/ops/lanes/run_low/resume")
        for name in LOW_LIMITS:
            admin("DELETE", f"/ops/settings/{name}")

    def test_overload_degrades_and_calm_recovers(self, admin, overloaded, studio, database):
        def runs() -> Any:
            return admin("GET", "/ops/health").body["runs"]

        def checked(state: str) -> Any:
            """A pass of the watchdog, after the time that a reading has to last."""
            sweep(studio, "quick", once=True)
            database.execute(
                "UPDATE run_guard SET full_since = full_since - interval '1 minute',"
                " calm_since = calm_since - interval '1 minute'"
            )
            return (found := runs())["state"] == state and found

        assert runs()["state"] == "NORMAL"
        for _ in range(3):
            assert overloaded().status == 202
        degraded = wait_for(lambda: checked("DEGRADED"), 120)
        assert degraded["pausedLanes"][0] == "run_low"
        refused = wait_for(lambda: (answer := overloaded()).status == 503 and answer, 30)
        assert refused.body["code"] == "SCHED_503_DISPATCH_BACKLOG"
        assert int(refused.headers["retry-after"]) > 0
        # The guard does not count runs that wait because of it, so both readings are calm now.
        wait_for(lambda: checked("NORMAL"), 120)
        assert wait_for(lambda: (answer := overloaded()).status == 202 and answer, 30)
        actions = [one["action"] for one in admin("GET", "/ops/audit?target=run_low&limit=20").body["items"]]
        assert {"run_guard.pause", "run_guard.resume"} <= set(actions)
