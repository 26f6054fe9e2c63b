"""Objects of the archive: the one in memory and S3 answer alike."""

from __future__ import annotations

import pytest

from artiway.errors import Unavailable
from artiway.jobs.archive.repository import S3Archive
from local.emulator import client, start_emulator
from local.servers import free_port, running
from tests.fakes.objects import StoredObjects

BUCKET = "artefacts"
KEY = "archive/run_log/2026-03-02/001-00000.jsonl.gz"


@pytest.fixture(scope="module")
def emulator_url(tmp_path_factory):
    with running(start_emulator(tmp_path_factory.mktemp("aws"), free_port())) as emulator:
        client("s3", emulator.url).create_bucket(Bucket=BUCKET)
        yield emulator.url


@pytest.fixture(params=["memory", "s3"])
def objects(request):
    if request.param == "memory":
        return StoredObjects()
    url = request.getfixturevalue("emulator_url")
    archive = S3Archive(BUCKET)
    archive.__dict__["_s3"] = client("s3", url)
    return archive


def test_object_is_read_whole_and_in_part(objects):
    content = bytes(range(256)) * 40
    objects.put(KEY, content)
    assert objects.get(KEY) == content
    assert objects.get(KEY, offset=300, length=50) == content[300:350]


def test_missing_object_is_none(objects):
    objects.put(KEY, b"x")
    objects.delete(KEY)
    objects.delete(KEY)
    assert objects.get(KEY) is None
    assert objects.get(KEY, offset=0, length=4) is None


def test_object_is_replaced(objects):
    objects.put(KEY, b"one")
    objects.put(KEY, b"two")
    assert objects.get(KEY) == b"two"


def test_silent_server_is_unavailable():
    archive = S3Archive(BUCKET)
    archive.__dict__["_s3"] = client("s3", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable):
        archive.get(KEY)
