"""Providers of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from artiway.bootstrap import base
from artiway.bootstrap.circuits import provider_circuits
from artiway.bootstrap.once import once

if TYPE_CHECKING:
    from artiway.generations.providers.router import ProviderRouter
    from artiway.generations.providers.routes import StoredRoutes


@once
def text_routes() -> StoredRoutes:
    """The operator's document, read again every five minutes."""
    from artiway.generations.providers.routes import StoredRoutes
    from artiway.platform.secrets import OptionalSecret

    return StoredRoutes(OptionalSecret(base.settings().text_providers_secret_arn).text)


@once
def text_router() -> ProviderRouter:
    from artiway.generations.providers.outbound import ChatProvider, OperatorsClient
    from artiway.generations.providers.quota import RedisQuota
    from artiway.generations.providers.router import ProviderRouter

    return ProviderRouter(
        text_routes(),
        ChatProvider(OperatorsClient(text_routes())),
        provider_circuits(),
        RedisQuota(base.redis(), breaker=base.redis_breaker()),
    )
