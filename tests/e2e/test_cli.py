"""Every command of `artiway` against the running stack, as a user calls it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import Message
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from local import photos
from tests.e2e.conftest import wait_for
from tests.e2e.studio import RECEIVER_PORT, Studio
from tools.typescript import find_node

ROOT = Path(__file__).parents[2]
# `make cli` installs here; a machine with several clones may have it elsewhere.
HOME = Path(os.environ.get("ARTIWAY_CLI_HOME", ROOT / ".tools/cli"))
PHOTO = photos.shirt(photos.RED, side=96)
PASSWORD = "correct horse battery"
ESCAPE = "\x1b"
FILES, CROP_POINTS = 16, 1
RATE_LIMITED, QUEUE_FULL = "RATE_429_LIMITED", "TASK_429_QUEUE_FULL"
LANE = "free_default"  # of the tenant's tier
GUIDES = [ROOT / "docs/quick-start.md", *sorted((ROOT / "docs/guides").glob("*.md"))]
JOBS = f"""\
jobs:
  - name: stock
    schedule: {{type: CRON, expr: "0 0 3 * * ?"}}
    task: {{type: HTTP, url: "http://127.0.0.1:{RECEIVER_PORT}/stock"}}
    retryPolicy: {{maxAttempts: 1, baseDelayMs: 1000}}
"""
SLOW = ("maxAttempts: 1, baseDelayMs: 1000", "maxAttempts: 3, baseDelayMs: 60000")
FLOW = """\
name: two steps
nodes:
  - {name: cut, tool: crop, inputs: {product: "file:photo.png"}}
  - {name: small, tool: convert, inputs: {picture: cut}, params: {width: 32}, dependsOn: [cut]}
"""
WALK = """
import json
from artiway_client.cli.app import app
def walk(one, path=()):
    found = [[*path, c.name or c.callback.__name__] for c in one.registered_commands]
    for g in one.registered_groups:
        here = [*path, g.name]
        found += ([here] if g.typer_instance.info.invoke_without_command else []) + walk(g.typer_instance, here)
    return found
print(json.dumps(walk(app)))
"""


# Runs commands one after the other in one process, since most of a command's time is the import of its libraries.
SERVE = """
import contextlib, io, json, os, sys
from artiway_client.cli.app import run
for line in sys.stdin:
    asked = json.loads(line)
    os.environ.clear()
    os.environ.update(asked["environment"])
    out, err, kept = io.StringIO(), io.StringIO(), sys.stdin
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.stdin = io.StringIO(asked["stdin"])
        code = run(asked["words"])
    sys.stdin = kept
    print(json.dumps([int(code), out.getvalue(), err.getvalue()]), flush=True)
