"""What an import costs: the names of the modules that it loads, which do not depend on the machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"artiway_client.models", "typer", "rich", "yaml", "click"}


def loaded(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import artiway_client", {"httpx", *HEAVY}),
        ("from artiway_client import verify", {"httpx", *HEAVY}),
        ("from artiway_client import Client", {"artiway_client.async_client", *HEAVY}),
        ("from artiway_client import AsyncClient", {"artiway_client.client", *HEAVY}),
    ],
)
def test_import_loads_only_what_it_needs(statement, absent):
    assert not loaded(statement) & absent
