"""What each failure of a provider means for the generation."""

from __future__ import annotations

import pytest

from artiway.generations.providers.model import FAULTS, FailureCode, ProviderFailed


@pytest.mark.parametrize(
    ("code", "is_retryable", "is_waiting", "is_fault"),
    [
        (FailureCode.KEY, False, False, False),
        (FailureCode.REFUSED, False, False, False),
        (FailureCode.BUSY, True, True, False),
        (FailureCode.ERROR, True, False, True),
        (FailureCode.ANSWER, True, False, True),
        (FailureCode.AWAY, True, True, True),
        (FailureCode.NO_ROUTE, False, False, False),
        (FailureCode.INVALID, True, True, False),
        (FailureCode.TIMEOUT, True, False, True),
    ],
)
def test_code_decides_what_follows(code, is_retryable, is_waiting, is_fault):
    failed = ProviderFailed(code, "no text")
    assert (failed.is_retryable, failed.is_waiting, code in FAULTS) == (is_retryable, is_waiting, is_fault)


def test_every_code_is_in_the_table():
    marks = test_code_decides_what_follows.pytestmark[0].args[1]
    assert [row[0] for row in marks] == list(FailureCode)


def test_failure_after_content_does_not_wait():
    assert not ProviderFailed(FailureCode.AWAY, "closed", is_billable=True).is_waiting


def test_status_is_that_of_the_code():
    assert ProviderFailed(FailureCode.TIMEOUT, "slow", phase="idle").status == 504
