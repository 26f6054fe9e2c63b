"""Scheduled jobs on the running stack: fired at their second, signed, retried, and safe when processes die."""

from __future__ import annotations

import contextlib
import gc
import http.server
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from artiway import ids
from local.emulator import ROOT, client
from local.stack import Stack
from tests.e2e.conftest import RECEIVER_PORT, Platform, wait_for
from tests.e2e.people import Client
from tests.unit.tasks.test_webhooks import verified

RECEIVER = f"http://127.0.0.1:{RECEIVER_PORT}"
CANARY = "canary-7d41e0b9"
FUNCTIONS = ("trigger", "dispatch", "caller", "results")
Owner = Callable[..., Any]


class Receiver:
    """A tenant's target. `answer` decides the status and the wait of each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str], bytes, float]] = []
        self.answer: Callable[[str, int], tuple[int, float]] = lambda _path, _number: (200, 0)

    def of(self, path: str) -> list[tuple[str, dict[str, str], bytes, float]]:
        return [call for call in self.calls if call[0] == path]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.calls.append((self.path, headers, body, time.time()))
            status, seconds = found.answer(self.path, len(found.of(self.path)))
            time.sleep(seconds)
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)  # the secret comes back

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", RECEIVER_PORT), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def owner(platform: Platform) -> Iterator[Owner]:
    with contextlib.closing(Client(platform.facts["apiUrl"])) as client:
        token = client.call("POST", "/auth/login", platform.facts["admin"]).body["accessToken"]
        yield lambda method, path, body=None: client.call(method, path, body, token=token)


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0).isoformat()


def create(owner: Owner, path: str, *, at: str, **rest: Any) -> dict[str, Any]:
    task = {"type": "HTTP", "url": f"{RECEIVER}{path}", "method": "POST", **rest.pop("task", {})}
    made = owner("POST", "/jobs", {"name": path, "schedule": {"type": "ONCE", "at": at}, "task": task, **rest})
    assert made.status == 201, made
    return dict(made.body)


def ended(owner: Owner, job_id: str) -> dict[str, Any]:
    """The one run of a job, once it has ended."""

    def run() -> dict[str, Any] | None:
        answer = owner("GET", f"/runs?jobId={job_id}")
        if answer.status in {502, 503}:  # the emulator is away
            return None
        (found,) = answer.body["items"]
        return found if found["state"] in {"SUCCESS", "FAILED"} else None

    found = wait_for(run, 120)
    assert found is not None
    return found


def test_job_calls_its_target_at_its_second(owner: Owner, receiver: Receiver, stack: Stack, platform: Platform) -> None:
    signing = owner("POST", "/jobs/signing-secret").body["signingSecret"]
    assert owner("PUT", "/secrets/SHOP_TOKEN", {"value": CANARY}).status in {200, 201}
    task = {"headers": {"Authorization": "Bearer secret:SHOP_TOKEN"}, "body": '{"token": "secret:SHOP_TOKEN"}'}
    job = create(owner, "/on-time", at=in_seconds(4), task=task)
    run = ended(owner, job["jobId"])
    assert (run["state"], run["attempt"]) == ("SUCCESS", 1)
    ((_, headers, body, at),) = receiver.of("/on-time")
    scheduled = datetime.fromisoformat(run["scheduledTime"]).timestamp()
    assert datetime.fromisoformat(run["startedAt"]).timestamp() >= scheduled
    assert at >= scheduled
    assert verified(signing, headers, body)
    assert (headers["webhook-id"], headers["artiway-attempt"]) == (run["runId"], "1")
    assert headers["idempotency-key"].startswith(job["jobId"])
    assert headers["authorization"] == f"Bearer {CANARY}"
    assert json.loads(body) == {"token": CANARY}
    assert places_of(CANARY, stack.home / "logs", platform.facts["databaseUrl"]) == []


def places_of(text: str, logs: Path, database_url: str) -> list[str]:
    """The logs and tables in which a text stands."""
    found = [file.name for file in logs.glob("*.log*") if text in file.read_text(errors="replace")]
    with psycopg.connect(database_url) as connection:
        for table in ("job", "job_change", "job_run", "run_result", "run_log", "outbox", "audit_log"):
            rows = connection.execute(
                f"SELECT count(*) FROM {table} AS t WHERE t::text LIKE %s".encode(), [f"%{text}%"]
            )
            row = rows.fetchone()
            found += [table] if row and row[0] else []
    return found


def test_failing_target_is_called_again(owner: Owner, receiver: Receiver) -> None:
    receiver.answer = lambda _path, number: (503 if number < 3 else 200, 0)
    retry = {"maxAttempts": 5, "baseDelayMs": 200}
    run = ended(owner, create(owner, "/flaky", at=in_seconds(4), retryPolicy=retry)["jobId"])
    assert (run["state"], run["attempt"]) == ("SUCCESS", 3)
    calls = receiver.of("/flaky")
    assert [headers["artiway-attempt"] for _, headers, _, _ in calls] == ["1", "2", "3"]
    assert len({headers["idempotency-key"] for _, headers, _, _ in calls}) == 1
    lines = owner("GET", f"/runs/{run['runId']}/logs").body["items"]
    assert any("503" in line["message"] for line in lines)


def test_lanes_of_runs_are_shown_and_paused(owner: Owner, receiver: Receiver) -> None:
    lanes = {lane["lane"]: lane for lane in owner("GET", "/ops/lanes").body["items"]}
    assert {"run_critical", "run_high", "run_normal", "run_low"} <= lanes.keys()
    for lane in lanes:
        if lane.startswith("run_"):
            assert owner("POST", f"/ops/lanes/{lane}/pause").status == 200
    try:
        job = create(owner, "/paused", at=in_seconds(4))

        def deferred() -> bool:
            (run,) = owner("GET", f"/runs?jobId={job['jobId']}").body["items"]
            return bool(
                run["state"] == "PENDING"
                and sum(lane["depth"] for lane in owner("GET", "/ops/lanes").body["items"] if lane["pool"] == "runs")
            )

        wait_for(deferred, 30)
        assert receiver.of("/paused") == []
    finally:
        for lane in lanes:
            if lane.startswith("run_"):
                assert owner("POST", f"/ops/lanes/{lane}/resume").status == 200
    assert ended(owner, job["jobId"])["state"] == "SUCCESS"
    assert len(receiver.of("/paused")) == 1


def pids_of(home: Path, folder: str) -> list[int]:
    """The processes whose working directory is the function's folder."""
    found = []
    for file in (home / "processes").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process ended meanwhile
            if Path(f"/proc/{file.name}/cwd").readlink().name == folder:
                found.append(int(file.name))
    return found


