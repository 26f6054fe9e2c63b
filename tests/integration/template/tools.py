"""Runs the tools that check and build the template."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.unit.template.facts import ROOT

TOOLS = ROOT / ".tools"
# Without the caller's AWS settings, so a tool that calls an account fails here as in CI.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.environ.get("HOME", "/nonexistent"),
    "SAM_CLI_TELEMETRY": "0",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "RDS_ROOTS": "none",  # the build is not deployed
}
# The machine's settings for package indexes.
_CARRIED = re.compile(r"UV_|PIP_|SSL_CERT|https?_proxy|no_proxy", re.IGNORECASE)


def run_tool(command: Sequence[str | Path], **variables: str) -> None:
    """Run a tool at the root of the repository. The assertion shows its output."""
    carried = {name: value for name, value in os.environ.items() if _CARRIED.match(name)}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env=ENVIRONMENT | carried | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