"""


@cache
def commands() -> frozenset[tuple[str, ...]]:
    """Every command of `artiway`, from its own tree; a group counts where it does something without a subcommand."""
    done = subprocess.run([str(HOME / "bin/python"), "-c", WALK], capture_output=True, text=True, check=True)
    return frozenset(tuple(words) for words in json.loads(done.stdout))


def command_of(words: Sequence[str]) -> tuple[str, ...]:
    """The command that these words call: the longest one that they begin with."""
    return max((one for one in commands() if tuple(words[: len(one)]) == one), key=len, default=())


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Terminal:
    """Calls the command with a profile file of its own, and remembers which commands answered with JSON."""

    url: str
    folder: Path
    answered: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._server = subprocess.Popen(
            [str(HOME / "bin/python"), "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

    def close(self) -> None:
        self._server.communicate()

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "ARTIWAY_CONFIG": str(self.file), "ARTIWAY_URL": self.url, "COLUMNS": "80", **more}

    def __call__(self, *words: str, profile: str = "shop", stdin: str = "", **environment: str) -> Done:
        asked = {
            "words": ["--profile", profile, *words],
            "stdin": stdin,
            "environment": self.environment(**environment),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        return Done(*json.loads(self._server.stdout.readline()))

    def begin(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """The same as a process of its own."""
        command = [str(HOME / "bin/artiway"), "--profile", "shop", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd=self.folder,
            env=self.environment(**environment),
            # A shell without job control starts tests with SIGINT ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def process(self, *words: str) -> int:
        process = self.begin(*words)
        process.communicate(timeout=120)
        return process.returncode

    def data(self, *words: str, **more: Any) -> Any:
        """The answer of a command that worked: stdout is one JSON document."""
        done = self(*words, "--json", **more)
        assert done.code == 0, done
        self.answered.add(command_of(words))
        return done.json

    @property
    def file(self) -> Path:
        return self.folder / "profiles.json"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    content: bytes


class Proxy(ThreadingHTTPServer):
    """Between the command and the API: remembers the codes of refused requests, which the user never sees.

    Until one was refused for the rate, requests of another program of the tenant use up its burst first.
    """

    daemon_threads = True

    def __init__(self, url: str) -> None:
        self.codes: list[str] = []
        proxy, self._target = self, urlsplit(url)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if RATE_LIMITED not in proxy.codes:
                    while proxy.answer("GET", f"{proxy._target.path}/points", b"", self.headers).status != 429:
                        pass
                answer = proxy.answer(self.command, self.path, body, self.headers)
                if answer.status == 429:
                    proxy.codes.append(json.loads(answer.content)["code"])
                with contextlib.suppress(BrokenPipeError):  # the command was interrupted
                    self.send_response(answer.status)
                    for name, value in answer.headers:
                        if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                            self.send_header(name, value)
                    self.send_header("content-length", str(len(answer.content)))
                    self.end_headers()
                    self.wfile.write(answer.content)

            do_GET = do_POST = forward  # noqa: N815 (names of http.server)

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}{self._target.path}"

    def answer(self, method: str, path: str, body: bytes, headers: Message) -> Answer:
        target = HTTPConnection(str(self._target.hostname), self._target.port, timeout=60)
        with contextlib.closing(target):
            length = {} if not body else {"content-length": str(len(body))}
            sent = {name: value for name, value in headers.items() if name.lower() != "content-length"}
            target.request(method, path, body, sent | length)
            answer = target.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())


@pytest.fixture
def proxy(artiway: Terminal) -> Iterator[Proxy]:
    with Proxy(artiway.url) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def artiway(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """An administrator, and the owner of a free tenant with points, each with a profile."""
    terminal = Terminal(studio.stack.facts["apiUrl"], tmp_path_factory.mktemp("cli"))
    (terminal.folder / "photo.png").write_bytes(PHOTO)
    admin = studio.stack.facts["admin"]
    terminal.data("login", admin["login"], "--password", "-", profile="admin", stdin=f"{admin['password']}\n")
    email = f"owner-{os.getpid()}@example.com"
    tenant = ("tenants", "create", "tea shop", "--owner", email, "--password", PASSWORD)
    assert terminal.data(*tenant, profile="admin")["tier"] == "free"
    me = terminal.data("login", email, "--password", "-", stdin=f"{PASSWORD}\n")
    terminal.data("tenants", "grant", me["userId"], "500", "--reason", "a start", profile="admin")
    yield terminal
    terminal.close()


class TestAccount:
    def test_profile_file_is_for_its_owner_alone(self, artiway):
        assert artiway.file.stat().st_mode & 0o777 == 0o600
        assert {one["profile"] for one in artiway.data("profiles")} == {"admin", "shop"}
        assert artiway.data("whoami")["tier"] == "free"

    def test_commands_in_parallel_renew_tokens_once(self, artiway):
        """A refresh token that is used twice would end the session."""
        found = json.loads(artiway.file.read_text())
        found["profiles"]["shop"]["access_token"] += "x"
        artiway.file.write_text(json.dumps(found))
        with ThreadPoolExecutor(3) as pool:
            codes = list(pool.map(lambda _: artiway.process("points"), range(3)))
        assert codes == [0, 0, 0]

    def test_key_replaces_a_login(self, artiway):
        made = artiway.data("keys", "create", "robot", "-p", "task.read", "-p", "points.read", "--signed")
        assert made["keyId"] in {one["keyId"] for one in artiway.data("keys", "list")}
        signed_in = artiway("login", "--api-key", "-", "--signed", profile="robot", stdin=made["key"])
        assert signed_in.code == 0, signed_in
        assert artiway.data("points", profile="robot")["balance"] > 0
        refused = artiway("run", "crop", "photo.png", profile="robot")
        assert (refused.code, "task.submit" in refused.err) == (3, True)
        assert artiway.data("keys", "delete", made["keyId"]) == {"deleted": made["keyId"]}
        assert artiway("logout", profile="robot").code == 0

    def test_new_tenant_registers_and_logs_out(self, artiway):
        email = f"new-{os.getpid()}@example.com"
        artiway.data("register", "new shop", email, "--password", PASSWORD, profile="new")
        assert artiway.data("points", "--trial", profile="new")["balance"] > 0
        artiway.data("logout", profile="new")
        assert artiway("points", profile="new").code == 3

    def test_packages_are_listed_and_ordered(self, artiway):
        packages = artiway.data("topup")
        assert artiway.data("topup", packages[0]["packageId"], "--no-wait")["status"] == "PAYING"

    def test_doctor_checks_platform_and_account(self, artiway):
        checks = {one["name"]: one["state"] for one in artiway.data("doctor", profile="admin")}
        assert checks.items() >= {"platform": "ok", "account": "ok", "workers": "ok", "invariants": "ok"}.items()
        away = artiway("doctor", ARTIWAY_URL="http://127.0.0.1:1/api/v1")
        assert (away.code, "make run" in away.out) == (1, True)

    def test_aws_checks_need_a_clone(self, artiway):
        done = artiway("doctor", "--aws", "dev", profile="admin")
        assert (done.code, "make preflight" in done.err) == (2, True), done


class TestErrors:
    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (("tasks", "show", "task_01a1ec3e447f7edc8b099a5caeda9f15"), 4, "404"),
            (("run", "nothing", "photo.png"), 2, "there is no tool 'nothing'"),
            (("run", "crop", "absent.png"), 2, "there is no file"),
            (("run", "crop", "photo.png", "-p", "aspect=wrong"), 5, "aspect"),
            (("lanes", "pause", "vip_long"), 3, "ops.write"),
            (("frobnicate",), 2, "artiway --help"),
            (("tasks", "show"), 2, "artiway tasks show --help"),
            (("keys",), 2, "Usage: artiway keys"),
        ],
    )
    def test_error_has_code_and_advice(self, artiway, words, code, said):
        done = artiway(*words)
        assert (done.code, said in done.err) == (code, True), done

    def test_missing_login_and_platform_are_named(self, artiway):
        absent = artiway("points", profile="absent")
        assert (absent.code, "artiway login" in absent.err) == (3, True)
        away = artiway(
            "login", "a@example.com", "--password", "x", ARTIWAY_URL="http://127.0.0.1:1/api/v1", profile="x"
        )
        assert (away.code, "make run" in away.err) == (6, True)


class TestPictures:
    def test_picture_ends_with_file_and_receipt(self, artiway):
        done = artiway("run", "cutout", "photo.png", "-o", "out", NO_COLOR="1")
        assert done.code == 0, done
        assert (artiway.folder / "out/photo-cutout.png").read_bytes().startswith(b"\x89PNG")
        assert re.search(r"charged +2 points", done.out)
        assert "cutout: done" in done.err
        assert ESCAPE not in done.out + done.err

    def test_folder_goes_on_after_interrupt_within_low_limits(self, artiway, proxy):
        """More pictures than the tenant's queue takes, more requests than its burst, and Ctrl-C in between."""
        folder, saved = artiway.folder / "many", artiway.folder / "cropped"
        folder.mkdir()
        for number in range(FILES):
            garment = photos.Garment((20 + 8 * number, 40, 60), (240, 240, 240))
            (folder / f"p{number}.png").write_bytes(photos.shirt(garment, side=64))
        (folder / "notes.txt").write_text("no picture")
        tenant, before = artiway.data("whoami")["tenantId"], artiway.data("points")["balance"]
        low = ("ratePerSecond=10", "burst=4", "queueDepth=3")
        artiway.data("tenants", "set", tenant, *low, profile="admin")
        artiway.data("lanes", "pause", LANE, profile="admin")  # so that the queue fills
        words = ("run", "crop", "many", "-o", "cropped", "--parallel", "12")
        process = artiway.begin(*words, ARTIWAY_URL=proxy.url)
        wait_for(lambda: {RATE_LIMITED, QUEUE_FULL} <= set(proxy.codes) or process.poll() is not None, 120)
        artiway.data("lanes", "resume", LANE, profile="admin")
        wait_for(lambda: len(list(saved.glob("*.png"))) >= 3 or process.poll() is not None, 120)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        assert (process.returncode, "goes on from here" in said) == (130, True), said
        done = len(list(saved.glob("*.png")))
        assert 3 <= done < FILES
        answer = artiway.data(*words, ARTIWAY_URL=proxy.url)
        assert (answer["skipped"], answer["completed"], answer["failed"]) == (done, FILES - done, 0)
        assert len(list(saved.glob("*.png"))) == FILES
        assert {RATE_LIMITED, QUEUE_FULL} <= set(proxy.codes), "the limits were never reached"
        assert "429" not in said
        artiway.data("tenants", "set", tenant, *(f"{one.partition('=')[0]}=null" for one in low), profile="admin")
        assert before - artiway.data("points")["balance"] == FILES * CROP_POINTS, "no picture was paid for twice"

    def test_same_names_do_not_replace_each_other(self, artiway):
        (artiway.folder / "other").mkdir()
        (artiway.folder / "other/photo.png").write_bytes(photos.shirt(photos.RED, side=80))
        answer = artiway.data("run", "crop", "photo.png", "other/photo.png", "-o", "named")
        assert (answer["completed"], len(list((artiway.folder / "named").glob("*.png")))) == (2, 2)
        again = artiway("run", "crop", "photo.png", "other/photo.png", "-o", "named", "--again")
        assert (again.code, "2 of 2 completed" in again.out) == (0, True), again

    def test_bad_file_fails_alone(self, artiway):
        (artiway.folder / "bad.png").write_text("no picture")
        done = artiway("run", "crop", "photo.png", "bad.png", "-o", "mixed", "--json")
        assert (done.code, done.json["completed"], done.json["failed"]) == (1, 1, 1)
        assert "bad.png: not a PNG" in done.err

    def test_estimate_changes_nothing(self, artiway):
        before = artiway.data("points")
        assert artiway.data("run", "cutout", "photo.png", "--estimate")["totalPoints"] == 2
        assert artiway.data("points", "--ledger", "3")["balance"] == before["balance"]

    def test_flow_of_a_file_is_run(self, artiway):
        (artiway.folder / "flow.yaml").write_text(FLOW)
        answer = artiway.data("flow", "run", "flow.yaml", "-o", "flowed")
        assert (answer["completed"], answer["tasks"][0]["status"]) == (1, "COMPLETED")
        assert list((artiway.folder / "flowed").glob("flow-*.png"))

    def test_tasks_are_listed_and_acted_on(self, artiway):
        task = artiway.data("tasks", "--status", "COMPLETED", "--limit", "1")[0]["taskId"]
        assert artiway.data("tasks", "show", task)["status"] == "COMPLETED"
        assert artiway.data("tasks", "watch", task)["taskId"] == task
        assert artiway.data("tasks", "download", task, "-o", "again")
        assert artiway("tasks", "retry", task).code == 5
        assert "Nothing waits" in artiway("why", task).out
        assert {one["tool"] for one in artiway.data("tools")} >= {"cutout", "model_photo"}

    def test_waiting_task_is_explained_and_cancelled(self, artiway):
        artiway.data("lanes", "pause", LANE, profile="admin")
        process = artiway.begin("run", "crop", "photo.png", "-o", "never")
        task = wait_for(lambda: artiway.data("tasks", "--status", "QUEUED"), 60)[0]["taskId"]
        waiting = wait_for(lambda: artiway.data("why", task)["nodes"], 60)[0]
        assert waiting["waitingFor"] == "lane_paused", waiting
        assert artiway.data("tasks", "cancel", task)["status"] == "CANCELLED"
        artiway.data("lanes", "resume", LANE, profile="admin")
        said = process.communicate(timeout=60)[1]
        assert (process.returncode, "CANCELLED" in said) == (1, True), said

    def test_failed_task_is_run_again(self, artiway):
        (artiway.folder / "torn.png").write_bytes(PHOTO[:600])
        done = artiway("run", "crop", "torn.png", "-o", "torn", "--json")
        assert (done.code, done.json["failed"], done.json["chargedPoints"]) == (1, 1, 0), done
        task = done.json["tasks"][0]["taskId"]
        assert artiway.data("tasks", "retry", task)["taskId"] == task
        assert artiway("tasks", "watch", task).code == 1


