"""The location of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.geo.service import GeoService


@once
def geo() -> GeoService:
    from artiway.geo.repository import HttpSource, report
    from artiway.geo.service import GeoService

    return GeoService(
        [HttpSource(name, url) for name, url in base.settings().geo_sources],
        base.cache(),
        source_timeout_s=base.settings().geo_source_timeout_s,
        limit_s=base.settings().geo_limit_s,
        report=report,
    )
