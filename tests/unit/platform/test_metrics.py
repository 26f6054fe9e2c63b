"""Metrics are log lines in CloudWatch's embedded format."""

from __future__ import annotations

import json

import pytest

from artiway.platform import metrics


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIWAY_ENVIRONMENT", "dev")


def test_a_metric_is_a_line_with_dimensions(capsys: pytest.CaptureFixture[str]) -> None:
    metrics.emit("TasksEnded", 1, status="DONE")
    (line,) = lines(capsys)
    assert (line["TasksEnded"], line["environment"], line["status"]) == ([1.0], "dev", "DONE")


def test_essential_metrics_leave_out_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTIWAY_METRICS", "essential")
    metrics.emit("TasksEnded", 1, status="DONE")
    metrics.emit("NodesWaiting", 3, pool="gpu")
    (line,) = lines(capsys)
    assert line["NodesWaiting"] == [3.0]
