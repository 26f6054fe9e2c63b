"""The name of a release follows what is deployed, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import release

SAMCONFIG = """
version = 0.1
[default.global.parameters]
stack_name = "artiway-dev"
region = "us-east-1"
[default.deploy.parameters]
parameter_overrides = ["Environment=dev", "Release="]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers/code.py").write_text("1")
    (tmp_path / "template.yaml").write_text("Parameters: {Environment: {Type: String, Default: dev}}\nResources: {}\n")
    (tmp_path / "samconfig.toml").write_text(SAMCONFIG)
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def name(checkout: Path, **given: str) -> str:
    (found,) = [one for one in release.overrides("default", given, checkout) if one.startswith("Release=")]
    return found


def test_the_same_content_has_the_same_name(checkout: Path) -> None:
    first = name(checkout)
    (checkout / "README.md").write_text("not deployed")
    (checkout / "layers/code.pyc").write_text("ignored by git")
    assert name(checkout) == first
    assert len(first) > len("Release=") + 10


@pytest.mark.parametrize("file", ["layers/code.py", "layers/new.py", "template.yaml", "functions/tasks/app.py"])
def test_another_content_has_another_name(checkout: Path, file: str) -> None:
    first = name(checkout)
    path = checkout / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "\n# changed")
    assert name(checkout)[:18] != first[:18]


def test_another_parameter_has_another_name(checkout: Path) -> None:
    assert name(checkout, LogLevel="DEBUG") != name(checkout)


def test_parameters_of_the_environment_are_passed_on(checkout: Path) -> None:
    printed = release.overrides("default", {"LogLevel": "DEBUG", "Environment": "other"}, checkout)
    assert {"Environment=other", "LogLevel=DEBUG"} <= set(printed)
    assert len(printed) == 3
