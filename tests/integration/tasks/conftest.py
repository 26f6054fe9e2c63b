from __future__ import annotations

import pytest

from tests.simulation.world import World


@pytest.fixture
def world(addresses, valkey):
    """A world without faults. The invariants are checked after the test (R-REC-6)."""
    world = World(addresses, valkey)
    yield world
    world.assert_invariants()
    world.close()