class TestTexts:
    def test_text_is_written_as_it_comes(self, artiway):
        done = artiway("text", "copywriting", "a red teapot", "--max-tokens", "16")
        assert (done.code, bool(done.out.strip())) == (0, True), done
        assert "points" in done.err
        assert artiway.data("text", "copywriting", "a blue cup", "--max-tokens", "8")["text"]
        assert {one["service"] for one in artiway.data("services")} >= {"copywriting"}


class TestJobs:
    def test_file_is_compared_before_it_is_applied(self, artiway):
        (artiway.folder / "jobs.yaml").write_text(JOBS)
        shown = artiway("jobs", "apply", "-f", "jobs.yaml")
        assert (shown.code, "+ stock" in shown.out, "--yes" in shown.err) == (2, True, True)
        assert artiway.data("jobs") == []
        assert artiway.data("jobs", "apply", "-f", "jobs.yaml", "--yes")["created"] == 1
        (artiway.folder / "jobs.yaml").write_text(JOBS.replace("0 0 3", "0 0 4"))
        assert (
            "schedule.expr: '0 0 3 * * ?' → '0 0 4 * * ?'"
            in artiway("jobs", "apply", "-f", "jobs.yaml", "--dry-run").out
        )
        assert artiway.data("jobs", "export", "-f", "exported.yaml") == {"file": "exported.yaml"}
        assert "0 0 3" in (artiway.folder / "exported.yaml").read_text()
        assert [one["name"] for one in artiway.data("jobs", "export")["jobs"]] == ["stock"]

    def test_job_is_paused_resumed_and_run(self, artiway):
        assert artiway.data("jobs", "show", "stock")["status"] == "ACTIVE"
        assert artiway.data("jobs", "pause", "stock")["status"] == "PAUSED"
        assert artiway.data("jobs", "resume", "stock")["status"] == "ACTIVE"
        run = artiway.data("jobs", "trigger", "stock")["runId"]
        lines = artiway.data("runs", "logs", run, "--follow")  # nothing listens there
        assert any("1" in str(line["attempt"]) for line in lines)
        assert artiway.data("runs", "show", run)["state"] == "FAILED"
        assert artiway.data("runs", "--job", "stock", "--state", "FAILED")[0]["runId"] == run
        assert artiway("runs", "terminate", run).code == 5
        artiway.data("runs", "replay", run)
        wait_for(lambda: artiway.data("runs", "show", run)["state"] == "FAILED", 60)

    def test_dead_runs_are_replayed_and_discarded(self, artiway):
        assert "runs" in {one["queue"] for one in artiway.data("dlq", profile="admin")}

        def dead() -> list[str]:
            return [one["messageId"] for one in artiway.data("dlq", "show", "runs", profile="admin")]

        chosen = ("-m", wait_for(dead, 60)[0])
        assert artiway.data("dlq", "replay", "runs", *chosen, profile="admin")["count"] == 1
        chosen = ("-m", wait_for(dead, 60)[0])  # nothing listens: it fails again
        discarded = artiway.data("dlq", "discard", "runs", "--reason", "test", *chosen, profile="admin")
        assert discarded["count"] == 1
        assert artiway("dlq", "replay", "nothing", profile="admin").code == 4

    def test_run_that_waits_is_terminated(self, artiway):
        (artiway.folder / "slow.yaml").write_text(JOBS.replace("stock", "slow").replace(*SLOW))
        artiway.data("jobs", "apply", "-f", "slow.yaml", "--yes")
        run = artiway.data("jobs", "trigger", "slow")["runId"]
        wait_for(lambda: artiway.data("runs", "show", run)["state"] == "RETRYING", 60)
        artiway.data("runs", "terminate", run)
        assert wait_for(lambda: artiway.data("runs", "show", run)["state"] == "TERMINATED", 60)
        artiway.data("jobs", "delete", "slow", "--yes")

    def test_fires_and_backfill_cover_a_range(self, artiway):
        until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        day = ("--from", (until - timedelta(days=2)).isoformat(), "--to", until.isoformat())
        assert len(artiway.data("jobs", "fires", "stock", *day)) == 2
        assert artiway.data("backfill", "stock", *day, "--dry-run")["acceptedRuns"] == 2
        assert artiway.data("jobs", "delete", "stock", "--yes")["deleted"].startswith("job_")


