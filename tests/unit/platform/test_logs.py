from __future__ import annotations

import json

import pytest

from artiway.platform import logs, metrics, tracing
from artiway.platform.logs import MASK, Logger

SECRETS = {
    "password": "hunter2",
    "apiV3Key": "0123456789abcdef",
    "Authorization": "Bearer abc",
    "refreshToken": "rt_0123456789abcdef0123",
    "nested": {"private_key": "k", "list": [{"session_key": "s"}]},
}


@pytest.fixture
def written(capsys, monkeypatch):
    monkeypatch.setenv("ARTIWAY_LOG_LEVEL", "INFO")

    def read():
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return read


def test_a_line_is_a_message_with_fields_and_its_context(written):
    with tracing.traced("1-65f00000-0123456789abcdef01234567"), logs.context(request_id="r"):
        Logger("points").info("hold placed", task_id="t", amount_points=3)
    (line,) = written()
    assert line["message"] == "hold placed"
    assert (line["task_id"], line["amount_points"], line["request_id"]) == ("t", 3, "r")
    assert line["trace_id"] == "1-65f00000-0123456789abcdef01234567"


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


def test_an_exception_is_written_with_its_secrets_masked(written):
    try:
        raise ValueError("postgresql://artiway_app:S3cr3t@host/db is away")
    except ValueError:
        Logger("x").exception("failed")
    (line,) = written()
    assert "ValueError" in line["exception"]
    assert "S3cr3t" not in line["exception"]


def test_lines_below_the_level_are_not_written(written, monkeypatch):
    monkeypatch.setenv("ARTIWAY_LOG_LEVEL", "WARNING")
    Logger("x").info("quiet")
    assert written() == []


def test_a_metric_is_a_line_that_cloudwatch_understands(written):
    metrics.emit("OutboxOldestSeconds", 3.5, "Seconds", lane="vip_short")
    (line,) = written()
    definition = line["_aws"]["CloudWatchMetrics"][0]
    assert definition["Namespace"] == "Artiway"
    assert definition["Dimensions"] == [["environment", "lane"]]
    assert definition["Metrics"] == [{"Name": "OutboxOldestSeconds", "Unit": "Seconds"}]
    assert (line["OutboxOldestSeconds"], line["lane"]) == (3.5, "vip_short")
