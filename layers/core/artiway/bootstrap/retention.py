"""Finished rows leave after their time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.live_settings import service_setting_values
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.retention.service import RetentionService


@once
def retention() -> RetentionService:
    from artiway.retention.repository import PostgresExpiredRows
    from artiway.retention.service import RetentionService

    return RetentionService(
        PostgresExpiredRows(base.service_database()),
        service_setting_values(),
        monotonic=time.monotonic,
        batches=base.settings().retention_batches,
    )
