"""What is for sale: price and points, as data."""

from __future__ import annotations

import json
from importlib.resources import files

from artiway.payments.model import Package


def packages(text: str = "") -> tuple[Package, ...]:
    """The given list, or the one that ships. A mistake in it is found at the first use."""
    found = json.loads(text or (files("artiway.payments") / "packages.json").read_text("utf-8"))
    made = tuple(Package(str(one["packageId"]), int(one["amountFen"]), int(one["points"])) for one in found)
    if len({one.package_id for one in made}) != len(made) or any(min(one.amount_fen, one.points) < 1 for one in made):
        raise ValueError("packages need names of their own, a price and points")
    return made
