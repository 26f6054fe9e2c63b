"""Uploads, results, live events and webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.audit import audit
from artiway.bootstrap.live_settings import setting_values
from artiway.bootstrap.once import once
from artiway.bootstrap.outbox import outbox, service_outbox

if TYPE_CHECKING:
    from artiway.delivery.feed.queue import RedisFeed, RedisListeners
    from artiway.delivery.uploads.repository import S3Objects
    from artiway.delivery.uploads.service import Pictures, UploadService
    from artiway.delivery.webhooks.outbound import WebhookPost
    from artiway.delivery.webhooks.repository import PostgresDueDeliveries
    from artiway.delivery.webhooks.service import WebhookService
    from artiway.platform.outbound import Client


@once
def task_feed() -> RedisFeed:
    from artiway.delivery.feed.queue import RedisFeed

    return RedisFeed(base.redis(), interval_ms=round(base.settings().progress_interval_s * 1_000))


@once
def listeners() -> RedisListeners:
    """Open streams of tasks and texts, counted together."""
    from artiway.delivery.feed.model import ListenerLimits
    from artiway.delivery.feed.queue import RedisListeners

    settings = base.settings()
    limits = ListenerLimits(settings.events_per_user, settings.events_per_tenant, settings.events_at_once)
    return RedisListeners(base.redis(), limits, breaker=base.redis_breaker())


@once
def artefact_objects() -> S3Objects:
    from artiway.delivery.uploads.repository import S3Objects

    return S3Objects(base.settings().artefact_bucket)


@once
def pictures() -> Pictures:
    """Addresses of pictures: CloudFront's, or S3's in a stack without a distribution."""
    from artiway.delivery.uploads.repository import stored_pictures
    from artiway.platform.picture_keys import StoredKey
    from artiway.platform.signed_urls import UrlSigner

    settings = base.settings()
    signer = UrlSigner(settings.picture_key_id, StoredKey(settings.picture_secret_arn, settings.picture_key).pem)
    return stored_pictures(artefact_objects(), signer, base.clock())


@once
def uploads() -> UploadService:
    from artiway.delivery.uploads.model import OpenLimits
    from artiway.delivery.uploads.repository import PostgresUploads, S3Pictures
    from artiway.delivery.uploads.service import Bounds, UploadService
    from artiway.delivery.uploads.settings import BYTES, OPEN_PER_TENANT, OPEN_PER_USER, PIXELS, SIDE

    settings, values = base.settings(), setting_values()
    bounds = lambda: Bounds(  # noqa: E731 (a provider defines no function)
        bytes=values.get(BYTES),
        pixels=values.get(PIXELS),
        side=values.get(SIDE),
        url_ttl_s=settings.result_url_s,
        url_step_s=settings.result_url_step_s,
        upload_ttl_s=settings.upload_url_s,
        opened=OpenLimits(values.get(OPEN_PER_USER), values.get(OPEN_PER_TENANT)),
    )
    return UploadService(
        PostgresUploads(base.database(), audit()),
        artefact_objects(),
        pictures(),
        base.clock(),
        bounds,
        originals=S3Pictures(artefact_objects(), base.clock()),
    )


@once
def outbound() -> Client:
    """For every target that a tenant names."""
    from artiway.platform.outbound import Client, parse_ports, parse_targets

    settings = base.settings()
    return Client(allowed=parse_targets(settings.allowed_targets), ports=parse_ports(settings.outbound_ports))


@once
def webhook_post() -> WebhookPost:
    from artiway.delivery.webhooks.outbound import WebhookPost

    settings = base.settings()
    return WebhookPost(outbound(), timeout_s=settings.webhook_timeout_s, lookup_s=settings.webhook_lookup_s)


@once
def webhooks() -> WebhookService:
    from artiway.delivery.webhooks.model import Limits
    from artiway.delivery.webhooks.repository import PostgresWebhooks
    from artiway.delivery.webhooks.service import WebhookService

    limits = Limits(
        registered=base.settings().webhook_limit,
        implied=base.settings().webhook_implied_limit,
        pending=base.settings().webhook_pending_limit,
        sends=base.settings().webhook_tenant_sends,
    )
    return WebhookService(PostgresWebhooks(base.database(), outbox()), webhook_post(), base.clock(), limits)


@once
def due_deliveries() -> PostgresDueDeliveries:
    from artiway.delivery.webhooks.repository import PostgresDueDeliveries

    return PostgresDueDeliveries(base.service_database(), service_outbox())
