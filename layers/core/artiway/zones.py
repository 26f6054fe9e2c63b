"""IANA time zones from the pinned package `tzdata`. The host's database is never read.

Two databases of different age would compute two fire times for one schedule.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata

TZDATA_VERSION: str = tzdata.IANA_VERSION

_PACKAGE = Path(tzdata.__file__).parent


@cache
def names() -> frozenset[str]:
    """Every name of the database, links such as `Asia/Chongqing` among them."""
    return frozenset((_PACKAGE / "zones").read_text("utf-8").split()) - {"Factory"}


def zone(name: str) -> ZoneInfo:
    """The zone of this name. Names are exact: `Asia/Shanghai`, `UTC`. Raises KeyError."""
    if name not in names():
        raise KeyError(name)
    return _zone(name)


@cache
def _zone(name: str) -> ZoneInfo:
    with (_PACKAGE / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)
