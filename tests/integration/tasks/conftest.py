from __future__ import annotations

import pytest

from tests.fakes.tasks import World


@pytest.fixture
def world(addresses, valkey):
    """A quiet world, whose books are checked when the test is over (R-REC-6)."""
    world = World(addresses, valkey)
    yield world
    world.assert_sound()
    world.close()
