"""The location of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.delivery import outbound
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.geo.service import GeoService


@once
def geo() -> GeoService:
    from artiway.geo.model import SourceSpec
    from artiway.geo.repository import HttpSource, report
    from artiway.geo.service import GeoService
    from artiway.geo.settings import SOURCES

    return GeoService(
        lambda: [HttpSource(SourceSpec(**spec), outbound()) for spec in setting_values().get(SOURCES)],
        base.cache(),
        source_timeout_s=base.settings().geo_source_timeout_s,
        limit_s=base.settings().geo_limit_s,
        report=report,
    )
