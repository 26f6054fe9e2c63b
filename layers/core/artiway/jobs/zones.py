"""IANA time zones from the pinned package `tzdata`. The host's database is never read.

Two databases of different age would compute two fire times for one schedule.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata

from artiway.jobs.cron import InvalidSchedule

TZDATA_VERSION: str = tzdata.IANA_VERSION

_PACKAGE = Path(tzdata.__file__).parent


@cache
def names() -> frozenset[str]:
    """Every name of the database, links such as `Asia/Chongqing` among them."""
    return frozenset((_PACKAGE / "zones").read_text("utf-8").split()) - {"Factory"}


@cache
def _zone(name: str) -> ZoneInfo:
    with (_PACKAGE / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def zone(name: str) -> ZoneInfo:
    """The zone of this name. Names are exact: `Asia/Shanghai`, `UTC`."""
    if name not in names():
        raise InvalidSchedule("timezone", _unknown(name))
    return _zone(name)


def _unknown(name: str) -> str:
    near = [known for known in names() if known.lower() == name.strip().lower()]
    advice = f"write {near[0]}" if near else "write an IANA name such as Asia/Shanghai, America/New_York or UTC"
    return f"{name[:40]!r} is no IANA time zone; {advice}"
