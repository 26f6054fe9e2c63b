"""Signals while the platform starts or a chaos run works: no process outlives it, and the home stays usable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.servers import free_port
from tests.e2e.conftest import folder

ROOT = Path(__file__).resolve().parent.parent.parent
WARDEN = Path(__file__).with_name("warden.py")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """One home for all moments: a start uses the files of an interrupted one."""
    with folder() as parent:
        yield parent / "home"


def interrupted(home: Path, moment: str, signals: str, *, module: str = "local") -> dict[str, Any]:
    settings = {"ARTIWAY_HOME": str(home), "ARTIWAY_PORT": str(free_port()), "PYTHONPATH": f"{ROOT}/layers/core:{ROOT}"}
    warden = [sys.executable, str(WARDEN), module, moment, signals]
    done = subprocess.run(warden, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert "fault" not in report, report
    return report


@pytest.mark.parametrize(
    ("moment", "signals"),
    [
        ("process:-m local", "SIGTERM"),
        ("process:initdb", "SIGINT,SIGINT"),
        ("process:valkey-server", "SIGINT,SIGINT"),
        ("line:the AWS emulator on port", "SIGTERM,SIGINT"),
        ("line:template.yaml translated", "SIGTERM"),
        ("process:awslambdaric", "SIGINT,SIGINT"),
        ("line:template deployed", "SIGTERM"),
        ("process:-m worker", "SIGINT"),
        ("process:-m worker", "SIGTERM"),
        ("line:workers started", "SIGINT,SIGTERM"),
        ("line:Artiway is running", "SIGINT"),
    ],
)
def test_signal_during_start_leaves_no_process(home: Path, moment: str, signals: str) -> None:
    report = interrupted(home, moment, signals)
    assert report["running"] == []
    assert "Traceback" not in report["output"]
    assert not (home / "stack.json").exists()


@pytest.mark.parametrize(
    ("moment", "signals"),
    [
        ("process:initdb", "SIGINT,SIGINT"),
        ("process:-m worker", "SIGHUP"),
        ("line:shops are open", "SIGTERM,SIGINT"),
    ],
)
def test_interrupted_chaos_run_leaves_no_process(home: Path, moment: str, signals: str) -> None:
    report = interrupted(home.with_name("chaos-home"), moment, signals, module="local.chaos")
    assert report["running"] == []
    assert "Traceback" not in report["output"]
