"""Scheduled jobs on the running stack, as a user sees them: definitions, runs, secrets, files, dead letters."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.conftest import RECEIVER_PORT, Platform, wait_for
from tests.e2e.people import Answer, Client
from tests.unit.tasks.test_webhooks import verified

TARGET = f"http://127.0.0.1:{RECEIVER_PORT}"
EXAMPLE = {
    "name": "coupon-expire-check",
    "schedule": {"type": "CRON", "expr": "0 */5 * * * ?"},
    "task": {"type": "HTTP", "url": f"{TARGET}/coupons"},
    "retryPolicy": {"maxAttempts": 5, "baseDelayMs": 1000},
    "concurrencyLimit": 20,
}
FAR = {"type": "ONCE", "at": "2035-01-01T00:00:00Z"}
Call = Callable[..., Answer]


@pytest.fixture(scope="module")
def received() -> Iterator[list[tuple[str, dict[str, str], bytes]]]:
    """What targets get. `/fail` answers 500, `/slow` not until the test ends."""
    found: list[tuple[str, dict[str, str], bytes]] = []
    end = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if self.path == "/slow":
                end.wait(20)
            self.send_response(500 if self.path == "/fail" else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", RECEIVER_PORT), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    end.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def people(platform: Platform, received: object) -> Iterator[tuple[Call, Call, dict[str, Any]]]:
    """An owner, an administrator, and the owner's facts."""
    with contextlib.closing(Client(platform.facts["apiUrl"])) as client:
        admin = client.log_in(**platform.facts["admin"])["token"]
        owner = client.register("jobs")
        client.call("PATCH", f"/tenants/{owner['tenantId']}", {"ratePerSecond": 10_000}, token=admin)

        def as_user(token: str) -> Call:
            return lambda method, path, body=None, **more: client.call(method, path, body, token=token, **more)

        yield as_user(owner["token"]), as_user(admin), owner


@pytest.fixture
def call(people) -> Call:
    return people[0]


@pytest.fixture
def admin(people) -> Call:
    return people[1]


def made(call: Call, **fields: Any) -> dict[str, Any]:
    answer = call("POST", "/jobs", {**EXAMPLE, **fields})
    assert answer.status == 201, answer
    return answer.body


def ended(call: Call, run_id: str, *, generation: int = 1) -> dict[str, Any]:
    def found() -> Any:
        run = call("GET", f"/runs/{run_id}").body
        return run if run["endedAt"] and run["generation"] == generation else None

    return wait_for(found, 90)


def test_example_of_specification_is_created_once(call: Call):
    first = call("POST", "/jobs", EXAMPLE, headers={"Idempotency-Key": "example"})
    again = call("POST", "/jobs", EXAMPLE, headers={"Idempotency-Key": "example"})
    assert (first.status, again.status) == (201, 201)
    assert first.body["jobId"] == again.body["jobId"]
    assert first.body["signingSecret"].startswith("whsec_")
    assert again.body["signingSecret"] is None
    assert first.body["status"] == "ACTIVE"
    assert len(first.body["nextFires"]) == 5
    assert first.body["nextFireTime"] == first.body["nextFires"][0]["at"]
    other = call("POST", "/jobs", {**EXAMPLE, "name": "other"}, headers={"Idempotency-Key": "example"})
    assert (other.status, other.body["code"]) == (422, "IDEM_422_KEY_REUSED")


def test_tenant_in_request_is_ones_own(people):
    call, admin, owner = people
    assert made(call, tenantId=owner["tenantId"], schedule=FAR)["tenantId"] == owner["tenantId"]
    answer = call("POST", "/jobs", {**EXAMPLE, "tenantId": f"tnt_{'0' * 32}"})
    assert answer.status == 404
    by_admin = admin("POST", "/jobs", {**EXAMPLE, "schedule": FAR, "tenantId": owner["tenantId"]})
    assert (by_admin.status, by_admin.body["userId"]) == (201, owner["userId"])
    assert call("GET", f"/jobs/{by_admin.body['jobId']}").status == 200


def test_job_for_one_time_fires_at_its_second(call: Call, received: list[Any]):
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5)
    job = made(call, schedule={"type": "ONCE", "at": at.isoformat()}, task={"type": "HTTP", "url": f"{TARGET}/once"})
    (run,) = wait_for(lambda: call("GET", f"/runs?jobId={job['jobId']}").body["items"], 60)
    run = ended(call, run["runId"])
    assert run["state"] == "SUCCESS"
    assert datetime.fromisoformat(run["scheduledTime"]) == at <= datetime.fromisoformat(run["startedAt"])
    assert [path for path, _, _ in received].count("/once") == 1
    lines = call("GET", f"/runs/{run['runId']}/logs?limit=500").body["items"]
    assert lines
    assert all(set(line) == {"at", "attempt", "level", "message"} for line in lines)


