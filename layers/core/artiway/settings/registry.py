"""All settings: each feature declares its own in `<feature>/settings.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from artiway.circuits import settings as circuits
from artiway.delivery.uploads import settings as uploads
from artiway.generations import settings as generations
from artiway.geo import settings as geo
from artiway.health import settings as health
from artiway.identity import settings as identity
from artiway.identity.tenants import settings as tiers
from artiway.jobs import settings as jobs
from artiway.jobs.archive import settings as run_archive
from artiway.jobs.guard import settings as run_guard
from artiway.payments import settings as payments
from artiway.points import settings as points
from artiway.recovery import settings as recovery
from artiway.retention import settings as retention
from artiway.series import settings as series
from artiway.settings.model import Setting
from artiway.tasks import settings as tasks
from artiway.tasks.calls import settings as calls
from artiway.workers import settings as workers

MODULES: tuple[ModuleType, ...] = (
    calls,
    circuits,
    generations,
    geo,
    health,
    identity,
    jobs,
    payments,
    points,
    recovery,
    retention,
    run_archive,
    run_guard,
    series,
    tasks,
    tiers,
    uploads,
    workers,
)


@cache
def settings() -> Mapping[str, Setting[Any]]:
    """By key, in the order of the keys."""
    found = [setting for module in MODULES for setting in declared(module)]
    keys = [setting.key for setting in found]
    if repeated := {key for key in keys if keys.count(key) > 1}:
        raise ValueError(f"two settings have the key {min(repeated)}")
    for setting in found:
        setting.parsed(setting.default)
    return {setting.key: setting for setting in sorted(found, key=lambda setting: setting.key)}


def declared(module: ModuleType) -> Iterator[Setting[Any]]:
    """The constants of a module that are settings, and the settings in its mappings."""
    for value in vars(module).values():
        if isinstance(value, Setting):
            yield value
        elif isinstance(value, Mapping):
            yield from (one for one in value.values() if isinstance(one, Setting))
