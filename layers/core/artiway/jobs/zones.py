"""The time zone of a schedule."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from artiway import zones
from artiway.jobs.cron import InvalidSchedule
from artiway.zones import TZDATA_VERSION, names

__all__ = ["TZDATA_VERSION", "names", "zone"]


def zone(name: str) -> ZoneInfo:
    """The zone of this name. Names are exact: `Asia/Shanghai`, `UTC`."""
    try:
        return zones.zone(name)
    except KeyError:
        raise InvalidSchedule("timezone", _unknown(name)) from None


def _unknown(name: str) -> str:
    near = [known for known in names() if known.lower() == name.strip().lower()]
    advice = f"write {near[0]}" if near else "write an IANA name such as Asia/Shanghai, America/New_York or UTC"
    return f"{name[:40]!r} is no IANA time zone; {advice}"