def test_trigger_replay_and_terminate(call: Call, received: list[Any]):
    secret = call("POST", "/jobs/signing-secret").body["signingSecret"]
    job = made(call, schedule=FAR, task={"type": "HTTP", "url": f"{TARGET}/now", "body": {"shop": "杭州"}})
    triggered = call("POST", f"/jobs/{job['jobId']}/trigger")
    assert triggered.status == 202
    run_id = triggered.body["runId"]
    assert ended(call, run_id)["state"] == "SUCCESS"
    _, headers, body = next(one for one in received if one[0] == "/now")
    assert verified(secret, headers, body)
    assert call("POST", f"/runs/{run_id}/terminate").body["code"] == "JOB_409_STATE"
    assert call("POST", f"/runs/{run_id}/replay").status == 202
    again = ended(call, run_id, generation=2)
    assert (again["state"], again["idempotencyKey"]) == ("SUCCESS", f"{headers['idempotency-key']}:2")
    slow = made(call, schedule=FAR, task={"type": "HTTP", "url": f"{TARGET}/slow"})
    run_id = call("POST", f"/jobs/{slow['jobId']}/trigger").body["runId"]
    wait_for(lambda: call("GET", f"/runs/{run_id}").body["state"] == "RUNNING", 60)
    assert call("POST", f"/runs/{run_id}/terminate").status == 202
    assert call("GET", f"/runs/{run_id}").body["state"] == "TERMINATED"


def test_pause_change_resume_and_delete(call: Call):
    job_id = made(call)["jobId"]
    paused = call("POST", f"/jobs/{job_id}/pause", {"note": "month end"}).body
    assert (paused["status"], paused["note"], paused["nextFires"]) == ("PAUSED", "month end", [])
    changed = call("PATCH", f"/jobs/{job_id}", {"schedule": {"timezone": "Asia/Shanghai"}}).body
    assert (changed["schedule"]["expr"], changed["status"]) == ("0 */5 * * * ?", "PAUSED")
    resumed = call("POST", f"/jobs/{job_id}/resume").body
    assert (resumed["status"], resumed["nextFires"][0]["offset"]) == ("ACTIVE", "+08:00")
    assert call("DELETE", f"/jobs/{job_id}").status == 204
    assert call("GET", f"/jobs/{job_id}").status == 404


def test_secret_reaches_target_and_nobody_else(call: Call, received: list[Any]):
    assert call("PUT", "/secrets/API_TOKEN", {"value": "s3cr3t"}).status == 200
    task = {"type": "HTTP", "url": f"{TARGET}/secret", "headers": {"Authorization": "Bearer secret:API_TOKEN"}}
    job = made(call, schedule=FAR, task=task)
    run = ended(call, call("POST", f"/jobs/{job['jobId']}/trigger").body["runId"])
    _, headers, _ = next(one for one in received if one[0] == "/secret")
    assert headers["authorization"] == "Bearer s3cr3t"
    shown = [call("GET", path).body for path in ("/secrets", f"/jobs/{job['jobId']}", f"/runs/{run['runId']}/logs")]
    assert "s3cr3t" not in str([*shown, run])
    assert call("DELETE", "/secrets/API_TOKEN").body["code"] == "JOB_409_SECRET_IN_USE"
    assert call("DELETE", f"/jobs/{job['jobId']}").status == 204
    assert call("DELETE", "/secrets/API_TOKEN").status == 204


def test_exported_file_is_imported_again(call: Call):
    made(call, name="in a file", schedule=FAR)
    file = call("GET", "/jobs/export?format=yaml")
    assert file.headers["content-type"] == "application/yaml"
    text = file.body.replace("name: in a file", "name: renamed by a file")
    sent = {"raw": text.encode(), "headers": {"content-type": "application/yaml"}}
    dry = call("POST", "/jobs/import?dryRun=true", **sent)
    assert (dry.status, dry.body["updated"], dry.body["created"]) == (200, 1, 0)
    assert not call("GET", "/jobs?name=renamed%20by%20a%20file").body["items"]
    assert call("POST", "/jobs/import", **sent).body["updated"] == 1
    assert len(call("GET", "/jobs?name=renamed%20by%20a%20file").body["items"]) == 1


def test_administrator_reads_fires_and_log(people):
    call, admin, owner = people
    job = made(call, schedule=FAR)
    run = ended(call, call("POST", f"/jobs/{job['jobId']}/trigger").body["runId"])
    for path in (f"/runs/{run['runId']}/logs", f"/jobs/{job['jobId']}/fires"):
        assert admin("GET", path).status == 404
        assert admin("GET", f"{path}?tenantId={owner['tenantId']}").body == call("GET", path).body
        assert call("GET", f"{path}?tenantId=tnt_{'0' * 32}").status == 404


def test_failed_run_is_dead_letter_until_discarded(call: Call, admin: Call):
    task = {"type": "HTTP", "url": f"{TARGET}/fail"}
    job = made(call, schedule=FAR, task=task, retryPolicy={"maxAttempts": 2, "baseDelayMs": 0})
    run = ended(call, call("POST", f"/jobs/{job['jobId']}/trigger").body["runId"])
    assert (run["state"], run["attempt"], run["httpStatus"]) == ("FAILED", 2, 500)
    dead = [one["messageId"] for one in admin("GET", "/ops/dlq/runs").body["items"]]
    assert run["runId"] in dead
    wanted = {"messageIds": [run["runId"]]}
    assert admin("POST", "/ops/dlq/runs/replay", wanted).body == {"count": 1}
    assert ended(call, run["runId"], generation=2)["state"] == "FAILED"
    assert admin("POST", "/ops/dlq/runs/discard", {**wanted, "reason": "known"}).body == {"count": 1}
    assert call("GET", "/runs?deadLetter=true").body["items"] == []
    assert admin("POST", "/ops/runs/retry", {"ids": [run["runId"]]}).body["ids"] == [run["runId"]]
    acts = admin("GET", f"/ops/audit?target={run['runId']}").body["items"]
    assert {act["action"] for act in acts} == {"run.replay", "run.discard"}
