"""The expanded template as a file and the output of `sam build`, each created once."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from tests.integration.template.tools import ENVIRONMENT, TOOLS, run_tool
from tests.unit.template.conftest import root, source, template
from tests.unit.template.facts import Template

__all__ = ["root", "source", "template"]


@pytest.fixture(scope="session")
def expanded_file(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("expanded") / "template.json"
    file.write_text(json.dumps(template.body))
    return file


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of `sam build` for this interpreter and machine."""
    folder = tmp_path_factory.mktemp("sam") / "build"
    run_build(folder, PYTHON=sys.executable, UV=str(TOOLS / "uv/bin/uv"))
    return folder


@pytest.fixture(scope="session")
def pip_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages' layer, built on a machine that has no uv."""
    folder = tmp_path_factory.mktemp("pip") / "build"
    path = [folder for folder in ENVIRONMENT["PATH"].split(os.pathsep) if not (Path(folder) / "uv").exists()]
    run_build(folder, "DependenciesLayer", PATH=os.pathsep.join(path), PYTHON=str(TOOLS / "uv/bin/python"))
    return folder


def run_build(folder: Path, *resource: str, PYTHON: str, **variables: str) -> None:  # noqa: N803
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    architecture = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]
    run_tool(
        [
            TOOLS / "sam/bin/sam", "build", *resource, "--build-dir", folder,
            "--parameter-overrides", f"PythonRuntime=python{version}", f"Architecture={architecture}",
        ],
        **{"PATH": f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"} | variables,
        PYTHON_VERSION=version,
        PYTHON=PYTHON,
        ARCHITECTURE=architecture,
    )  # fmt: skip
