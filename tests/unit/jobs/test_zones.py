"""Time zones come from the pinned package, whatever the host has installed."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tzdata

from artiway.jobs.cron import InvalidSchedule
from artiway.jobs.zones import TZDATA_VERSION, names, zone

ROOT = Path(__file__).parents[3]
# A host whose New York is at UTC: the file of another zone under its name.
PRINT_OFFSETS = """
from datetime import datetime
from zoneinfo import ZoneInfo
from artiway.jobs.zones import zone
for read in (ZoneInfo, zone):
    print(datetime(2026, 7, 1, tzinfo=read("America/New_York")).utcoffset())
"""


def test_database_of_the_host_is_not_read(tmp_path):
    (tmp_path / "America").mkdir()
    utc = Path(tzdata.__file__).parent / "zoneinfo" / "UTC"
    (tmp_path / "America" / "New_York").write_bytes(utc.read_bytes())
    output = subprocess.run(
        [sys.executable, "-c", PRINT_OFFSETS],
        env={**os.environ, "PYTHONTZPATH": str(tmp_path), "PYTHONPATH": str(ROOT / "layers/core")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.splitlines() == ["0:00:00", "-1 day, 20:00:00"]


def test_version_is_that_of_the_package():
    assert TZDATA_VERSION == tzdata.IANA_VERSION
    locked = (ROOT / "layers/core/requirements.txt").read_text("utf-8")
    assert f"tzdata=={tzdata.__version__} " in locked


def test_no_module_opens_zones_another_way():
    opened = [
        str(path.relative_to(ROOT))
        for folder in ("layers/core/artiway", "functions")
        for path in (ROOT / folder).rglob("*.py")
        if "ZoneInfo(" in path.read_text("utf-8")
    ]
    assert opened == [], "use artiway.zones.zone: ZoneInfo(name) reads the database of the host"


def test_every_name_has_a_zone():
    assert {"UTC", "Asia/Shanghai", "Asia/Chongqing", "America/New_York", "Africa/Casablanca"} <= names()
    at = datetime(2026, 7, 1, tzinfo=UTC)
    for name in names():
        assert zone(name).utcoffset(at.astimezone(zone(name))) is not None
        assert zone(name).key == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "Mars/Base",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe",
        "Factory",
        "zone.tab",
        "UTC\0",
        "上海",
        "x" * 500,
    ],
)
def test_unknown_zones_are_refused(name):
    with pytest.raises(InvalidSchedule) as refused:
        zone(name)
    assert refused.value.code == "JOB_422_SCHEDULE"
    assert refused.value.details["field"] == "timezone"
    assert len(refused.value.message) < 200


def test_wrong_case_is_refused_with_the_name():
    with pytest.raises(InvalidSchedule, match="write Asia/Shanghai"):
        zone("asia/shanghai")
