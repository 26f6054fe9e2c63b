"""The event loop of the unit tests of this package."""

from tests.unit.local.conftest import run

__all__ = ["run"]
