"""Step 2: which model each service of the lane would use now, and the limits that are in force."""

from __future__ import annotations

from artiway.generations.model import GuardLimits, Mode, tier_of
from artiway.generations.ports import Decision, Route
from artiway.generations.providers.model import ProviderFailed, Router
from artiway.generations.services import Services


def decide(lane: str, services: Services, router: Router, limits: GuardLimits) -> Decision:
    """A service without a route has no model: its texts are claimed, and end with the reason."""
    routes = []
    for service in services.of_modes([Mode(lane.partition("_")[2])]):
        try:
            first = router.targets(service.name, is_paid=tier_of(lane) == "paid")[0]
        except ProviderFailed:
            continue
        routes.append(Route(service.name, first.provider, first.model_id))
    return Decision(lane, routes, limits)
