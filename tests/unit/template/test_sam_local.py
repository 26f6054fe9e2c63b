"""The tool behind `make sam-local`, as far as it needs no Docker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.unit.template.facts import ROOT, Template
from tools.sam_local import (
    CHANGES,
    EVENTS,
    FUNCTION_SECONDS,
    LOOPBACK,
    STATUSES,
    Bridge,
    Outcome,
    Users,
    environments,
    function_of,
    read_duration_ms,
    read_status,
    summary,
    with_variables,
)

FILES = sorted(set(EVENTS.glob("*.json")) - {CHANGES})
REPORT = "REPORT RequestId: 1\tInit Duration: 0.04 ms\tDuration: 1288.89 ms\tBilled Duration: 1289 ms"


def test_every_event_has_an_expected_status() -> None:
    statuses = tomllib.loads(STATUSES.read_text())
    listed = {f"{function}.{case}" for function, cases in statuses.items() for case in cases}
    assert listed == {file.stem for file in FILES}


def test_every_event_names_a_deployed_function(template: Template) -> None:
    for file in FILES:
        assert template.folder_of(function_of(file)) == f"functions/{file.name.partition('.')[0]}"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ('{"statusCode": 201, "body": "{}"}', "201"),
        ('a line of the log\n{"statusCode": 503}\n', "503"),
        ('{"statusCode": 401, "headers": {}}\0\0\0\0\0\0\0\0{"code": "x"}', "401"),
        ('{"batchItemFailures": [{"itemIdentifier": "1"}]}', "1 refused"),
        ('{"errorType": "Runtime.ImportModuleError", "errorMessage": "x"}', "Runtime.ImportModuleError"),
        ('{"sent": 0}', "ok"),
        ("null", "null"),
        ("", "no answer"),
        ("Error: the container ended", "no answer"),
    ],
)
def test_status_is_read_from_the_answer(answer: str, status: str) -> None:
    assert read_status(answer) == status


@pytest.mark.parametrize(
    ("responses", "status"),
    [([{"Status": "SUCCESS"}], "SUCCESS"), ([{"Status": "FAILED"}], "FAILED"), ([], "no response")],
)
def test_custom_resource_status_is_its_response(responses: list[dict[str, str]], status: str) -> None:
    assert read_status('{"Status": "SUCCESS"}', responses=responses) == status


@pytest.mark.parametrize(("log", "duration_ms"), [(f"START\n{REPORT}\n", 1288.89), ("timed out", None)])
def test_duration_comes_from_the_report_line(log: str, duration_ms: float | None) -> None:
    assert read_duration_ms(log) == duration_ms


def test_summary_marks_and_counts_failed_events() -> None:
    table = summary(
        [
            Outcome("health.get", "HealthFunction", "200", "200", 320.6),
            Outcome("relay.once", "RelayFunction", "no answer", "ok"),
        ]
    )
    assert table.splitlines()[2:] == [
        "| health.get | HealthFunction | 200 | 321 |",
        "| relay.once | RelayFunction | FAILED: no answer, not ok | – |",
        "",
        "1 passed, 1 failed",
    ]


def test_every_variable_of_the_stack_is_declared() -> None:
    deployed = [{"FunctionName": "HealthFunction", "Environment": {"Variables": {"OWN": "1", "LEVEL": "INFO"}}}]
    variables = environments(deployed, {"LEVEL": "DEBUG", "ADDED": "2"})
    assert variables == {"HealthFunction": {"OWN": "1", "LEVEL": "DEBUG", "ADDED": "2"}}
    template = {
        "Globals": {"Function": {"Layers": [{"Ref": "CoreLayer"}]}},
        "Resources": {"HealthFunction": {"Properties": {"Environment": {"Variables": {"OWN": {"Ref": "X"}}}}}},
    }
    properties = with_variables(template, variables)["Resources"]["HealthFunction"]["Properties"]
    assert template["Globals"] == {"Function": {}}
    assert properties["Environment"]["Variables"] == {"OWN": {"Ref": "X"}, "LEVEL": "", "ADDED": ""}
    assert properties["Timeout"] == FUNCTION_SECONDS


def test_event_runs_as_user_with_its_permissions() -> None:
    owner = {"userId": "u1", "permissions": "task.read task.submit"}
    administrator = {"userId": "u2", "permissions": "task.read ops.read"}
    users = Users([owner, administrator], "inp_" + "1" * 32, "of CloudFront")
    lanes = users.send((EVENTS / "ops.lanes.json").read_text().replace("ops.read ops.write", "ops.read"))
    assert lanes["requestContext"]["authorizer"]["lambda"]["userId"] == "u2"
    assert lanes["headers"]["x-origin-verify"] == "of CloudFront"
    scheduled = (EVENTS / "relay.schedule.json").read_text()
    assert users.send(scheduled) == json.loads(scheduled)
    assert users.input_id in users.send((EVENTS / "tasks.flow.json").read_text().replace("task.cancel", ""))["body"]


def test_bridge_takes_responses_and_forwards_ports() -> None:
    gateway = "127.0.0.2"  # another address of this machine, as the gateway of Docker is

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def talk() -> bytes:
        server = await asyncio.start_server(echo, LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        with Bridge(gateway, [port]).running() as bridge:
            reader, writer = await asyncio.open_connection(gateway, port)
            writer.write(b"hello\n")
            answer = await reader.read()
            writer.close()
            body = json.dumps({"Status": "SUCCESS"}).encode()
            request = Request(f"http://{gateway}:{bridge.response_port}/deploy.one", body, method="PUT")
            with await asyncio.to_thread(urlopen, request) as response:
                assert response.status == 200
            assert bridge.responses == {"deploy.one": [{"Status": "SUCCESS"}]}
        server.close()
        return answer

    assert asyncio.run(talk()) == b"hello\n"


def test_without_docker_it_ends_with_two(tmp_path: Path) -> None:
    environment = os.environ | {"DOCKER_HOST": f"unix://{tmp_path}/none", "PYTHONPATH": f"{ROOT}/layers/core:{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "tools.sam_local"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no event was run" in done.stderr
