"""A SnapStart snapshot of an API function: what it holds, and what a restored process begins with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Functions that a client waits for. The authorizer is left out: it uses no service and draws no random number.
API = (
    "auth", "events", "health", "ops", "orders", "points", "tasks", "tenants", "users", "webhooks",
    "websocket", "wechat",
)  # fmt: skip
# Stands in for Lambda's module, imports the handler as the runtime does, then restores the snapshot twice.
SNAPSHOT = """
import json, os, random, stat, sys, threading, types
hooks = []
module = types.ModuleType("snapshot_restore_py")
module.register_after_restore = lambda hook, *a, **k: hooks.append(lambda: hook(*a, **k))
sys.modules["snapshot_restore_py"] = module
before = set(os.listdir("/proc/self/fd"))
import app
from artiway.bootstrap import once
made = [p.__doc__ or "" for p in once._PROVIDERS if p.is_made]
opened = [f"/proc/self/fd/{fd}" for fd in set(os.listdir("/proc/self/fd")) - before]
sockets = sum(os.path.exists(fd) and stat.S_ISSOCK(os.stat(fd).st_mode) for fd in opened)
threads = threading.active_count()
state, drawn, forgotten = random.getstate(), [], []
for _ in range(2):
    random.setstate(state)
    from artiway.bootstrap.base import settings
    settings.supply("of the snapshot")
    for hook in hooks: hook()
    drawn.append(random.random())
    forgotten.append(not settings.is_made)
print(json.dumps({"hooks": len(hooks), "made": made, "sockets": sockets, "threads": threads,
                  "drawn": drawn, "forgotten": forgotten}))
"""


@pytest.fixture(scope="module", params=API)
def snapshot(request: pytest.FixtureRequest) -> dict[str, object]:
    path = os.pathsep.join([str(ROOT / "layers/core"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", SNAPSHOT],
        cwd=ROOT / "functions" / request.param,
        env={"PYTHONPATH": path, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_snapshot_has_no_connection_thread_or_service(snapshot: dict[str, object]) -> None:
    assert (snapshot["made"], snapshot["sockets"], snapshot["threads"]) == ([], 0, 1)


def test_restored_processes_draw_other_random_numbers(snapshot: dict[str, object]) -> None:
    first, second = snapshot["drawn"]  # type: ignore[misc]
    assert snapshot["hooks"] == 1
    assert first != second


def test_a_restore_forgets_settings_and_services(snapshot: dict[str, object]) -> None:
    assert snapshot["forgotten"] == [True, True]
