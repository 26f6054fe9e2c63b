"""The checks of SAM, cfn-lint and checkov, and the output of `sam build`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.template.tools import TOOLS, run_tool
from tests.unit.template.facts import ROOT, Template

CORE = ROOT / "layers/core"
UNCHECKED_HASH = 0b01


def pinned(file: Path) -> set[str]:
    """`name==version` of each pin that applies to Linux and CPython."""
    pins = re.findall(r"^([a-z0-9][\w.-]*==[^\s;\\]+)(?: ; ([^\\\n]+))?", file.read_text(), re.MULTILINE)
    return {pin for pin, marker in pins if "win32" not in marker and "< '3.11.3'" not in marker}


STACKS = sorted((ROOT / "stacks").glob("*.yaml"))


@pytest.mark.parametrize("file", [ROOT / "template.yaml", *STACKS], ids=lambda file: file.stem)
def test_sam_accepts_each_template(file: Path) -> None:
    run_tool([TOOLS / "sam/bin/sam", "validate", "--lint", "--template", file])


def test_all_templates_pass_the_serverless_rules(expanded_file: Path) -> None:
    run_tool([TOOLS / "sam/bin/cfn-lint", "--config-file", "tools/cfn-lint.yaml", "--template", expanded_file, *STACKS])


def test_all_templates_pass_the_security_checks(expanded_file: Path) -> None:
    files = [part for file in (expanded_file, *STACKS) for part in ("--file", file)]
    run_tool([TOOLS / "checkov/bin/checkov", *files, "--config-file", "tools/checkov.yaml"])


def test_build_holds_every_nested_stack(build: Path, root: Template) -> None:
    for name in root.of_type("AWS::CloudFormation::Stack"):
        built = (build / name / "template.yaml").read_text()
        assert "Resources:" in built, name


def test_a_built_function_is_its_app_alone(build: Path, template: Template) -> None:
    for function in template.functions:
        assert [file.name for file in (build / function).iterdir()] == ["app.py"], function


def test_core_layer_holds_the_package_with_its_data(build: Path) -> None:
    def files(folder: Path) -> set[str]:
        found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
        return {str(file) for file in found if "__pycache__" not in file.parts}

    assert files(build / "CoreLayer/python") == {f"artiway/{name}" for name in files(CORE / "artiway")}


def test_core_layer_holds_the_roots_of_amazon(build: Path) -> None:
    assert (build / "CoreLayer/roots/amazon.pem").read_bytes() == (CORE / "roots/amazon.pem").read_bytes()


@pytest.mark.parametrize("layer", ["DependenciesLayer", "CoreLayer"])
def test_layer_modules_have_unchecked_bytecode(build: Path, layer: str) -> None:
    modules = list((build / layer / "python").rglob("*.py"))
    assert modules
    for module in modules:
        bytecode = module.parent / "__pycache__" / f"{module.stem}.{sys.implementation.cache_tag}.pyc"
        assert bytecode.read_bytes()[4:8] == UNCHECKED_HASH.to_bytes(4, "little"), module


def test_dependencies_layer_holds_exactly_the_pinned_packages(build: Path) -> None:
    folders = (build / "DependenciesLayer/python").glob("*.dist-info")
    built = {folder.name.removesuffix(".dist-info").replace("_", "-").lower() for folder in folders}
    assert {pin.replace("==", "-").lower() for pin in pinned(CORE / "requirements.txt")} <= built
    names = {re.sub(r"-\d.*", "", name) for name in built}
    assert names <= {line.partition("==")[0] for line in (CORE / "requirements.txt").read_text().splitlines()}


def test_pip_builds_the_same_layer_as_uv(build: Path, pip_build: Path) -> None:
    def files(built: Path) -> dict[str, bytes]:
        folder = built / "DependenciesLayer/python"
        found = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
        # Of 3.11 uv means 3.11.0, which needs this package, and pip the interpreter that runs it.
        ignored = (".dist-info/", "async_timeout/")
        return {name: file.read_bytes() for name, file in found.items() if not any(part in name for part in ignored)}

    installers = list((pip_build / "DependenciesLayer/python").glob("*.dist-info/INSTALLER"))
    assert {file.read_text().strip() for file in installers} == {"pip"}
    assert files(build) == files(pip_build)


def test_every_handler_imports_from_its_layers_alone(build: Path, template: Template) -> None:
    for function in template.functions:
        assert answer(build, function, "import app; print(callable(app.handler))") == "True", function


def test_the_built_authorizer_answers_its_event(build: Path) -> None:
    event = json.loads((ROOT / "events/authorizer.malformed.json").read_text())
    code = f"import app, json; print(json.dumps(app.handler({event!r}, None)))"
    response = json.loads(
        answer(build, "AuthorizerFunction", code, ARTIWAY_TOKEN_JWKS='{"keys":[]}', ARTIWAY_TOKEN_ISSUER="artiway")
    )
    assert "AUTH_401" in json.dumps(response)
    assert "tenantId" not in json.dumps(response)


def answer(build: Path, function: str, code: str, **variables: str) -> str:
    """Run code as Lambda does, with the function's folder, its layers and the standard library only."""
    path = os.pathsep.join(str(build / layer / "python") for layer in ("DependenciesLayer", "CoreLayer"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=build / function,
        env={"PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{function}: {done.stderr}"
    return done.stdout.strip().splitlines()[-1]


def test_layer_pins_the_versions_of_the_tests() -> None:
    def entries(file: Path) -> dict[str, set[str]]:
        blocks = re.split(r"\n(?=[a-z0-9])", "\n" + file.read_text())
        return {
            found[1]: set(re.findall(r"sha256:[0-9a-f]{64}", block))
            for block in blocks
            if (found := re.match(r"([\w.-]+==[^\s;]+)", block.lstrip()))
        }

    layer, lock = entries(CORE / "requirements.txt"), entries(ROOT / "requirements.lock")
    assert layer
    for pin, hashes in layer.items():
        assert hashes, pin
        assert hashes == lock.get(pin), pin
