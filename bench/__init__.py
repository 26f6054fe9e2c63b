"""Benchmarks. `python -m bench.<name>` prints a table and writes bench/results/<name>.json."""

import sys
from pathlib import Path

# So that a benchmark also runs without the PYTHONPATH of the Makefile. Last: `bench.tasks --before` names another tree.
sys.path.append(str(Path(__file__).parents[1] / "layers/core"))
