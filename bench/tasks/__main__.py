"""`python -m bench.tasks [--quick] [--no-peers] [--profile] [--before <folder>]`: the platform's own time per task.

`--before` names another tree of this repository. Both trees are then measured in turns, by the code of this one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform as machine
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.tasks import counts, profile
from bench.tasks.ours import median_of
from bench.tasks.peers import PEERS, ROOT
from bench.tasks.plan import DEPTH, NODES, PICTURES, Plan

RESULTS = ROOT / "bench" / "results"
TURNS = 3


def measured(tree: Path, home: Path, *, is_quick: bool) -> dict[str, Any]:
    """One run of a tree's stack. The benchmark's own code is that of this tree."""
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        (Path(folder) / "bench").symlink_to(ROOT / "bench")
        paths = [folder, str(tree / "layers" / "core"), str(tree)]
        command = [sys.executable, "-m", "bench.tasks.ours", str(home), *(["--quick"] if is_quick else [])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=tree)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    parser.add_argument("--before", type=Path, help="another tree, measured in turns with this one")
    arguments = parser.parse_args()
    plan = Plan.of(is_quick=arguments.quick)
    trees = {"now": ROOT} | ({"before": arguments.before.resolve()} if arguments.before else {})
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    peers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="artiway-bench-") as folder:
        Path(folder).chmod(0o755)
        for turn in range(TURNS if arguments.before else 1):
            for name, tree in trees.items():
                home = Path(folder) / f"{name}-{turn}"
                runs[name].append(measured(tree, home, is_quick=arguments.quick))
        if not arguments.no_peers:
            peers = measured_peers(Path(folder) / "now-0", plan)
    results = {name: median_of(found) for name, found in runs.items()}
    print(f"model_photo with {PICTURES} pictures: {NODES} nodes, {DEPTH} deep; alone, and {plan.at_once} at once")
    show_dags(results, peers)
    for name, found in results.items():
        print(f"{name}: per node, and POST /tasks (access check, idempotency, price, hold, DAG, outbox)")
        counts.show(found["counts"])
        print(f"  CPU ms {sum(found['cpuMsPerNode'].values()):.1f}")
        for row in [*found["accepted"], found["paced"]]:
            print("  " + "  ".join(f"{key} {value}" for key, value in row.items()))
        if arguments.profile:
            for when, hops in found["hops"].items():
                print(f"  {when}")
                profile.show(hops, found["cpuMsPerNode"] if when == "atLoad" else {})
    results |= {"peers": peers}
    results["machine"] = {"cores": os.cpu_count(), "python": machine.python_version(), "load": os.getloadavg()[0]}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tasks.json").write_text(json.dumps(results, indent=2) + "\n")


def measured_peers(home: Path, plan: Plan) -> dict[str, Any]:
    found = {}
    for name, peer in PEERS.items():
        try:
            found[name] = peer(home, plan)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"  {name} was not measured: {error}")
    return found


def show_dags(results: dict[str, Any], peers: dict[str, Any]) -> None:
    ours = results["now"]["dags"]
    rows = {f"Artiway {name}": found["dags"] for name, found in results.items()} | peers
    print(f"  {'':16} {'one DAG, ms':>12} {'ours / it':>10} {'per node, ms':>13} {'ours / it':>10}")
    for name, row in rows.items():
        alone, node = ours["oneDagMs"] / row["oneDagMs"], ours["perNodeMs"] / row["perNodeMs"]
        print(f"  {name:16} {row['oneDagMs']:12.1f} {alone:10.2f} {row['perNodeMs']:13.2f} {node:10.2f}")


if __name__ == "__main__":
    main()
