"""The console in a real browser, against the stack that the other end-to-end tests use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.studio import Studio
from tools import console

pytestmark = pytest.mark.browser
SUITES = sorted(path.name for path in (console.CONSOLE / "e2e").glob("*.spec.ts"))
LONGEST_S = 280


@pytest.fixture(scope="module")
def built() -> Path:
    assert console.main(()) == 0
    console.install(with_tools=True)
    return console.DIST


@pytest.mark.parametrize("suite", SUITES)
def test_journeys_work_in_a_browser(suite: str, built: Path, studio: Studio) -> None:
    environment = {**os.environ, "ARTIWAY_STACK": str(studio.stack.home / "stack.json"), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "tools.console", "npm", "run", "--silent", "e2e", "--", f"e2e/{suite}"]
    done = subprocess.run(
        command, cwd=console.ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
