"""Four times as many finished nodes do not make a bounded pass read more. PostgreSQL counts the rows."""

from __future__ import annotations

import pytest

from bench.retention.__main__ import NODES_PER_TASK, run

TASKS = (400, 1_600)


@pytest.fixture(scope="module")
def measured(make_addresses):
    """The benchmark at two sizes, each in a database of its own."""
    found = []
    for tasks in TASKS:
        addresses = make_addresses(f"retention_{tasks}")
        found.append(run(addresses.superuser, addresses.service, tasks * NODES_PER_TASK, passes=2))
    return found


def test_check_of_changes_does_not_grow(measured):
    small, large = (found["changes of a minute"] for found in measured)
    assert large["done"] == small["done"]
    assert large["rowsRead"] <= 1.5 * small["rowsRead"]  # the planner joins in another order


def test_pass_without_due_rows_reads_almost_nothing(measured):
    assert all(found["retention, nothing due"]["rowsRead"] < 50 for found in measured)


def test_purge_reads_little_more_than_it_deletes(measured):
    """A row is read once to be found, and a node's row for each table that refers to it."""
    for found in measured:
        first, second = found["retention"]
        assert first["done"] > 1_000
        assert first["rowsRead"] < 3 * first["done"]
        assert second["done"] == 0
        assert second["rowsRead"] < 50


def test_full_check_grows_with_the_rows(measured):
    """So the counters count."""
    small, large = (found["full check"] for found in measured)
    assert large["rowsRead"] > 2 * small["rowsRead"]
