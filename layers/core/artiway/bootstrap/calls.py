"""HTTP nodes of flows: their places and their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.definitions import job_secrets
from artiway.bootstrap.delivery import webhook_post
from artiway.bootstrap.jobs import run_store
from artiway.bootstrap.live_settings import service_setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import service_outbox
from artiway.bootstrap.tasks import nodes, task_store
from artiway.bootstrap.workers import object_urls

if TYPE_CHECKING:
    from artiway.tasks.calls.service import CallCheck, CallHandOver, CallPlacement


@once
def call_check() -> CallCheck:
    """Without a DNS lookup, as for webhooks: each call checks the addresses."""
    from artiway.tasks.calls.service import CallCheck

    return CallCheck(job_secrets(), refusal_of=lambda url: webhook_post().refusal(url, is_looked_up=False))


@once
def call_placement() -> CallPlacement:
    from artiway.tasks.calls.repository import PostgresPlacement
    from artiway.tasks.calls.service import CallPlacement

    return CallPlacement(PostgresPlacement(base.service_database(), service_outbox()), service_setting_values())


@once
def call_hand_over() -> CallHandOver:
    """Addresses of pictures are as old as the results of a task become in a client."""
    from artiway.tasks.calls.repository import PostgresKeys
    from artiway.tasks.calls.service import CallHandOver

    return CallHandOver(
        task_store(),
        nodes(),
        PostgresKeys(run_store()),
        base.clock(),
        address=lambda key: object_urls().get(key, ttl_s=base.settings().result_url_s),
    )
