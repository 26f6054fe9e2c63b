"""Unit tests run without a server: `make unit` starts none."""

from __future__ import annotations

from pathlib import Path

import pytest

SERVERS = frozenset({"postgres_url", "valkey_url"})
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and isinstance(item, pytest.Function) and SERVERS & set(item.fixturenames):
            raise pytest.UsageError(f"{item.nodeid} needs a server: move it to tests/integration")
