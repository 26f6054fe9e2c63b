"""The Lambda server with real `awslambdaric` children, called as boto3 calls Lambda."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import textwrap
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from artiway.platform.streaming import DELIMITER
from local import lambdas
from local.emulator import client
from local.lambdas import Configuration, Function, LambdaServer, LogFile, StreamFailed, function_name, trace_of
from local.servers import free_port

LAYER = Path(lambdas.__file__).parent.parent / "layers/core"
Run = Callable[[Coroutine[Any, Any, Any]], Any]
HANDLER = """
import json, os, pathlib, time
from shared import GREETING
calls = 0

def handler(event, context):
    global calls
    calls += 1
    match event.get("do"):
        case "raise": raise LookupError("no such shoe")
        case "sleep": time.sleep(60)
        case "exit": os._exit(3)
        case "environment": return dict(os.environ)
        case "big": return "x" * (7 * 1024 * 1024)
        case "print": print("a line of log")
        case "touch": pathlib.Path(event["file"]).touch()
        case "meet":
            folder = pathlib.Path(event["folder"])
            (folder / str(os.getpid())).touch()
            while len(list(folder.iterdir())) < event["people"]: time.sleep(0.005)
            (folder / "done").touch()
        case "alone":
            busy = pathlib.Path(event["file"])
            busy.touch(exist_ok=False)
            time.sleep(0.02)
            busy.unlink()
    return {"calls": calls, "pid": os.getpid(), "greeting": GREETING, "trace": os.environ.get("_X_AMZN_TRACE_ID"),
            "request": context.aws_request_id, "arn": context.invoked_function_arn,
            "left": context.get_remaining_time_in_millis()}
"""


STREAMER = """
from artiway.platform.streaming import Prelude

def handler(event, context):
    yield Prelude(200, {})
    yield b"one "
    if event["fails"]:
        raise OSError("no such yarn")
    yield b"two"
