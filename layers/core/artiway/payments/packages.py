"""The packages of points and their prices, as data."""

from __future__ import annotations

import json
from importlib.resources import files

from artiway.payments.model import Package


def packages(text: str = "") -> tuple[Package, ...]:
    """Parse the given list, or packages.json. An invalid list raises ValueError."""
    found = json.loads(text or (files("artiway.payments") / "packages.json").read_text("utf-8"))
    made = tuple(Package(str(one["packageId"]), int(one["amountFen"]), int(one["points"])) for one in found)
    if len({one.package_id for one in made}) != len(made) or any(min(one.amount_fen, one.points) < 1 for one in made):
        raise ValueError("each package needs a unique id, a price and points")
    return made
