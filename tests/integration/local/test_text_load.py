"""The program that drives the handlers of texts offline."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tools.text_load", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("kind", "points"), [(("stream", "paid", "copywriting"), "3"), (("batch", "free", "title"), "0")], ids=str
)
def test_all_texts_are_written_and_charged(kind, points):
    done = run(*kind, "--texts", "3", "--at-once", "2", "--scene", "healthy")
    assert done.returncode == 0, done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("COMPLETED"))
    assert row[:4] == ["COMPLETED", "3", "300", points]


def test_failed_texts_are_shown_with_their_code():
    done = run("stream", "paid", "copywriting", "--texts", "2", "--at-once", "1", "--scene", "status_401")
    assert done.returncode == 0, done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if line.startswith("FAILED"))
    assert (row[1], row[3], row[-1]) == ("2", "0", "GEN_401_PROVIDER_KEY")


def test_service_of_another_mode_is_refused():
    done = run("batch", "paid", "copywriting")
    assert done.returncode == 2
    assert "copywriting is a service of stream" in done.stderr
