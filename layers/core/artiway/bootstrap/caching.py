"""The cache for operators, dictionaries, and the warm-up of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit_trail
from artiway.bootstrap.live_settings import service_setting_values, setting_values
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.caching.service import CacheService
    from artiway.dictionaries.service import DictionaryService


@once
def dictionaries() -> DictionaryService:
    from artiway.dictionaries.service import DictionaryService

    return DictionaryService(base.cache())


@once
def caches() -> CacheService:
    from artiway.caching.service import CacheService

    refreshers = {"settings": service_setting_values().refresh, "dictionaries": dictionaries().refresh}
    return CacheService(base.cache(), audit_trail(), refreshers)


@once
def warm_up() -> int:
    """Loads settings and dictionaries into the cache, once in a process and again after a restore. Never raises."""
    items = [*setting_values().items(), *dictionaries().items()]
    return base.cache().warm(items, limit_s=base.settings().cache_warm_up_s)
