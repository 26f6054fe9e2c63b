from __future__ import annotations

import contextlib

import pytest
import redis

from tests.fakes.simulation import Stage, make_simulated
from tests.fakes.tasks import World


@pytest.fixture
def world(addresses, valkey):
    """A quiet world, whose books are checked when the test is over (R-REC-6)."""
    world = World(addresses, valkey)
    yield world
    world.assert_sound()
    world.close()


@pytest.fixture(scope="session")
def simulated_addresses(make_addresses):
    """A database that has no clock of its own."""
    addresses = make_addresses("simulated", template="template0")
    make_simulated(addresses)
    return addresses


@pytest.fixture(scope="module")
def simulation(simulated_addresses, valkey_url):
    with (
        redis.Redis.from_url(valkey_url, decode_responses=True) as client,
        contextlib.closing(Stage(simulated_addresses, client)) as stage,
    ):
        yield stage


@pytest.fixture
def stage(simulation):
    """Where one story after another is played, each in an empty world."""
    return simulation
