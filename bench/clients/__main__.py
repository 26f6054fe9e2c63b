"""`python -m bench.clients`: the import time of the Python client and of `artiway`, compared with their bare libraries.

Both are imported in turn, each time in a fresh interpreter of `.tools/cli` with warm bytecode.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from bench.coldstart.__main__ import GOAL_RATIO, ROOT, TIMED

INTERPRETER = ROOT / ".tools/cli/bin/python"
RESULT = ROOT / "bench/results/clients.json"
# What a user imports, and the third-party modules that it imports.
SUBJECTS = {
    "Client": (["artiway_client.client"], ["httpx"]),
    "AsyncClient": (["artiway_client.async_client"], ["httpx", "asyncio"]),
    "artiway": (
        ["artiway_client.cli.app"],
        ["httpx", "typer", "rich.console", "rich.live", "rich.progress", "rich.table"],
    ),
}


def milliseconds(names: list[str]) -> float:
    done = subprocess.run([INTERPRETER, "-c", TIMED, *names], capture_output=True, text=True, check=True)
    return 1000 * float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="imports of each, the median counts (default 15)")
    rounds = parser.parse_args().rounds
    if not Path(INTERPRETER).exists():
        print("bench.clients needs the command: run `make cli` first", file=sys.stderr)
        return 1
    rows = []
    print(f"{'import':<14}{'CPU ms':>10}{'libraries ms':>14}{'ratio':>7}")
    for subject, (own, bare) in SUBJECTS.items():
        pairs = [(milliseconds(own), milliseconds(bare)) for _ in range(rounds)]
        own_ms, bare_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
        rows.append({"import": subject, "ms": round(own_ms, 1), "libraries_ms": round(bare_ms, 1)})
        mark = "" if own_ms / bare_ms <= GOAL_RATIO else "!"
        print(f"{subject:<14}{own_ms:>10.1f}{bare_ms:>14.1f}{own_ms / bare_ms:>7.2f}{mark}", flush=True)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    RESULT.write_text(json.dumps({"rounds": rounds, **machine, "imports": rows}, indent=2) + "\n")
    print(f"goal: ratio <= {GOAL_RATIO} (! where it is not met); written to {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
