"""The console in a real browser, against the stack that the other end-to-end tests use."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.studio import RECEIVER_PORT, Studio
from tools import console

pytestmark = pytest.mark.browser
SUITES = sorted(path.name.removesuffix(".spec.ts") for path in (console.CONSOLE / "e2e").glob("*.spec.ts"))
LONGEST_S = 1800
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    failures: tuple[str, ...]
    tests: int
    seconds: float


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, studio: Studio
) -> Mapping[str, Outcome]:
    """What each chosen file made of it. One process and one browser run all of them: starting both costs seconds."""
    assert console.main(()) == 0
    console.install(with_tools=True)
    chosen = [
        item.callspec.params["suite"]
        for item in request.session.items
        if item.path == request.path and isinstance(item, pytest.Function)
    ]
    report = tmp_path_factory.mktemp("browser") / "report.json"
    environment = {
        **os.environ,
        "ARTIWAY_STACK": str(studio.stack.home / "stack.json"),
        "ARTIWAY_RECEIVER_PORT": str(RECEIVER_PORT),
        "NO_COLOR": "1",
    }
    command = [sys.executable, "-m", "tools.console", "npm", "run", "--silent", "e2e", "--"]
    options = ["--reporter=verbose", "--reporter=json", f"--outputFile={report}"]
    text = run(
        [*command, *options, *(f"e2e/{suite}.spec.ts" for suite in chosen)], environment, report.with_name("out")
    )
    assert report.is_file(), text[-12_000:]
    for line in text.splitlines():
        if line.startswith("measures "):
            logger.info(line)
        elif "(retry x" in line:
            logger.warning("a journey needed a second try: %s", line.strip())
    return read(report)


def run(command: list[str], environment: Mapping[str, str], place: Path) -> str:
    """What the command prints. After LONGEST_S it is ended, with the browser and all else that it started."""
    with place.open("w") as output:
        process = subprocess.Popen(
            command, cwd=console.ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"not ended after {LONGEST_S} s:\n{place.read_text()[-12_000:]}", pytrace=False)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return place.read_text()


def read(report: Path) -> dict[str, Outcome]:
    """Vitest's report, by file."""
    found = {}
    for file in json.loads(report.read_text())["testResults"]:
        tests = file["assertionResults"]
        broken = [f"{test['fullName']}\n{text}" for test in tests for text in test["failureMessages"]]
        if file["status"] != "passed" and not broken:
            broken = [file["message"] or "the file did not run"]
        name = Path(file["name"]).name.removesuffix(".spec.ts")
        found[name] = Outcome(tuple(broken), len(tests), (file["endTime"] - file["startTime"]) / 1000)
    return found


@pytest.mark.parametrize("suite", SUITES)
def test_journeys_work_in_a_browser(suite: str, outcomes: Mapping[str, Outcome]) -> None:
    outcome = outcomes[suite]
    logger.info("%s: %d journeys in %.1f s", suite, outcome.tests, outcome.seconds)
    assert not outcome.failures, "\n\n".join(outcome.failures)
    assert outcome.tests > 0