def kill_sandboxes(home: Path, folder: str) -> int:
    pids = pids_of(home, folder)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def test_killed_functions_lose_and_double_nothing(owner: Owner, receiver: Receiver, stack: Stack) -> None:
    """Every function of jobs is killed while runs are due. Each run ends once; calls may repeat with their key."""
    receiver.answer = lambda _path, _number: (200, 0.3)
    wait_for(lambda: pids_of(stack.home, "trigger"), 90)  # the schedule starts it each minute
    at = in_seconds(5)
    jobs = [create(owner, f"/killed-{number}", at=at, retryPolicy={"maxAttempts": 5}) for number in range(12)]
    killed: Counter[str] = Counter()
    deadline = time.monotonic() + 14
    while time.monotonic() < deadline:
        for function in FUNCTIONS:
            killed[function] += kill_sandboxes(stack.home, function)
        time.sleep(0.7)
    assert min(killed[function] for function in FUNCTIONS) > 0, killed
    runs = [ended(owner, job["jobId"]) for job in jobs]
    assert [run["state"] for run in runs] == ["SUCCESS"] * len(jobs)
    for job in jobs:
        keys = {headers["idempotency-key"] for _, headers, _, _ in receiver.of(f"/{job['name'].strip('/')}")}
        assert len(keys) == 1, "all calls of a run have one key"
    health = owner("GET", "/ops/invariants")
    assert [check["name"] for check in health.body["checks"] if not check["ok"]] == []


