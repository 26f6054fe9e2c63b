"""Usage by day, tool and person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.usage.repository import PostgresUsage


@once
def usage() -> PostgresUsage:
    from artiway.usage.repository import PostgresUsage

    return PostgresUsage(base.database())
