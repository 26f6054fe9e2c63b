"""Imports point one way: functions → bootstrap → adapters → services → models. STYLE is only worth what is checked."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LAYER = ROOT / "layers/core"
VENDORS = {"boto3", "botocore", "psycopg", "redis", "urllib3", "aws_lambda_powertools", "mypy_boto3"}
# Vendor-free parts of the platform that a rule may lean on: time, words for the log, numbers, one secret per thread.
PURE_PLATFORM = {"clock", "logs", "metrics", "tracing"}
# Who speaks to a vendor: PostgreSQL, Redis and SQS; WeChat's HTTP API; the topic that tells people; the Lua loader;
# the HTTP client for targets of tenants.
ADAPTERS = {"repository", "queue", "wechat", "alerts", "scripts", "outbound"}
MODULES = sorted(path for path in (LAYER / "artiway").rglob("*.py") if path.name != "__init__.py")
# What a handler parses and renders with: values, the contract with workers, the reader of their reports.
WIRE = {"model", "contract", "reports"}
HANDLERS = sorted((ROOT / "functions").glob("*/app.py"))
BEHAVIOUR = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.ClassDef)
# The authorizer must import nothing but the token check: bootstrap would bring pydantic into every cold start.
LIGHT = {"authorizer": {"artiway.identity.tokens"}}


def imports(path: Path) -> set[str]:
    """Every module that the file names in an import, `from package import module` resolved to the module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                is_module = (LAYER / full.replace(".", "/")).is_dir() or (
                    LAYER / (full.replace(".", "/") + ".py")
                ).exists()
                found.add(full if is_module else node.module)
    return found


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name == "artiway" or name.startswith("artiway.")}


def vendors(path: Path) -> set[str]:
    return {name for name in imports(path) if name.split(".")[0].startswith(tuple(VENDORS))}


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_a_module_imports_in_the_allowed_direction(path):
    place = path.relative_to(LAYER / "artiway").with_suffix("").parts
    if place[0] == "bootstrap":
        return
    allowed = {"artiway", "artiway.errors", "artiway.events", "artiway.ids"}
    for name in ours(path) - allowed:
        parts = name.split(".")[1:]
        kind = parts[-1]
        if place[0] == "platform":
            assert parts[0] == "platform", f"the platform knows no feature, yet it imports {name}"
        elif place[-1] == "model":
            assert kind == "model", f"a model imports models and errors, not {name}"
        elif place[-1] in ADAPTERS:
            assert parts[0] == "platform" or kind in {"model", *ADAPTERS} or parts[0] == place[0], name
            assert kind != "service", f"an adapter does not know its service: {name}"
        elif parts[0] == "platform":
            assert kind in PURE_PLATFORM, f"a rule does not know vendors, yet it imports {name}"
        else:
            assert kind not in ADAPTERS, f"a rule states its needs as a Protocol, yet it imports {name}"
            assert kind != "bootstrap", "only functions ask bootstrap"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_only_adapters_know_vendors(path):
    place = path.relative_to(LAYER / "artiway").with_suffix("").parts
    if place[0] not in {"platform", "bootstrap"} and place[-1] not in ADAPTERS:
        assert vendors(path) == set()


@pytest.mark.parametrize("path", HANDLERS, ids=label)
def test_a_handler_knows_bootstrap_and_the_platform(path):
    extra = LIGHT.get(path.parent.name, set())
    for name in ours(path) - {"artiway", "artiway.errors", "artiway.ids", "artiway.bootstrap", *extra}:
        parts = name.split(".")[1:]
        assert parts[0] == "platform" or parts[-1] in WIRE, f"a handler calls services through bootstrap, not {name}"
    assert {name for name in vendors(path) if not name.startswith("aws_lambda_powertools")} == set()


@pytest.mark.parametrize("path", HANDLERS, ids=label)
def test_a_function_folder_holds_its_handler_alone(path):
    assert [item.name for item in path.parent.iterdir() if item.name != "__pycache__"] == ["app.py"]


@pytest.mark.parametrize("path", sorted((LAYER / "artiway/bootstrap").glob("[a-z]*.py")), ids=label)
def test_bootstrap_holds_providers_and_nothing_else(path):
    """A provider makes one thing from others: no class, no branch, no loop."""
    if path.name == "once.py":
        return
    for statement in ast.parse(path.read_text("utf-8")).body:
        assert isinstance(statement, ast.Expr | ast.Import | ast.ImportFrom | ast.FunctionDef | ast.If), statement
        if isinstance(statement, ast.If):
            assert ast.unparse(statement.test) == "TYPE_CHECKING"
        if isinstance(statement, ast.FunctionDef):
            inner = [type(node).__name__ for node in ast.walk(statement) if isinstance(node, BEHAVIOUR)]
            assert not inner, f"{statement.name} has {inner[0]}: behaviour belongs in a service"
