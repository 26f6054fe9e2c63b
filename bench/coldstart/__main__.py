"""`python -m bench.coldstart`: the import time of each handler, compared with the libraries that it imports.

A handler and its bare libraries are imported in turn, each time in a fresh interpreter with warm bytecode, so that
other load affects both equally. The libraries are the third-party modules that the handler and the layer import.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "layers/core"
RESULT = ROOT / "bench/results/coldstart.json"
GOAL_RATIO = 1.3
TOP = 4

# CPU time of the imports alone: the start of the interpreter is equal for all, and other processes do not count.
TIMED = """
import sys, time
names = sys.argv[1:]
started = time.process_time()
for name in names:
    __import__(name)
print(time.process_time() - started)
"""

# Prints each third-party module that the handler or the layer imports.
LISTED = """
import builtins, sys
original, imported = builtins.__import__, []

def is_ours(name):
    return name == "app" or name.partition(".")[0] == "artiway"

def watching(name, globals=None, locals=None, fromlist=(), level=0):
    module = original(name, globals, locals, fromlist, level)
    if globals and is_ours(globals.get("__name__", "")) and level == 0 and not is_ours(name):
        for full in (name, *(f"{name}.{part}" for part in fromlist or ())):
            found = sys.modules.get(full)
            if "-packages" in (getattr(found, "__file__", None) or "") and full not in imported:
                imported.append(full)
    return module

builtins.__import__ = watching
import app
print(" ".join(imported))
"""


@dataclass(frozen=True)
class Measured:
    function: str
    handler_ms: float
    libraries_ms: float
    ratio: float
    libraries: list[str]
    slowest: dict[str, float]
    """Own import time in ms of the packages that take most of it."""


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter with the paths of Lambda. It writes no bytecode."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(folder), str(LAYER)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )


def seconds(folder: Path, names: list[str]) -> float:
    return float(python("-c", TIMED, *names, folder=folder).stdout)


def slowest(folder: Path) -> dict[str, float]:
    """Packages by their own import time, including artiway."""
    lines = re.findall(
        r"import time:\s+(\d+) \|\s+\d+ \| +(\S+)", python("-X", "importtime", "-c", "import app", folder=folder).stderr
    )
    total: Counter[str] = Counter()
    for microseconds, module in lines:
        total[module.partition(".")[0]] += int(microseconds)
    return {package: round(own / 1000, 1) for package, own in total.most_common(TOP)}


def measure(folder: Path, rounds: int) -> Measured:
    libraries = python("-c", LISTED, folder=folder).stdout.split()
    handler, bare = [], []
    for _ in range(rounds):
        handler.append(seconds(folder, ["app"]))
        bare.append(seconds(folder, libraries))
    handler_ms, libraries_ms = statistics.median(handler) * 1000, statistics.median(bare) * 1000
    return Measured(
        folder.name,
        round(handler_ms, 1),
        round(libraries_ms, 1),
        round(handler_ms / libraries_ms, 2) if libraries else float("nan"),
        libraries,
        slowest(folder),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.coldstart", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="imports of each, the median counts (default 15)")
    parser.add_argument("functions", nargs="*", help="folders under functions/ (default: all)")
    wanted = parser.parse_args()
    compileall.compile_dir(LAYER / "artiway", quiet=1)
    folders = sorted(file.parent for file in (ROOT / "functions").glob("*/app.py"))
    rows = []
    print(f"{'handler':<14}{'CPU ms':>10}{'libraries ms':>14}{'ratio':>7}  own time of the slowest packages, ms")
    for folder in folders:
        if wanted.functions and folder.name not in wanted.functions:
            continue
        row = measure(folder, wanted.rounds)
        rows.append(row)
        listed = ", ".join(f"{package} {own_ms:g}" for package, own_ms in row.slowest.items())
        mark = " " if not row.ratio > GOAL_RATIO else "!"
        print(
            f"{row.function:<14}{row.handler_ms:>10.1f}{row.libraries_ms:>14.1f}{row.ratio:>7.2f}{mark} {listed}",
            flush=True,
        )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    RESULT.write_text(
        json.dumps({"rounds": wanted.rounds, **machine, "handlers": [asdict(row) for row in rows]}, indent=2) + "\n"
    )
    print("Modules that a handler imports on first use (boto3, psycopg, redis) are not included.")
    print(f"goal: ratio <= {GOAL_RATIO} (! where it is not met); written to {RESULT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