class TestOperations:
    def test_screen_fits_eighty_columns_without_colour(self, artiway):
        done = artiway("top", "--once", profile="admin", NO_COLOR="1")
        assert (done.code, ESCAPE in done.out) == (0, False), done
        assert max(map(len, done.out.splitlines())) <= 80
        assert "idle" in done.out
        assert {"lanes", "fairness", "workers"} <= artiway.data("top", profile="admin").keys()

    def test_lane_is_paused_changed_and_resumed(self, artiway):
        assert artiway.data("lanes", "pause", "vip_long", profile="admin")["paused"] is True
        assert "yes" in artiway("lanes", profile="admin").out
        assert {one["lane"] for one in artiway.data("lanes", profile="admin")} >= {LANE, "vip_long"}
        assert artiway.data("lanes", "set", "vip_long", "limit=500", profile="admin")["limit"] == 500
        artiway.data("lanes", "set", "vip_long", "limit=null", profile="admin")
        assert artiway.data("lanes", "resume", "vip_long", profile="admin")["paused"] is False

    def test_tenants_and_settings_are_changed(self, artiway):
        tenant = artiway.data("whoami")["tenantId"]
        assert artiway.data("tenants", "set", tenant, "weight=3", profile="admin")["weight"] == 3
        assert tenant in {one["tenantId"] for one in artiway.data("tenants", profile="admin")}
        key = "limit.keys_per_user"
        assert artiway.data("settings", "set", key, "77", profile="admin")["value"] == 77
        assert key in {one["key"] for one in artiway.data("settings", "--changed", profile="admin")}
        assert artiway.data("settings", "reset", key, profile="admin")["value"] == 100


