"""The limits of each tier as live settings. PostgreSQL's view `tier_default` reads them, so every query sees them."""

from __future__ import annotations

from artiway.settings.model import Setting

# The values of `tier_default` and its bounds; a test compares them.
_LIMITS = {
    "weight": ("share of the GPUs", 1, 1_000),
    "concurrency": ("running nodes of a tenant", 0, 100_000),
    "queue_depth": ("unfinished tasks of a tenant", 0, 1_000_000),
    "rate_per_second": ("requests per second of a tenant, and of each user", 1, 100_000),
    "burst": ("requests at once of a tenant, and of each user", 1, 200_000),
    "artefact_days": ("days for which pictures are kept", 1, 180),
}
_TIERS = {
    "enterprise": (10, 50, 500, 100, 200, 180),
    "vip": (5, 20, 100, 50, 100, 30),
    "standard": (2, 5, 30, 20, 40, 15),
    "free": (1, 2, 10, 5, 10, 3),
}
TIER_LIMITS = {
    f"{tier}.{limit}": Setting(f"tier.{tier}.{limit}", default, description, lowest, highest)
    for tier, defaults in _TIERS.items()
    for default, (limit, (description, lowest, highest)) in zip(defaults, _LIMITS.items(), strict=True)
}
