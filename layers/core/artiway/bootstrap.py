"""The only place where services meet adapters. All is made on first use, so importing a handler needs nothing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from artiway.platform.settings import Settings

if TYPE_CHECKING:
    from pydantic import SecretStr
    from redis import Redis

    from artiway.health.service import HealthService
    from artiway.identity.tokens import Verifier
    from artiway.outbox.repository import Outbox
    from artiway.outbox.service import Relay
    from artiway.platform.database import Database
    from artiway.push.service import PushService


@cache
def settings() -> Settings:
    return Settings()


@cache
def database() -> Database:
    """As `artiway_app`: the rows of one tenant."""
    return _database(settings().database_url)


@cache
def service_database() -> Database:
    """As `artiway_service`: for functions that work across tenants."""
    return _database(settings().service_database_url)


def _database(url: SecretStr) -> Database:
    from artiway.platform.database import Database

    return Database(
        url.get_secret_value(),
        connect_timeout_s=settings().database_connect_timeout_s,
        statement_timeout_ms=settings().database_statement_timeout_ms,
    )


@cache
def redis() -> Redis:
    from artiway.platform import redis as platform_redis

    return platform_redis.connect(settings().redis_url.get_secret_value(), timeout_s=settings().redis_timeout_s)


def _relay(of: Database) -> Relay:
    from artiway.outbox.queue import SqsSender
    from artiway.outbox.repository import PostgresStore
    from artiway.outbox.service import Relay

    return Relay(PostgresStore(of), SqsSender({"push": settings().push_queue_url}))


@cache
def relay() -> Relay:
    """The sweep, over all tenants."""
    return _relay(service_database())


@cache
def service_outbox() -> Outbox:
    """For changes made across tenants."""
    from artiway.outbox.repository import Outbox

    return Outbox(relay().deliver)


@cache
def outbox() -> Outbox:
    """For changes made inside one tenant."""
    from artiway.outbox.repository import Outbox

    return Outbox(_relay(database()).deliver)


@cache
def push() -> PushService:
    from artiway.platform.clock import SystemClock
    from artiway.push.repository import ApiGatewaySockets, PostgresConnections
    from artiway.push.service import PushService

    return PushService(
        PostgresConnections(service_database(), service_outbox()),
        ApiGatewaySockets(settings().websocket_endpoint),
        SystemClock(),
        connection_ttl_s=settings().connection_ttl_s,
    )


@cache
def token_verifier() -> Verifier:
    from artiway.identity.tokens import Verifier

    return Verifier(settings().token_jwks, issuer=settings().token_issuer)


@cache
def health() -> HealthService:
    from artiway.health.service import HealthService
    from artiway.platform import redis as platform_redis

    def postgres_answers() -> None:
        with service_database().service_transaction():
            pass

    def redis_answers() -> None:
        with platform_redis.translated():
            redis().ping()

    return HealthService({"postgres": postgres_answers, "redis": redis_answers})


def migrate() -> list[int]:
    from artiway.platform import migrations

    return migrations.migrate(_owner_url())


def _owner_url() -> str:
    from artiway.platform.database import with_iam_password

    return with_iam_password(settings().owner_database_url.get_secret_value())


def token_jwks(key_ids: list[str]) -> str:
    from artiway.platform import kms

    return kms.public_jwks(key_ids)
