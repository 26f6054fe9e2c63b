from __future__ import annotations

import ast
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from aws_lambda_powertools.logging.formatter import RESERVED_LOG_ATTRS

from artiway.platform import logs, metrics, tracing
from artiway.platform.logs import MASK, Logger

ROOT = Path(__file__).resolve().parents[3]
WRITING = {"debug", "info", "warning", "error", "exception", "context"}
SECRETS = {
    "password": "hunter2",
    "apiV3Key": "0123456789abcdef",
    "Authorization": "Bearer abc",
    "refreshToken": "rt_0123456789abcdef0123",
    "nested": {"private_key": "k", "list": [{"session_key": "s"}]},
}


@pytest.fixture
def level():
    ours = logging.getLogger(logs.SERVICE)
    before = ours.level
    yield ours.setLevel
    ours.setLevel(before)


@pytest.fixture
def written(capsys, level):
    level("INFO")

    def read():
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return read


@pytest.fixture
def sampled(monkeypatch, level):
    """Sets the share of requests that are written down in full, where only warnings are otherwise."""

    def sample(rate):
        monkeypatch.setattr(logs._parent, "sampling_rate", rate)
        monkeypatch.setattr(logs._parent, "initial_log_level", "WARNING")
        level("WARNING")

    return sample


def fields_of_log_calls():
    for folder in ("functions", "layers/core/artiway"):
        for file in sorted(Path(ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITING:
                    yield from ((f"{file.name}:{node.lineno}", keyword.arg) for keyword in node.keywords)


def test_line_is_message_with_fields_and_its_context(written):
    with tracing.traced("1-65f00000-0123456789abcdef01234567"), logs.context(request_id="r"):
        Logger("points").info("hold placed", task_id="t", amount_points=3)
    (line,) = written()
    assert line["message"] == "hold placed"
    assert (line["task_id"], line["amount_points"], line["request_id"]) == ("t", 3, "r")
    assert line["trace_id"] == "1-65f00000-0123456789abcdef01234567"
    assert (line["level"], line["logger"]) == ("INFO", "points")


def test_context_inside_another_ends_alone(written):
    with logs.context(request_id="r", route="outer"):
        with logs.context(route="inner"):
            Logger("x").info("inside")
        Logger("x").info("outside")
    Logger("x").info("after")
    inside, outside, after = written()
    assert (inside["request_id"], inside["route"]) == ("r", "inner")
    assert (outside["request_id"], outside["route"]) == ("r", "outer")
    assert not {"request_id", "route"} & set(after)


def test_no_field_has_name_that_logging_refuses():
    refused = {*RESERVED_LOG_ATTRS, "message", "logger", "service", "stacklevel"} - {"exc_info", "stack_info"}
    assert [found for found in fields_of_log_calls() if found[1] in refused] == []


def test_secrets_are_masked_by_name_at_any_depth(written):
    Logger("x").info("login", **SECRETS)
    text = json.dumps(written())
    for secret in ("hunter2", "0123456789abcdef", "Bearer abc", '"k"', '"s"'):
        assert secret not in text
    assert MASK in text


@pytest.mark.parametrize(
    "value",
    [
        "got eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln from the client",
        "key ak_0123456789abcdef_S3cr3tS3cr3t used",
        "-----BEGIN PRIVATE KEY-----\nMIIsecret\n-----END PRIVATE KEY-----",
        "postgresql://artiway_app:S3cr3t@host/db",
        "wss://host/ws?token=S3cr3t&x=1",
    ],
)
def test_secrets_are_masked_by_shape_in_any_text(written, value):
    Logger("x").warning("odd", detail=value, error=ValueError(value))
    text = json.dumps(written())
    for secret in ("c2ln", "S3cr3t", "MIIsecret"):
        assert secret not in text


def test_exception_is_written_with_its_secrets_masked(written):
    try:
        raise ValueError("postgresql://artiway_app:S3cr3t@host/db is away")
    except ValueError:
        Logger("x").exception("failed")
    (line,) = written()
    assert "ValueError" in line["exception"]
    assert "S3cr3t" not in line["exception"]


def test_lines_below_level_are_not_written(written, level):
    level("WARNING")
    Logger("x").info("quiet")
    assert written() == []


def test_sampled_request_is_written_in_full(written, sampled):
    sampled(1.0)
    with logs.context(request_id="r"):
        Logger("x").debug("detail")
        Logger("y").info("more")
    assert [line["message"] for line in written()] == ["detail", "more"]


def test_request_not_sampled_keeps_level(written, sampled):
    sampled(1e-300)
    with logs.context(request_id="r"):
        Logger("x").info("quiet")
    assert written() == []


def test_lines_of_one_request_are_sampled_together(written, sampled, monkeypatch):
    sampled(0.5)
    draws = iter([0.2, 0.9])
    monkeypatch.setattr("random.random", lambda: next(draws))
    for request_id in ("first", "second"):
        with logs.context(request_id=request_id), logs.context(message_id="m"):
            Logger("x").info("one")
            Logger("y").info("two")
    assert [line["request_id"] for line in written()] == ["first", "first"]


def test_level_of_lambda_opens_no_library():
    script = (
        "import logging; logging.getLogger().setLevel('DEBUG')  # as the runtime does\n"
        "from artiway.platform.logs import Logger\n"
        "logging.basicConfig(); logging.getLogger('botocore').debug('request whole')\n"
        "Logger('x').debug('detail'); Logger('x').info('line')"
    )
    environment = {
        "AWS_LAMBDA_LOG_LEVEL": "DEBUG",
        "ARTIWAY_LOG_LEVEL": "INFO",
        "PYTHONPATH": str(ROOT / "layers/core"),
    }
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert [json.loads(line)["message"] for line in ran.stdout.splitlines()] == ["line"]
    assert "request whole" not in ran.stderr


def test_metric_is_line_that_cloudwatch_understands(written):
    metrics.emit("OutboxOldestSeconds", 3.5, "Seconds", lane="vip_short")
    (line,) = written()
    definition = line["_aws"]["CloudWatchMetrics"][0]
    assert definition["Namespace"] == "Artiway"
    assert definition["Dimensions"] == [["environment", "lane"]]
    assert definition["Metrics"] == [{"Name": "OutboxOldestSeconds", "Unit": "Seconds"}]
    assert (line["OutboxOldestSeconds"], line["lane"]) == ([3.5], "vip_short")
