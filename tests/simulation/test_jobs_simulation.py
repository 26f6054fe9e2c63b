"""Random jobs with faults: duplicate, lost and late messages, crashes, clock steps, edits at the fire time.

`make soak` runs more seeds. A seed that failed is repeated exactly by:
ARTIWAY_SEED=17 pytest -n0 tests/simulation/test_jobs_simulation.py
"""

from __future__ import annotations

import os

import pytest

from tests.conftest import SOAK
from tests.simulation.jobs_promises import JobsPromises
from tests.simulation.jobs_story import jobs_played

COUNT = 100 if SOAK == 1 else 1_000
# 265: the clock steps back between an edit and a pause, over a fire.
FOUND_BEFORE = [265] if SOAK == 1 else []
SEEDS = [int(os.environ["ARTIWAY_SEED"])] if "ARTIWAY_SEED" in os.environ else [*range(COUNT), *FOUND_BEFORE]
GROUP = 10
GROUPS = [SEEDS[start : start + GROUP] for start in range(0, len(SEEDS), GROUP)]


@pytest.mark.soak
@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_fire_is_explained_and_ends(simulation, subtests, seeds):
    runs = 0
    for seed in seeds:
        with subtests.test(seed=seed), jobs_played(simulation, seed) as story:
            promises = JobsPromises(story)
            promises.check()
            runs += len(promises.runs)
    assert runs > 10 * len(seeds) or len(seeds) == 1
