"""The parameters of a deployment with the name of its release: `sam deploy --parameter-overrides $(…)`.

A release is named after what it deploys: the files and the parameters. The same content has the same name, and
deploying it again publishes no version.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.preflight import ROOT, Plan

SOURCES = ("functions", "layers", "stacks", "statemachines", "template.yaml")


def files(root: Path) -> list[Path]:
    """Tracked and new files, as git sees them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.split("\0") if name and (path := root / name).is_file())


def name(root: Path, parameters: dict[str, str]) -> str:
    """SAM puts the first ten characters into the names of the versions, so the digest comes first."""
    digest = hashlib.sha256()
    for path in files(root):
        digest.update(f"{path.relative_to(root)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for key, value in sorted(parameters.items()):
        digest.update(f"{key}={value}\0".encode())
    return digest.hexdigest()[:20]


def overrides(environment: str, given: dict[str, str], root: Path = ROOT) -> list[str]:
    parameters = {**Plan.read(environment, {}, root).given, **given}
    parameters.pop("Release", None)
    return [f"{key}={value}" for key, value in (parameters | {"Release": name(root, parameters)}).items()]


if __name__ == "__main__":
    print(*overrides(sys.argv[1], dict(pair.split("=", 1) for pair in sys.argv[2:])))
