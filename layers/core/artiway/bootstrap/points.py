"""The points ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.points.repository import PostgresOverview
    from artiway.points.service import PointsService


@once
def points() -> PointsService:
    """Joins the caller's open transaction on `database()`."""
    from artiway.points.repository import PostgresLedger
    from artiway.points.service import PointsService

    ledger = PostgresLedger(base.database(), audit(), lots_per_user=base.settings().points_lots)
    return PointsService(ledger, base.clock())


@once
def grants() -> PointsService:
    """For gifts, on its own connection: a gift commits in the receiver's tenant, its key in the sender's."""
    from artiway.points.repository import PostgresLedger
    from artiway.points.service import PointsService

    settings = base.settings()
    ledger = PostgresLedger(base.connect(settings.database_url), audit(), lots_per_user=settings.points_lots)
    return PointsService(ledger, base.clock())


@once
def points_overview() -> PostgresOverview:
    """Accounts and holds of all tenants, for schedules, the watchdog and administrators."""
    from artiway.points.repository import PostgresOverview

    return PostgresOverview(base.service_database())
