"""The points ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.identity import accounts
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.points.repository import PostgresOverview
    from artiway.points.service import PointsService
    from artiway.points.trial import TrialService


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
def trial() -> TrialService:
    from artiway.points.settings import trial_terms
    from artiway.points.trial import TrialService

    return TrialService(points(), accounts(), lambda: trial_terms(setting_values()))


@once
def trial_offer() -> Callable[[bool], int | None]:
    """How many trial points a tenant could have now; None if it had them. For functions without the other databases."""
    from artiway.points.settings import trial_terms
    from artiway.points.trial import offer

    return lambda had_trial: offer(trial_terms(setting_values()), had_trial=had_trial)


@once
def points_overview() -> PostgresOverview:
    """Accounts and holds of all tenants, for schedules, the watchdog and administrators."""
    from artiway.points.repository import PostgresOverview

    return PostgresOverview(base.service_database())
