"""Random DAGs in a world where all goes wrong: duplicates, any order, losses, crashes, an empty Redis, late workers.

Odd seeds run on the real fair queue, even ones on a plain picker. `make soak` plays more of them, and one that
fails is played again alone and exactly: ARTIWAY_SEED=17 pytest -n0 tests/integration/tasks/test_simulation.py
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import soaked
from tests.fakes.promises import Promises
from tests.fakes.story import digest, played

SEEDS = [int(os.environ["ARTIWAY_SEED"])] if "ARTIWAY_SEED" in os.environ else list(range(soaked(300)))
GROUP = 10  # spread over processes
GROUPS = [SEEDS[start : start + GROUP] for start in range(0, len(SEEDS), GROUP)]


@pytest.mark.soak
@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_whatever_happens_every_task_ends_and_every_promise_is_kept(stage, subtests, seeds):
    for seed in seeds:
        with subtests.test(seed=seed), played(stage, seed) as story:
            Promises(story).check()


@pytest.mark.parametrize("seed", [4, 7])
def test_a_seed_tells_the_same_story_again_to_the_last_row(stage, seed):
    def told(seed):
        with played(stage, seed) as story:
            return story.world.trace, story.world.remains()

    first, other, again = told(seed), told(seed + 1), told(seed)
    assert first == again
    assert first != other
    assert len(first[0]) > 100
    assert {line.partition(" ")[0] for line in first[1]} >= {"task", "node_history", "task_event", "points_ledger"}


def test_a_seed_tells_the_same_story_in_another_process(stage, simulated_addresses, valkey_url):
    """Whose sets of words have another order."""
    seed = 13
    with played(stage, seed) as story:
        here = digest(story)
    there = subprocess.run(
        [sys.executable, "-m", "tests.fakes.story", str(seed), valkey_url, *vars(simulated_addresses).values()],
        env={**os.environ, "PYTHONHASHSEED": "20260302", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert there[-1] == here
