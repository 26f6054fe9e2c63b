from __future__ import annotations

import contextlib

import pytest
import redis

from tests.simulation.seeded import Simulation, make_simulated


@pytest.fixture(scope="session")
def simulated_addresses(make_addresses):
    """A database that does not use the system clock."""
    addresses = make_addresses("simulated", template="template0")
    make_simulated(addresses)
    return addresses


@pytest.fixture(scope="module")
def simulation(simulated_addresses, valkey_url):
    """Runs one seed after another, each in an empty world."""
    with (
        redis.Redis.from_url(valkey_url, decode_responses=True) as client,
        contextlib.closing(Simulation(simulated_addresses, client)) as simulation,
    ):
        yield simulation
