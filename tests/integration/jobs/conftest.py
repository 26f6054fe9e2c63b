from __future__ import annotations

import contextlib

import pytest
import redis

from artiway import ids
from tests.simulation.jobs_world import JobsWorld
from tests.simulation.seeded import Simulation, make_simulated


@pytest.fixture(scope="session")
def jobs_addresses(make_addresses):
    """A database whose time the tests set."""
    addresses = make_addresses("jobs", template="template0")
    make_simulated(addresses)
    return addresses


@pytest.fixture(scope="session")
def jobs_simulation(jobs_addresses, valkey_url):
    with (
        redis.Redis.from_url(valkey_url, decode_responses=True) as client,
        contextlib.closing(Simulation(jobs_addresses, client)) as simulation,
    ):
        yield simulation


@pytest.fixture(scope="session")
def open_world(jobs_simulation):
    """Opens jobs in an empty database, at noon. Its counters must agree with its runs at the end."""

    @contextlib.contextmanager
    def opened(**options):
        jobs_simulation._clear()
        world = JobsWorld(jobs_simulation, jobs_simulation.redis, seed=1, **options)
        with ids.drawn_from(world.draw_id):
            yield world
        assert world.loads() == world.counted_runs()
        world.close()

    return opened


@pytest.fixture
def world(open_world):
    with open_world() as world:
        yield world
