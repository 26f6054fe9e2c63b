"""The workers of the local stack: their environment, and a stop after a failed start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from artiway.tasks import catalogue
from local import workers
from local.processes import identity
from local.workers import Workers, queue_of

FACTS = {"awsUrl": "http://127.0.0.1:1", "lambdaUrl": "http://127.0.0.1:1"}


@pytest.fixture
def physical(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The deployed queues by logical id. A worker is a program that sleeps."""
    (tmp_path / "worker.py").write_text("import time; time.sleep(600)")
    monkeypatch.setattr(workers, "ROOT", tmp_path)
    monkeypatch.setattr(workers, "PYTHON", Path(sys.executable))
    found = {queue_of(pool, kind): "url" for pool in ("gpu", "enterprise") for kind in catalogue.load().types}
    found |= {"ProgressQueue": "url", "DataArtefactBucket": "bucket"}
    monkeypatch.setattr(workers, "physical_ids", lambda _url: found)
    return found


def test_stop_ends_workers_of_a_failed_start(physical: dict[str, str], tmp_path: Path) -> None:
    del physical["WorkGpuComposeQueue"]
    service = Workers(tmp_path)
    with pytest.raises(KeyError):
        service.start(FACTS)
    pids = service.pids()
    assert len(pids) == 2
    service.stop()
    assert [identity(pid) for pid in pids] == ["", ""]


@pytest.mark.parametrize("targets", ["", "127.0.0.1:9000"])
def test_workers_get_the_allowed_targets_if_set(monkeypatch: pytest.MonkeyPatch, targets: str) -> None:
    monkeypatch.setenv(workers.ALLOWED_TARGETS, targets)
    assert workers._environment(FACTS).get(workers.ALLOWED_TARGETS, "") == targets


def test_stop_before_the_start_does_nothing(tmp_path: Path) -> None:
    Workers(tmp_path).stop()