"""


@dataclass
class Answer:
    payload: Any
    error: str | None
    log: str


class Caller:
    def __init__(self, url: str, root: Path, server: LambdaServer) -> None:
        self.url, self.root, self.server = url, root, server
        self.boto = client("lambda", url)

    def __call__(self, event: object, name: str = "Sample") -> Answer:
        answer = self.boto.invoke(FunctionName=name, Payload=json.dumps(event).encode(), LogType="Tail")
        log = base64.b64decode(answer["LogResult"]).decode()
        return Answer(json.load(answer["Payload"]), answer.get("FunctionError"), log)

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc)
        connection.request("POST", path, body)
        answer = connection.getresponse()
        result = answer.status, answer.read()
        connection.close()
        return result


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


@pytest.fixture
def call(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    monkeypatch.setattr(lambdas, "RELOAD_SECONDS", 0)
    monkeypatch.setenv("SHELL_SECRET", "of the caller")
    write(tmp_path / "functions/sample/app.py", HANDLER)
    write(tmp_path / "functions/broken/app.py", "import no_such_package\n")
    write(tmp_path / "functions/streamer/app.py", STREAMER)
    write(tmp_path / "layer/shared.py", "GREETING = 'hello'\n")

    def function(name: str, folder: str, concurrency: int = 4) -> Function:
        return Function(name, tmp_path / "functions" / folder, tmp_path / "layer", concurrency)

    functions = [
        function("Sample", "sample"),
        function("Single", "sample", 1),
        function("Hasty", "sample"),
        function("Broken", "broken"),
        Function("Streamer", tmp_path / "functions/streamer", LAYER, 1),
    ]

    async def lookup(name: str) -> Configuration:
        seconds = 1 if name == "Hasty" else 30
        variables = {"OWN": "value", lambdas.PROXY_VARIABLE: "hidden"}
        if name == "Streamer":
            variables |= {lambdas.WRAPPER_VARIABLE: "/opt/bin/stream"}
        return Configuration("app.handler", seconds, 512, variables)

    port = free_port()
    server = LambdaServer(
        functions={one.name: one for one in functions},
        lookup=lookup,
        home=tmp_path / "home",
        port=port,
        endpoint_url="http://127.0.0.1:1",
    )
    run(server.start())
    caller = Caller(f"http://127.0.0.1:{port}", tmp_path, server)
    yield caller
    caller.boto.close()
    run(server.stop())


def test_warm_sandbox_keeps_its_module_state(call: Caller) -> None:
    first, second = call({}), call({})
    assert (first.payload["calls"], second.payload["calls"]) == (1, 2)
    assert first.payload["pid"] == second.payload["pid"]
    assert first.payload["request"] != second.payload["request"]
    assert 0 < first.payload["left"] <= 30_000
    assert first.payload["arn"] == "arn:aws:lambda:us-east-1:000000000000:function:Sample"


def test_stream_that_breaks_off_fails_its_caller(call: Caller, run: Run) -> None:
    async def read(*, fails: bool) -> bytes:
        parts = b""
        try:
            async for part in call.server.stream("Streamer", json.dumps({"fails": fails}).encode(), "Root=1"):
                parts += part
        except StreamFailed:
            parts += b"broken"
        return parts.rpartition(DELIMITER)[2]

    assert run(read(fails=False)) == b"one two"
    assert run(read(fails=True)) == b"one broken"
    assert run(read(fails=False)) == b"one two"


def test_exception_is_returned_with_name_and_stack(call: Caller) -> None:
    answer = call({"do": "raise"})
    assert answer.error == "Unhandled"
    assert answer.payload["errorType"] == "LookupError"
    assert answer.payload["errorMessage"] == "no such shoe"
    assert "app.py" in answer.payload["stackTrace"][0]
    assert call({}).error is None


def test_handler_beyond_its_timeout_loses_its_sandbox(call: Caller) -> None:
    before = call({}, "Hasty").payload["pid"]
    answer = call({"do": "sleep"}, "Hasty")
    assert answer.error == "Unhandled"
    assert answer.payload["errorType"] == "Sandbox.Timedout"
    assert answer.payload["errorMessage"].endswith("Task timed out after 1.00 seconds")
    after = call({}, "Hasty").payload
    assert after["calls"] == 1
    assert after["pid"] != before


def test_child_that_exits_is_reported_and_replaced(call: Caller) -> None:
    answer = call({"do": "exit"})
    assert answer.error == "Unhandled"
    assert answer.payload["errorType"] == "Runtime.ExitError"
    assert answer.payload["errorMessage"].endswith("Runtime exited with error: exit status 3")
    assert call({}).payload["calls"] == 1


def test_handler_import_failure_returns_the_reason(call: Caller) -> None:
    for _ in range(2):
        answer = call({}, "Broken")
        assert answer.error == "Unhandled"
        assert answer.payload["errorType"] == "Runtime.ImportModuleError"
        assert "no_such_package" in answer.payload["errorMessage"]


def test_concurrent_calls_run_in_separate_processes(call: Caller) -> None:
    folder = call.root / "meeting"
    folder.mkdir()
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(call, [{"do": "meet", "folder": str(folder), "people": 3}] * 3))
    assert [answer.error for answer in answers] == [None] * 3
    assert len({answer.payload["pid"] for answer in answers}) == 3


def test_calls_beyond_the_concurrency_limit_wait(call: Caller) -> None:
    event = {"do": "alone", "file": str(call.root / "busy")}
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: call(event, "Single"), range(5)))
    assert [answer.error for answer in answers] == [None] * 5
    assert sorted(answer.payload["calls"] for answer in answers) == [1, 2, 3, 4, 5]


def test_edited_source_is_used_by_next_call(call: Caller) -> None:
    assert call({}).payload["greeting"] == "hello"
    write(call.root / "layer/shared.py", "GREETING = 'salut'\n")  # as long as before, and within the same second
    assert call({}).payload["greeting"] == "salut"
    write(call.root / "functions/sample/app.py", "def handler(event, context):\n    return 'new'\n")
    assert call({}).payload == "new"


def test_sandbox_busy_during_an_edit_is_dropped(call: Caller) -> None:
    folder = call.root / "meeting"
    folder.mkdir()
    with ThreadPoolExecutor() as pool:
        busy = pool.submit(call, {"do": "meet", "folder": str(folder), "people": 2}, "Single")
        wait_for(lambda: len(list(folder.iterdir())) == 1)
        write(call.root / "layer/shared.py", "GREETING = 'salut'\n")
        waiting = pool.submit(call, {}, "Single")
        (folder / "the other one").touch()
        assert busy.result().payload["greeting"] == "hello"
        assert waiting.result().payload["greeting"] == "salut"
    assert call({}, "Single").payload["greeting"] == "salut"


def test_function_without_configuration_returns_service_error(call: Caller) -> None:
    shutil.rmtree(call.root / "functions/sample")
    answer = call({})
    assert (answer.error, answer.payload["errorType"]) == ("Unhandled", "ServiceException")
    write(call.root / "functions/sample/app.py", HANDLER)
    assert call({}).payload["calls"] == 1


def test_sandbox_has_lambda_variables_not_the_shells(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environment = call({"do": "environment"}).payload
    assert environment["OWN"] == "value"
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "Sample"
    assert environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "512"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert environment["TZ"] == ":UTC"
    hidden = {"SHELL_SECRET", "PYTHONDONTWRITEBYTECODE", "HOME", lambdas.PROXY_VARIABLE}
    assert not hidden & set(environment)


def test_answer_has_log_tail_and_file_all(call: Caller) -> None:
    assert call({"do": "print"}).log == "a line of log\n"
    assert call({}).log == ""
    assert (call.root / "home/logs/Sample.log").read_text() == "a line of log\n"


def test_answer_beyond_six_megabytes_is_an_error(call: Caller) -> None:
    answer = call({"do": "big"})
    assert answer.error == "Unhandled"
    assert answer.payload["errorType"] == "Function.ResponseSizeTooLarge"


def test_an_unknown_function_is_not_found(call: Caller) -> None:
    with pytest.raises(ClientError) as refusal:
        call({}, "Nobody")
    assert refusal.value.response["Error"]["Code"] == "ResourceNotFoundException"


@pytest.mark.parametrize("name", ["Sample", "Sample:live", "arn:aws:lambda:us-east-1:000000000000:function:Sample"])
def test_function_is_found_by_name_alias_or_arn(call: Caller, name: str) -> None:
    assert call({}, name).payload["greeting"] == "hello"


def test_a_partial_arn_names_the_function() -> None:
    assert function_name("000000000000:function:Sample:7") == ("Sample", "7")


def test_function_sees_the_alias_in_its_arn(call: Caller) -> None:
    assert call({}, "Sample:live").payload["arn"].endswith(":function:Sample:live")
    assert call({}, "Sample").payload["arn"].endswith(":function:Sample")


def test_body_that_is_no_json_is_refused(call: Caller) -> None:
    status, _ = call.post("/2015-03-31/functions/Sample/invocations", b"{")
    assert status == 400


def test_event_invocation_is_accepted_before_it_runs(call: Caller) -> None:
    file = call.root / "touched"
    payload = json.dumps({"do": "touch", "file": str(file)}).encode()
    assert call.boto.invoke(FunctionName="Sample", Payload=payload, InvocationType="DryRun")["StatusCode"] == 204
    assert call.boto.invoke(FunctionName="Sample", Payload=payload, InvocationType="Event")["StatusCode"] == 202
    wait_for(file.exists)


def test_caller_disconnect_does_not_stop_the_function(call: Caller) -> None:
    folder = call.root / "meeting"
    folder.mkdir()
    connection = http.client.HTTPConnection(urlsplit(call.url).netloc)
    connection.request("POST", "/proxy/Sample", json.dumps({"do": "meet", "folder": str(folder), "people": 2}))
    wait_for(lambda: len(list(folder.iterdir())) == 1)
    connection.close()
    (folder / "the other one").touch()
    wait_for((folder / "done").exists)


def test_proxy_returns_the_answer_or_function_error(call: Caller) -> None:
    status, body = call.post("/proxy/Sample", b"{}")
    assert (status, json.loads(body)["greeting"]) == (200, "hello")
    status, body = call.post("/proxy/Sample", b'{"do": "raise"}')
    assert (status, json.loads(body)["errorType"]) == (500, "LookupError")


def test_failed_custom_resource_is_recorded_for_deployment(call: Caller) -> None:
    call.post("/proxy/Sample", b'{"do": "raise", "ResponseURL": "http://127.0.0.1:1/"}')
    assert len(call.server.failures) == 1
    assert "no such shoe" in call.server.failures[0]


def test_trace_continues_from_request_or_message(call: Caller) -> None:
    status, body = call.post("/proxy/Sample", b'{"headers": {"x-amzn-trace-id": "Root=1-aa-bb"}}')
    assert (status, json.loads(body)["trace"]) == (200, "Root=1-aa-bb")
    record = {"Records": [{"attributes": {"AWSTraceHeader": "Root=1-cc-dd"}}]}
    assert trace_of(json.dumps(record).encode(), "Root=1-ee-ff") == "Root=1-cc-dd"
    assert trace_of(b"{}", "Root=1-ee-ff") == "Root=1-ee-ff"
    for odd in (b"[]", b"null", b'{"Records": [7]}', b'{"headers": []}'):
        assert trace_of(odd, None).startswith("Root=1-")


def test_sandbox_is_ended_after_long_idle_time(call: Caller, run: Run) -> None:
    async def retire(idle_seconds: float) -> None:
        call.server._pools["Sample"].retire(idle_seconds)

    before = call({}).payload["pid"]
    run(retire(3600))
    assert call({}).payload["pid"] == before
    run(retire(0))
    assert call({}).payload["pid"] != before


def test_redeployed_function_starts_a_new_sandbox(call: Caller, run: Run) -> None:
    async def forget() -> None:
        call.server.forget_configurations()

    before = call({}).payload["pid"]
    run(forget())
    assert call({}).payload["pid"] != before


def test_logs_do_not_grow_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambdas, "LOG_BYTES", 100)
    log = LogFile(tmp_path / "logs/one.log")
    for number in range(50):
        log.write(f"line {number}\n".encode())
    log.close()
    log.write(b"after the end\n")
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["one.log", "one.log.1"]
    assert sum(file.stat().st_size for file in files) < 250
    assert files[0].read_text().endswith("line 49\n")


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)
