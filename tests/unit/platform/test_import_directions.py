"""Imports point one way: functions → bootstrap → adapters → services → models."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LAYER = ROOT / "layers/core"
# Third-party packages that only the platform and the adapters may import.
VENDORS = {
    "PIL",
    "argon2",
    "aws_lambda_powertools",
    "boto3",
    "botocore",
    "cryptography",
    "jwt",
    "mypy_boto3",
    "psycopg",
    "pydantic_settings",
    "redis",
    "snapshot_restore_py",
    "urllib3",
}
# Third-party packages without I/O, which every module may import.
PURE_LIBRARIES = {"pydantic", "tzdata", "yaml"}
# Parts of the platform without a vendor in their interface, which a service may import.
PURE_PLATFORM = {"clock", "logs", "metrics", "ports", "redis_keys", "tracing", "waits"}
# Modules that call a vendor, by name.
ADAPTERS = {
    "repository",  # PostgreSQL
    "queue",  # Redis and SQS
    "scripts",  # Lua in Redis
    "forecast_store",  # Redis
    "quota",  # Redis
    "wechat",  # WeChat Pay's HTTP API
    "wechat_login",  # WeChat's login API
    "alerts",  # SNS
    "outbound",  # the HTTP client for addresses that tenants name
    "passwords",  # argon2
    "token_verifier",  # PyJWT
    "access_check",  # the platform's HTTP API and rate limiter
    "checks",  # PostgreSQL and Redis answer
    "meters",  # Redis INFO
}
MODULES = sorted(path for path in (LAYER / "artiway").rglob("*.py") if path.name != "__init__.py")
# Modules that a handler parses and renders with: values, messages, the contract with workers, their reports.
WIRE = {"model", "contract", "messages", "reports"}
HANDLERS = sorted((ROOT / "functions").glob("*/app.py"))
BEHAVIOUR = (ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.Raise, ast.ClassDef)
# The authorizer must import nothing but the token check: bootstrap would bring pydantic into every cold start.
LIGHT = {"authorizer": {"artiway.identity.token_verifier"}}


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


def third_party(path: Path) -> set[str]:
    """The packages that the file imports from outside; `mypy_boto3_s3` and its siblings are one package."""
    found = {name.split(".")[0] for name in imports(path)} - {"artiway"} - sys.stdlib_module_names
    return {"mypy_boto3" if name.startswith("mypy_boto3_") else name for name in found}


def vendors(path: Path) -> set[str]:
    return third_party(path) & VENDORS


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_module_imports_in_allowed_direction(path):
    place = path.relative_to(LAYER / "artiway").with_suffix("").parts
    if place[0] == "bootstrap":
        return
    allowed = {"artiway", "artiway.errors", "artiway.events", "artiway.ids", "artiway.zones"}
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
            assert kind in PURE_PLATFORM, f"a service knows no vendor, yet it imports {name}"
        else:
            assert kind not in ADAPTERS, f"a service states its needs as a Protocol, yet it imports {name}"
            assert kind != "bootstrap", "only functions call bootstrap"


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_every_third_party_package_is_listed(path):
    assert third_party(path) <= VENDORS | PURE_LIBRARIES


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_only_platform_and_adapters_import_vendors(path):
    place = path.relative_to(LAYER / "artiway").with_suffix("").parts
    if place[0] not in {"platform", "bootstrap"} and place[-1] not in ADAPTERS:
        assert vendors(path) == set()


@pytest.mark.parametrize("path", HANDLERS, ids=label)
def test_handler_imports_bootstrap_and_platform_only(path):
    extra = LIGHT.get(path.parent.name, set())
    for name in ours(path) - {"artiway", "artiway.errors", "artiway.ids", "artiway.bootstrap", *extra}:
        parts = name.split(".")[1:]
        assert parts[0] == "platform" or parts[-1] in WIRE, f"a handler calls services through bootstrap, not {name}"
    assert vendors(path) <= {"aws_lambda_powertools"}


@pytest.mark.parametrize("path", HANDLERS, ids=label)
def test_function_folder_holds_only_its_handler(path):
    assert [item.name for item in path.parent.iterdir() if item.name != "__pycache__"] == ["app.py"]


@pytest.mark.parametrize("path", sorted((LAYER / "artiway/bootstrap").glob("[a-z]*.py")), ids=label)
def test_bootstrap_holds_only_providers(path):
    """A provider makes one object from others: no class, no branch, no loop, no function inside."""
    if path.name == "once.py":
        return
    for statement in ast.parse(path.read_text("utf-8")).body:
        assert isinstance(statement, ast.Expr | ast.Import | ast.ImportFrom | ast.FunctionDef | ast.If), statement
        if isinstance(statement, ast.If):
            assert ast.unparse(statement.test) == "TYPE_CHECKING"
        if isinstance(statement, ast.FunctionDef):
            nodes = [node for inner in statement.body for node in ast.walk(inner)]
            inner = [type(node).__name__ for node in nodes if isinstance(node, (*BEHAVIOUR, ast.FunctionDef))]
            assert not inner, f"{statement.name} has {inner[0]}: behaviour belongs in a service"