class TestGuides:
    """What the documentation shows, as it shows it. A line that cannot run here is parsed, any other line fails."""

    ADMINISTRATORS = ("tenants.md", "operations.md")
    READER = f"reader-{os.getpid()}@example.com"

    def blocks(self, page: Path, kind: str) -> list[str]:
        return re.findall(rf"```{kind}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)

    def lines(self, page: Path) -> Iterator[list[str]]:
        for block in self.blocks(page, "sh"):
            assert subprocess.run(["bash", "-n", "-c", block], check=False).returncode == 0, block
            for line in block.replace("\\\n", " ").splitlines():
                yield shlex.split(line, comments=True)

    @pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
    def test_commands_of_guides_work(self, artiway, page):
        (artiway.folder / "photos").mkdir(exist_ok=True)
        for name in ("photo.jpg", "photos/one.png"):
            (artiway.folder / name).write_bytes(PHOTO)
        for block in self.blocks(page, "yaml"):
            (artiway.folder / ("jobs.yaml" if block.startswith("jobs:") else "flow.yaml")).write_text(block)
        me = artiway.data("whoami")
        values = {"$TENANT_ID": me["tenantId"], "$USER_ID": me["userId"], "owner@example.com": self.READER}
        profile = "admin" if page.name in self.ADMINISTRATORS else "shop"
        for program, *words in self.lines(page):
            if program != "artiway":
                self.parse([program, *words])
                continue
            given = [values.get(word, word) for word in words]
            if given[0] == "register":
                done = artiway(*given, "--password", "-", profile="reader", stdin=f"{PASSWORD}\n")
            else:
                done = artiway(*given, profile="reader" if "--trial" in given else profile)
            assert done.code == 0, (words, done)

    def parse(self, words: list[str]) -> None:
        """Commands that start or install the platform itself: they name what exists."""
        words = [word for word in words if not re.match(r"[A-Z_]+=", word)]
        match words:
            case ["export"]:
                return
            case ["make", target, *_]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE), words
            case _:
                pytest.fail(f"neither run nor parsed: {words}")

    @pytest.mark.parametrize("page", [*GUIDES, ROOT / "README.md", ROOT / "README.zh.md"], ids=lambda page: page.name)
    def test_commands_in_sentences_exist(self, page):
        for found in re.findall(
            r"`artiway\s([^`]+)`", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        ):
            words = found.replace("…", " ").split()
            assert words[0].startswith("-") or command_of(words), found

    @pytest.mark.parametrize("page", [page for page in GUIDES if "```python" in page.read_text("utf-8")], ids=str)
    def test_python_of_guides_works(self, artiway, page):
        artiway("register", "Tea shop", self.READER, "--password", "-", profile="reader", stdin=f"{PASSWORD}\n")
        me = artiway.data("login", self.READER, "--password", "-", profile="reader", stdin=f"{PASSWORD}\n")
        artiway.data("tenants", "grant", me["userId"], "50", "--reason", "a start", profile="admin")
        (artiway.folder / "photo.jpg").write_bytes(PHOTO)
        opened = f"from artiway_client import Client\nartiway = Client({artiway.url!r})\n"
        opened += f"artiway.sign_in({self.READER!r}, {PASSWORD!r})\n"
        values = {
            "http://127.0.0.1:8700/api/v1": artiway.url,
            "owner@example.com": self.READER,
            "the password": PASSWORD,
        }
        for block in self.blocks(page, "python"):
            script = re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], block)
            done = subprocess.run(
                [str(HOME / "bin/python"), "-c", opened + script],
                cwd=artiway.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, bool(done.stdout.strip())) == (0, True), done

    @pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
    def test_first_picture_of_readme_works(self, artiway, page):
        made = artiway.data("keys", "create", page, "-p", "task.submit", "-p", "task.read")
        shell = next(block for block in self.blocks(ROOT / page, "sh") if "ticket.json" in block)
        assert len(re.findall("^curl ", shell, re.MULTILINE)) == 4
        environment = {**os.environ, "API": artiway.url, "KEY": made["key"]}
        done = subprocess.run(
            ["bash", "-euc", shell], cwd=artiway.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "event: settled" in done.stdout) == (0, True), done
        script = self.blocks(ROOT / page, "python")[0]
        assert len(script.strip().splitlines()) < 15
        script = script.replace("http://127.0.0.1:8700/api/v1", artiway.url).replace("ak_…", made["key"])
        done = subprocess.run(
            [str(HOME / "bin/python"), "-c", script], cwd=artiway.folder, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "COMPLETED 2 points" in done.stdout) == (0, True), done

    def test_typescript_of_readme_works(self, artiway):
        made = artiway.data("keys", "create", "second", "-p", "task.submit", "-p", "task.read")
        script = self.blocks(ROOT / "README.md", "ts")[0]
        assert len(script.strip().splitlines()) < 15
        script = script.replace("http://127.0.0.1:8700/api/v1", artiway.url).replace("ak_…", made["key"])
        built = ROOT / "clients/typescript/dist/src/index.js"  # `make test-typescript` builds it
        (artiway.folder / "first.mjs").write_text(script.replace('"artiway-client"', f'"{built}"'))
        done = subprocess.run(
            [str(find_node()), "first.mjs"], cwd=artiway.folder, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "COMPLETED 2 points" in done.stdout) == (0, True), done


def test_completion_names_commands(artiway):
    words = {"_ARTIWAY_COMPLETE": "complete_bash", "COMP_WORDS": "artiway lan", "COMP_CWORD": "1"}
    done = subprocess.run(
        [str(HOME / "bin/artiway")], capture_output=True, text=True, check=False, env={**os.environ, **words}
    )
    assert done.stdout.split() == ["lanes"]


def test_every_command_worked_and_answered_json(artiway):
    assert len(commands()) > 40
    assert sorted(commands() - artiway.answered) == []
