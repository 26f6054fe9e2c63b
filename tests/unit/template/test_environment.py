"""A missing environment variable fails here and not at the first request after a deployment.

The test reads the code: from the providers that a handler names to the providers that those name, down to the settings
that they read. A setting without a usable default must be a variable of the function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from artiway import bootstrap
from artiway.platform.settings import Settings
from tests.unit.template.facts import ROOT, Template

PREFIX = "ARTIWAY_"
MODULES = ROOT / "layers/core/artiway/bootstrap"
HANDLERS = sorted((ROOT / "functions").glob("*/app.py"))
# Settings for which an empty value means something, so that no function must have them.
OPTIONAL = {
    "allowed_targets": "no private target may be called",
    "packages": "packages.json of the layer is sold",
    "requeued_tools": "no tool's nodes run again after the limit",
    "public_url": "the request's own host is used",
}
# Read by the logger and the metrics, which need no settings.
LOGGER = {"ARTIWAY_LOG_LEVEL", "ARTIWAY_LOG_SAMPLE_RATE", "ARTIWAY_METRICS"}
# Setting -> function's folder -> why that function reaches a provider of the setting but never uses it.
# A message that cannot be sent for want of an address stays in the outbox, and the relay has every address.
NO_EXECUTION = "starts no execution: only a submission, a retry and the sweeps do; a token is answered without the ARN"
READS_EVENTS = "only reads tasks and events"
SIGNS_NOTHING = "checks or submits tasks and gives nobody the address of a picture"
READS_PICTURES = "reads pictures for a model and gives nobody the address of one"
NEVER_USED = {
    "task_machine_arn": {
        "events": READS_EVENTS,
        **dict.fromkeys(("fanout", "internal", "ops", "progress", "push"), NO_EXECUTION),
        **dict.fromkeys(("jobs", "scheduler", "settle", "webhooks", "websocket"), NO_EXECUTION),
        **dict.fromkeys(("trigger", "results"), NO_EXECUTION),
    },
    "queues": {
        "events": READS_EVENTS,
    },
    "service_database_url": {
        "events": READS_EVENTS,
    },
    **{
        name: {
            **dict.fromkeys(("dispatch", "jobs"), SIGNS_NOTHING),
            **dict.fromkeys(("generations", "openai", "ops", "text_batch", "text_stream"), READS_PICTURES),
        }
        for name in ("picture_secret_arn", "picture_key", "picture_key_id")
    },
    "artefact_bucket": {
        "openai": "its requests have no pictures",
        "ops": "retries texts, whose pictures were inspected when they were first submitted",
        "text_stream": "its lanes have no service that sees a picture (tests/unit/generations/test_services.py)",
    },
    "alarm_topic_arn": {"ops": "reads bills; the reconciliation sends the alerts"},
    "websocket_endpoint": {"relay": "forgets expired connections in the database; it sends nothing to a socket"},
}


@dataclass(frozen=True)
class Provider:
    """What a function of bootstrap names: other providers, and settings."""

    providers: frozenset[str]
    settings: frozenset[str]


def names_of(tree: ast.AST, known: dict[str, str], *, package: str) -> Provider:
    """`known` maps a local name to a provider; `package` is the name under which all providers are attributes."""
    providers, settings = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in known:
            providers.add(known[node.id])
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == package:
                providers.add(node.attr)
            if node.attr in Settings.model_fields and _is_settings(node.value):
                settings.add(node.attr)
    return Provider(frozenset(providers), frozenset(settings))


def _is_settings(value: ast.expr) -> bool:
    """`settings`, `settings()`, `base.settings()`."""
    called = value.func if isinstance(value, ast.Call) else value
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "settings"


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("artiway.bootstrap."):
            yield from (alias.name for alias in node.names)


@pytest.fixture(scope="module")
def providers() -> dict[str, Provider]:
    """Every function of bootstrap by its name, which is unique in the package."""
    found: dict[str, Provider] = {}
    for path in sorted(MODULES.glob("[a-z]*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        known = {name: name for name in [*imported(tree), *(one.name for one in functions)]} | {"once": "once"}
        for one in functions:
            assert one.name not in found, f"{one.name} is in two modules"
            body = ast.Module(body=list(one.body), type_ignores=[])
            found[one.name] = names_of(body, known, package="base")
    return found


def reached(start: Provider, providers: dict[str, Provider]) -> set[str]:
    """The settings that a handler reads, itself or through providers."""
    settings, seen, left = set(start.settings), set[str](), set(start.providers)
    while left:
        name = left.pop()
        if name in seen or name not in providers:
            continue
        seen.add(name)
        settings |= providers[name].settings
        left |= providers[name].providers
    return settings


def is_empty(default: Any) -> bool:
    return not (default.get_secret_value() if isinstance(default, SecretStr) else default)


def required() -> set[str]:
    """Settings with an empty default: text, addresses and maps. A number's zero is a value."""
    fields = Settings.model_fields.items()
    defaults = {name: field.get_default(call_default_factory=True) for name, field in fields}
    return {name for name, value in defaults.items() if not isinstance(value, int | float) and is_empty(value)}


def named_by(path: Path) -> Provider:
    return names_of(ast.parse(path.read_text("utf-8")), {}, package="bootstrap")


def variables_read(path: Path) -> set[str]:
    """`os.environ["ARTIWAY_…"]` in a handler that does without settings."""
    return {
        node.slice.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value) == "os.environ"
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }


def functions_of(template: Template, folder: str) -> list[str]:
    return [name for name in template.functions if template.folder_of(name) == folder]


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.parent.name)
def test_function_has_every_variable_it_reads(template: Template, providers: dict[str, Provider], path: Path) -> None:
    handler = named_by(path)
    assert handler.providers <= providers.keys(), "a name that bootstrap does not have"
    folder = path.parent.name
    needed = (reached(handler, providers) & required()) - OPTIONAL.keys()
    needed -= {setting for setting, folders in NEVER_USED.items() if folder in folders}
    wanted = {PREFIX + name.upper() for name in needed} | variables_read(path)
    functions = functions_of(template, f"functions/{folder}")
    assert functions, f"functions/{folder} is not deployed"
    for function in functions:
        assert wanted - template.variables_of(function).keys() == set(), function


def test_every_variable_names_a_setting(template: Template) -> None:
    for function in template.functions:
        names = {name for name in template.variables_of(function) if name.startswith(PREFIX)} - LOGGER
        unknown = {name for name in names if name.removeprefix(PREFIX).lower() not in Settings.model_fields}
        assert unknown == set(), function


def test_reader_finds_every_exported_provider(providers: dict[str, Provider]) -> None:
    assert set(bootstrap.__all__) - {"forget_all"} <= providers.keys()
    assert "database_url" in providers["connect"].settings | providers["database"].settings
    assert "queues" in reached(providers["service_outbox"], providers)


def test_exceptions_are_still_needed(template: Template, providers: dict[str, Provider]) -> None:
    assert OPTIONAL.keys() <= required()
    for setting, folders in NEVER_USED.items():
        for folder in folders:
            assert setting in reached(named_by(ROOT / "functions" / folder / "app.py"), providers), folder
            for function in functions_of(template, f"functions/{folder}"):
                assert PREFIX + setting.upper() not in template.variables_of(function), function