@contextlib.contextmanager
def held(process: int) -> Iterator[None]:
    """The process does not run: it takes connections and answers none."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def unsent(platform: Platform, destination: str, *, age_s: int) -> int:
    """Messages that have waited so long in the outbox."""
    with psycopg.connect(platform.facts["databaseUrl"]) as connection:
        rows = connection.execute(
            "SELECT count(*) FROM outbox WHERE destination = %s AND sent_at IS NULL"
            " AND created_at < clock_timestamp() - make_interval(secs => %s)",
            [destination, age_s],
        )
        return int((rows.fetchone() or (0,))[0])


def test_outbox_keeps_calls_while_sqs_is_away(
    owner: Owner, receiver: Receiver, stack: Stack, platform: Platform
) -> None:
    """The dispatcher starts runs while SQS answers nothing. Their calls are stored, and sent once it is back."""
    at = in_seconds(4)
    jobs = [create(owner, f"/kept-{number}", at=at) for number in range(3)]
    runs = [owner("GET", f"/runs?jobId={job['jobId']}").body["items"][0]["runId"] for job in jobs]
    data = {"lane": "run_normal", "at": at, "runIds": [str(ids.from_wire("run", run)) for run in runs]}
    body = {"type": "runs_due", "aggregate": "runs:test", "traceId": "-", "at": at, "data": data}
    event = json.loads((ROOT / "events/dispatch.hint.json").read_text())
    event["Records"][0]["body"] = json.dumps(body)
    lambdas = client("lambda", platform.facts["lambdaUrl"])
    idle = json.loads((ROOT / "events/dispatch.hint.json").read_text())
    idle["Records"][0]["body"] = json.dumps({**body, "data": {**data, "runIds": []}})
    lambdas.invoke(FunctionName="DispatchFunction", Payload=json.dumps(idle).encode())  # it runs, with its secrets
    with held(stack.servers["emulator"].process.pid):
        wait_for(lambda: datetime.now(UTC) >= datetime.fromisoformat(at), 10)
        lambdas.invoke(FunctionName="DispatchFunction", InvocationType="Event", Payload=json.dumps(event).encode())
        # Longer than the sweep waits, so that it has tried too.
        wait_for(lambda: unsent(platform, "run_calls", age_s=12) > 0, 60)
        assert [call[0] for call in receiver.calls if call[0].startswith("/kept")] == []
    assert {ended(owner, job["jobId"])["state"] for job in jobs} == {"SUCCESS"}
    for number in range(3):
        calls = receiver.of(f"/kept-{number}")
        assert 1 <= len(calls) <= 2  # a request that timed out may have been read after all
        assert len({headers["idempotency-key"] for _, headers, _, _ in calls}) == 1
        assert {headers["artiway-attempt"] for _, headers, _, _ in calls} == {"1"}
    assert wait_for(lambda: unsent(platform, "run_calls", age_s=0) == 0, 30)


# Connections to the killed server are collected without having been closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_jobs_survive_an_emulator_that_forgets(owner: Owner, receiver: Receiver, stack: Stack) -> None:
    """The emulator is killed with the messages of runs that are not due yet. The trigger publishes them again."""
    jobs = [create(owner, f"/away-{number}", at=in_seconds(6)) for number in range(3)]
    stack.servers["emulator"].kill()
    runs = [ended(owner, job["jobId"]) for job in jobs]
    assert {run["state"] for run in runs} == {"SUCCESS"}
    for number in range(3):
        assert 1 <= len(receiver.of(f"/away-{number}")) <= 2
    gc.collect()
