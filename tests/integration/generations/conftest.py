from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.integration.generations.texts import Texts


@pytest.fixture
def texts(addresses, valkey) -> Iterator[Texts]:
    """The service, the worker and the sweeps on real PostgreSQL and Valkey, with scripted providers."""
    with contextlib.closing(Texts(addresses, valkey)) as made:
        yield made
