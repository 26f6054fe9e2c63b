"""The calls of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.tasks import catalogue, node_store, nodes

if TYPE_CHECKING:
    from artiway.platform.object_urls import ObjectUrls
    from artiway.workers.service import WorkerService


@once
def object_urls() -> ObjectUrls:
    from artiway.platform.object_urls import ObjectUrls

    return ObjectUrls(base.settings().artefact_bucket, base.clock())


@once
def workers() -> WorkerService:
    from artiway.workers.repository import PostgresAssets
    from artiway.workers.service import WorkerService

    assets = PostgresAssets(base.database())
    return WorkerService(nodes(), node_store(), assets, object_urls(), catalogue(), setting_values())
