"""Step 2: which model each service of the lane would use now, and the limits that are in force."""

from __future__ import annotations

from artiway.generations.model import Cost, GuardLimits, Mode, tier_of
from artiway.generations.ports import Decision, Route
from artiway.generations.providers.model import ProviderFailed, Router
from artiway.generations.services import Services


def decide(lane: str, services: Services, router: Router, limits: GuardLimits) -> Decision:
    """A service without a route has no model: its texts are claimed, and end with the reason."""
    routes, models = [], {}
    for service, routed in services.in_lane(Mode(lane.partition("_")[2])):
        try:
            targets = router.targets(routed, is_paid=tier_of(lane) == "paid")
        except ProviderFailed:
            continue
        first = targets[0]
        routes.append(Route(service, first.provider, first.model_id, Cost(first.input_points, first.output_points)))
        models[service] = [target.name for target in targets]
    return Decision(lane, routes, limits, models)
