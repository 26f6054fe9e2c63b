"""The only place where services meet adapters. All is made on first use, so importing a handler needs nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as once
from typing import TYPE_CHECKING

from artiway.platform.settings import Settings

if TYPE_CHECKING:
    from uuid import UUID

    from pydantic import SecretStr
    from redis import Redis

    from artiway.audit.repository import AuditLog, AuditTrail
    from artiway.delivery.feed.queue import RedisFeed
    from artiway.delivery.feed.service import FeedService
    from artiway.delivery.uploads.repository import S3Objects
    from artiway.delivery.uploads.service import UploadService
    from artiway.delivery.webhooks.service import WebhookService
    from artiway.geo.service import GeoService
    from artiway.health.service import Guard, HealthService
    from artiway.idempotency.service import IdempotencyService
    from artiway.identity.access.service import AccessService, CachedAccess
    from artiway.identity.keys.service import ApiKeyService
    from artiway.identity.passwords import Argon2Passwords
    from artiway.identity.people.service import PeopleService
    from artiway.identity.repository import PostgresAccounts
    from artiway.identity.service import AuthService
    from artiway.identity.tenants.service import TenantService
    from artiway.identity.tokens import Verifier
    from artiway.outbox.repository import Outbox
    from artiway.outbox.service import Relay
    from artiway.payments.alerts import Alerts
    from artiway.payments.callbacks import CallbackService
    from artiway.payments.credit import CreditService
    from artiway.payments.reconciliation import ReconciliationService
    from artiway.payments.repository import PostgresBills, PostgresOrders
    from artiway.payments.service import OrderService
    from artiway.payments.sweep import SweepService
    from artiway.payments.wechat import Merchant, WechatPay
    from artiway.platform.breaker import Breaker
    from artiway.platform.cache import Cache
    from artiway.platform.clock import Clock
    from artiway.platform.database import Database
    from artiway.platform.gate import AccessGate
    from artiway.platform.lock import Locks
    from artiway.platform.ratelimit import RateLimiter
    from artiway.platform.secrets import Secret
    from artiway.points.repository import PostgresOverview
    from artiway.points.service import PointsService
    from artiway.push.service import PushService
    from artiway.recovery.deadletters import DeadLetters
    from artiway.recovery.invariants import Invariants
    from artiway.recovery.service import Sweeper
    from artiway.scheduling.dispatcher import Dispatcher
    from artiway.scheduling.operations import OperationsService
    from artiway.scheduling.queue import FairQueue
    from artiway.scheduling.repository import PostgresBook
    from artiway.tasks.catalogue import Catalogue
    from artiway.tasks.lifecycle import NodeService
    from artiway.tasks.progress import Progress
    from artiway.tasks.repository import PostgresNodes, PostgresTasks
    from artiway.tasks.service import TaskService
    from artiway.tasks.why import WhyService


@once
def settings() -> Settings:
    return Settings()


@once
def database() -> Database:
    """As `artiway_app`: the rows of one tenant."""
    return _database(settings().database_url)


@once
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


@once
def redis() -> Redis:
    from artiway.platform import redis as platform_redis

    return platform_redis.connect(settings().redis_url.get_secret_value(), timeout_s=settings().redis_timeout_s)


def _relay(of: Database) -> Relay:
    from artiway.outbox.queue import SqsSender
    from artiway.outbox.repository import PostgresStore
    from artiway.outbox.service import Relay
    from artiway.tasks.queue import MachineSender, Senders

    queues = SqsSender({"push": settings().push_queue_url, **settings().queue_urls})
    return Relay(PostgresStore(of), Senders({"machine": MachineSender(settings().task_machine_arn)}, queues))


@once
def relay() -> Relay:
    """The sweep, over all tenants."""
    return _relay(service_database())


@once
def service_outbox() -> Outbox:
    """For changes made across tenants."""
    from artiway.outbox.repository import Outbox

    return Outbox(relay().deliver)


@once
def outbox() -> Outbox:
    """For changes made inside one tenant."""
    from artiway.outbox.repository import Outbox

    return Outbox(_relay(database()).deliver)


@once
def push() -> PushService:
    from artiway.platform.clock import SystemClock
    from artiway.push.repository import ApiGatewaySockets, PostgresConnections
    from artiway.push.service import GREETING_DELAY_S, PushService

    lease_s = settings().connection_lease_s
    connections = PostgresConnections(
        service_database(),
        service_outbox(),
        settling_s=GREETING_DELAY_S,
        lease_s=lease_s,
        resume_s=settings().connection_resume_s,
    )
    sockets = ApiGatewaySockets(settings().websocket_endpoint)
    return PushService(connections, sockets, SystemClock(), ttl_s=settings().connection_ttl_s, lease_s=lease_s)


@once
def token_verifier() -> Verifier:
    from artiway.identity.tokens import Verifier

    return Verifier(settings().token_jwks, issuer=settings().token_issuer)


@once
def _queues() -> Callable[[str], FairQueue]:
    """The fair queue of each pool, over one connection."""
    from artiway.scheduling.queue import FairQueue

    made: dict[str, FairQueue] = {}
    return lambda pool: made.setdefault(pool, FairQueue(redis(), pool))


@once
def _book() -> PostgresBook:
    from artiway.scheduling.repository import PostgresBook

    return PostgresBook(
        service_database(),
        audit(),
        silence_s=settings().worker_silence_s,
        window_s=settings().scheduler_window_s,
        samples=settings().scheduler_cost_samples,
        prefetch=settings().scheduler_prefetch,
    )


@once
def scheduler() -> Dispatcher:
    from artiway.scheduling.dispatcher import Dispatcher

    return Dispatcher(_nodes(), _book(), _queues(), clock())


@once
def _feed() -> RedisFeed:
    from artiway.delivery.feed.queue import RedisFeed

    return RedisFeed(redis(), interval_ms=round(settings().progress_interval_s * 1_000))


@once
def _task_store() -> PostgresTasks:
    """Announces to Redis and frees slots after each commit; what is lost of that, the sweepers make good."""
    from artiway.delivery.feed.service import announce
    from artiway.tasks.repository import PostgresTasks

    return PostgresTasks(
        database(),
        outbox(),
        clock(),
        announce=announce(_feed()),
        release=lambda left: scheduler().left(left),
    )


@once
def _nodes() -> PostgresNodes:
    from artiway.tasks.repository import PostgresNodes

    return PostgresNodes(service_database(), service_outbox())


@once
def nodes() -> NodeService:
    """The life of a node: claims, beats, reports, tokens, ends."""
    import random

    from artiway.tasks.lifecycle import NodeService, Rules

    rules = Rules(
        lease_s=settings().lease_s,
        beat_s=settings().beat_s,
        retries=settings().node_retries,
        backoff_s=settings().node_backoff_s,
        node_time_limit_s=settings().node_time_limit_s,
        progress_interval_s=settings().progress_interval_s,
    )
    return NodeService(_task_store(), _nodes(), points(), webhooks(), rules, jitter=random.random)


@once
def tasks() -> TaskService:
    from artiway.tasks import catalogue
    from artiway.tasks.load import remembered
    from artiway.tasks.service import TaskService

    return TaskService(
        _task_store(),
        points(),
        uploads(),
        catalogue.load(),
        nodes(),
        clock(),
        load_of=remembered(_nodes().lane_load, clock(), for_s=settings().lane_load_s),
        hold_ttl_s=settings().hold_ttl_s,
    )


@once
def why() -> WhyService:
    from artiway.tasks.why import WhyService

    return WhyService(tasks(), _queues(), clock())


def catalogue() -> Catalogue:
    from artiway.tasks import catalogue

    return catalogue.load()


@once
def progress() -> Progress:
    from artiway.tasks.progress import Progress, direct
    from artiway.tasks.queue import send_now

    tell = direct(send_now(settings().push_queue_url))
    return Progress(_task_store(), nodes(), _feed(), clock(), tell=tell)


def task_progress(task_id: UUID) -> dict[str, tuple[int, int]]:
    """(attempt, percent) of each node by its id on the wire, as Redis knows it; empty where that is away."""
    from artiway.errors import Unavailable

    try:
        return _feed().progress(task_id)
    except Unavailable:
        return {}


@once
def task_events() -> FeedService:
    import time

    from artiway.delivery.feed.queue import RedisListeners
    from artiway.delivery.feed.service import FeedService

    listeners = RedisListeners(redis(), limit=settings().events_per_user, breaker=_breaker())
    return FeedService(_task_store(), _feed(), listeners, pause=time.sleep)


@once
def _objects() -> S3Objects:
    from artiway.delivery.uploads.repository import S3Objects

    return S3Objects(settings().artefact_bucket)


@once
def uploads() -> UploadService:
    from artiway.delivery.uploads.model import OpenLimits
    from artiway.delivery.uploads.repository import PostgresUploads
    from artiway.delivery.uploads.service import Bounds, UploadService

    bounds = Bounds(
        bytes=settings().upload_bytes,
        pixels=settings().upload_pixels,
        side=settings().upload_side,
        url_ttl_s=settings().result_url_s,
        upload_ttl_s=settings().upload_url_s,
        opened=OpenLimits(settings().uploads_open_per_user, settings().uploads_open_per_tenant),
    )
    return UploadService(PostgresUploads(database()), _objects(), clock(), bounds)


@once
def webhooks() -> WebhookService:
    from artiway.delivery.webhooks.outbound import Outbound
    from artiway.delivery.webhooks.repository import PostgresWebhooks
    from artiway.delivery.webhooks.service import WebhookService

    post = Outbound(timeout_s=settings().webhook_timeout_s, is_private_allowed=settings().is_private_webhook_allowed)
    return WebhookService(PostgresWebhooks(database(), outbox()), post, clock())


def due_deliveries() -> list[tuple[UUID, UUID]]:
    from artiway.delivery.webhooks.repository import PostgresDueDeliveries

    return PostgresDueDeliveries(service_database()).due(limit=settings().watchdog_batch)


@once
def sweeper() -> Sweeper:
    from artiway.recovery.repository import PostgresFinds
    from artiway.recovery.service import Patience, Sweeper

    patience = Patience(
        batch=settings().watchdog_batch,
        unclaimed_s=settings().unclaimed_s,
        abandoned_s=settings().abandoned_s,
        execution_s=settings().execution_unheard_s,
        running_s=settings().running_limit_s,
        requeued_tools=settings().requeued_tools,
    )
    finds = PostgresFinds(service_database(), service_outbox())
    return Sweeper(finds, _task_store(), nodes(), points(), _objects(), patience)


@once
def invariants() -> Invariants:
    from redis.exceptions import RedisError

    from artiway.recovery.invariants import Invariants
    from artiway.recovery.mirror import SlotMirror
    from artiway.recovery.repository import PostgresLooks, PostgresSlots
    from artiway.scheduling.operations import IMAGE_POOLS

    mirror = SlotMirror(PostgresSlots(service_database()), _queues(), IMAGE_POOLS, losses=(RedisError,))
    return Invariants(PostgresLooks(service_database()), mirror)


@once
def dead_letters() -> DeadLetters:
    from artiway.recovery.deadletters import DeadLetters, Pair
    from artiway.recovery.queue import SqsQueues
    from artiway.recovery.repository import AuditJournal

    pairs = [Pair(name, urls[0], urls[1:]) for name, urls in settings().dead_letters.items()]
    return DeadLetters(
        pairs,
        SqsQueues(),
        AuditJournal(service_database(), audit()),
        once=lambda name: locks().hold(name, ttl_s=settings().dead_letter_lock_s),
    )


@once
def operations() -> OperationsService:
    from artiway.scheduling.operations import OperationsService

    return OperationsService(_book(), _queues(), scheduler(), clock())


@once
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


@once
def guard() -> Guard:
    from artiway.health.service import Guard, Meter
    from artiway.outbox.repository import PostgresStore
    from artiway.platform import redis as platform_redis

    def waiting() -> int:
        return sum(lane.depth for lane in operations().lanes())

    def redis_memory() -> float:
        with platform_redis.translated():
            found = redis().info("memory")
        return 100 * float(found["used_memory"]) / float(found["maxmemory"] or found["total_system_memory"])

    def redis_connections() -> int:
        with platform_redis.translated():
            return int(redis().info("clients")["connected_clients"])

    oldest = PostgresStore(service_database()).oldest_unsent_age_s
    return Guard(
        health(),
        [
            Meter("outboxOldest", oldest, settings().guard_outbox_s, "s"),
            Meter("nodesWaiting", waiting, settings().guard_waiting, "nodes"),
            Meter("redisMemory", redis_memory, settings().guard_redis_memory_percent, "%"),
            Meter("redisConnections", redis_connections, settings().guard_redis_connections, "connections"),
        ],
    )


@once
def cache() -> Cache:
    from artiway.platform.cache import Cache, Limits

    limits = Limits(
        entries=settings().cache_entries,
        first_level_s=settings().cache_first_level_s,
        sync_s=settings().cache_sync_s,
        load_s=settings().cache_load_s,
        wait_s=settings().cache_wait_s,
    )
    return Cache(redis(), limits, breaker=_breaker())


@once
def _breaker() -> Breaker:
    """One for all who can do without Redis."""
    from artiway.platform.breaker import Breaker

    return Breaker()


@once
def locks() -> Locks:
    from artiway.platform.lock import Locks

    return Locks(redis(), breaker=_breaker())


@once
def rate_limiter() -> RateLimiter:
    from artiway.platform.ratelimit import RateLimiter

    return RateLimiter(redis(), breaker=_breaker())


@once
def idempotency() -> IdempotencyService:
    from artiway.idempotency.repository import PostgresKeys
    from artiway.idempotency.service import IdempotencyService

    return IdempotencyService(PostgresKeys(database()))


@once
def audit() -> AuditLog:
    from artiway.audit.repository import AuditLog

    return AuditLog()


@once
def audit_trail() -> AuditTrail:
    from artiway.audit.repository import AuditTrail

    return AuditTrail(service_database(), audit())


@once
def geo() -> GeoService:
    from artiway.geo.repository import HttpSource, report
    from artiway.geo.service import GeoService

    return GeoService(
        [HttpSource(name, url) for name, url in settings().geo_sources],
        cache(),
        source_timeout_s=settings().geo_source_timeout_s,
        limit_s=settings().geo_limit_s,
        report=report,
    )


def purge_expired() -> dict[str, int]:
    """Delete a batch of idempotency keys, audit entries, sessions and logins whose time is over, over all tenants."""
    from artiway.idempotency import repository as idempotency_keys

    limit = settings().purge_batch
    with service_database().service_transaction() as tx:
        return {
            "idempotency_keys": idempotency_keys.purge(tx, limit=limit),
            "audit_entries": audit().purge(tx, limit=limit),
            "accounts": accounts().purge(limit=limit),
        }


def migrate() -> list[int]:
    from artiway.platform import migrations

    return migrations.migrate(_owner_url())


def _owner_url() -> str:
    from artiway.platform.database import with_iam_password

    return with_iam_password(settings().owner_database_url.get_secret_value())


def token_jwks(key_ids: list[str]) -> str:
    from artiway.platform import kms

    return kms.public_jwks(key_ids)


@once
def gate() -> AccessGate:
    """What stands before every protected route: `http.Api("area", gate=bootstrap.gate)`."""
    from artiway.platform.gate import AccessGate

    return AccessGate(access(), rate_limiter(), idempotency)


@once
def _origin_secret() -> Secret:
    from artiway.platform.secrets import Secret

    return Secret(settings().origin_secret_arn)


def origin_secret() -> str:
    """What CloudFront sends with every request and nobody else knows; empty where there is no CloudFront."""
    return _origin_secret().text() if settings().origin_secret_arn else ""


@once
def access() -> AccessService:
    from artiway.identity.access.repository import PostgresAccess, SpentNonces
    from artiway.identity.access.service import AccessService
    from artiway.platform.clock import SystemClock

    clock = SystemClock()
    nonces = SpentNonces(database(), redis(), clock)
    return AccessService(PostgresAccess(database()), _cached_access(), nonces, clock)


@once
def _cached_access() -> CachedAccess:
    from artiway.identity.access.service import CachedAccess

    return CachedAccess(cache())


@once
def _passwords() -> Argon2Passwords:
    from artiway.identity.passwords import Argon2Passwords

    return Argon2Passwords()


@once
def accounts() -> PostgresAccounts:
    from artiway.identity.repository import PostgresAccounts

    return PostgresAccounts(service_database(), audit())


def make_administrator(login: str, password: str) -> str:
    """The platform's administrator, by whom all others are made. Asked again, it only sets the password."""
    from artiway.identity.model import email_of
    from artiway.ids import to_wire

    email, passwords, store = email_of(login), _passwords(), accounts()
    known = store.account_by_login(email)
    if known is not None and passwords.matches(known.password_hash, password):
        return to_wire("usr", known.user_id)
    return to_wire("usr", store.put_administrator(email=email, password_hash=passwords.hash(password)))


@once
def auth() -> AuthService:
    import json
    from datetime import timedelta

    from artiway.identity.locating import Locating
    from artiway.identity.model import Throttle
    from artiway.identity.service import AuthService, Lifetimes
    from artiway.platform.clock import SystemClock
    from artiway.platform.kms import KmsSigner
    from artiway.platform.secrets import Secret
    from artiway.platform.wechat_login import WechatClient

    refresh_secret = Secret(settings().refresh_secret_arn)
    wechat_secret = Secret(settings().wechat_login_secret_arn)
    return AuthService(
        accounts(),
        _passwords(),
        KmsSigner(settings().token_key_id),
        WechatClient(settings().wechat_login_url, lambda: json.loads(wechat_secret.text())),
        Locating(lambda address: geo().locate(address), wait_s=settings().login_location_wait_s),
        _cached_access(),
        SystemClock(),
        issuer=settings().token_issuer,
        refresh_secret=lambda: refresh_secret.text().encode(),
        throttle=Throttle(
            account_failures=settings().login_account_failures,
            address_failures=settings().login_address_failures,
            window=timedelta(seconds=settings().login_window_s),
            longest_wait=timedelta(seconds=settings().login_longest_wait_s),
        ),
        lifetimes=Lifetimes(
            access_s=settings().access_token_s,
            idle=timedelta(seconds=settings().refresh_idle_s),
            absolute=timedelta(seconds=settings().refresh_absolute_s),
            grace=timedelta(seconds=settings().refresh_grace_s),
        ),
    )


@once
def tenants() -> TenantService:
    """`tenants().policies([…])` is what each may use now."""
    from artiway.identity.tenants.repository import PostgresTenants
    from artiway.identity.tenants.service import TenantService

    return TenantService(PostgresTenants(service_database(), audit()), _passwords(), _cached_access())


@once
def people() -> PeopleService:
    from artiway.identity.people.repository import PostgresPeople
    from artiway.identity.people.service import PeopleService

    return PeopleService(PostgresPeople(database(), audit()), _passwords(), _cached_access())


@once
def api_keys() -> ApiKeyService:
    from artiway.identity.keys.repository import PostgresKeys
    from artiway.identity.keys.service import ApiKeyService
    from artiway.platform.clock import SystemClock

    return ApiKeyService(PostgresKeys(database(), audit()), _cached_access(), SystemClock())


@once
def clock() -> Clock:
    from artiway.platform.clock import SystemClock

    return SystemClock()


@once
def points() -> PointsService:
    """Joins the transaction of whoever calls it on `database()`."""
    from artiway.points.repository import PostgresLedger
    from artiway.points.service import PointsService

    return PointsService(PostgresLedger(database(), audit()), clock())


@once
def points_overview() -> PostgresOverview:
    """Accounts and holds of all tenants, for schedules, the watchdog and administrators."""
    from artiway.points.repository import PostgresOverview

    return PostgresOverview(service_database())


@once
def _merchant() -> Callable[[], Merchant]:
    """Read anew every few minutes and at no one's request: keys rotate without a deployment."""
    from artiway.payments.wechat import merchant_from_json
    from artiway.platform.secrets import Secret

    secret = Secret(settings().wechat_pay_secret_arn)
    return lambda: merchant_from_json(secret.text())


@once
def wechat_pay() -> WechatPay:
    from artiway.payments.wechat import WechatPay

    return WechatPay(_merchant(), clock())


@once
def alerts() -> Alerts:
    from artiway.payments.alerts import Alerts, SnsTopic

    return Alerts(service_database(), SnsTopic(settings().alarm_topic_arn), clock())


@once
def _orders() -> PostgresOrders:
    from artiway.payments.repository import PostgresOrders

    query_after_s = settings().order_query_after_s
    return PostgresOrders(database(), service_database(), alerts(), audit(), query_after_s=query_after_s)


@once
def _credit() -> CreditService:
    from artiway.payments.credit import CreditService

    ttl_s, wait_s = settings().order_lock_ttl_s, settings().order_lock_wait_s
    return CreditService(_orders(), points(), locks(), clock(), lock_ttl_s=ttl_s, lock_wait_s=wait_s)


@once
def orders() -> OrderService:
    from artiway.payments.packages import packages
    from artiway.payments.service import OrderService

    return OrderService(
        _orders(),
        wechat_pay(),
        _credit(),
        points(),
        clock(),
        packages=packages(settings().packages),
        order_life_s=settings().order_life_s,
        expiry_grace_s=settings().order_grace_s,
        query_after_s=settings().order_query_after_s,
        poll_spacing_s=settings().order_poll_spacing_s,
    )


@once
def callbacks() -> CallbackService:
    from artiway.payments.callbacks import CallbackService
    from artiway.payments.wechat import Notary

    return CallbackService(Notary(_merchant(), clock()), _credit(), _orders(), clock())


@once
def order_sweep() -> SweepService:
    from artiway.payments.sweep import SweepLimits, SweepService

    limits = SweepLimits(
        batch=settings().sweep_batch,
        concurrency=settings().sweep_concurrency,
        work_s=settings().sweep_work_s,
        interval_s=settings().order_query_after_s,
        lease_s=settings().sweep_lease_s,
    )
    return SweepService(_orders(), orders(), clock(), limits)


@once
def bills() -> PostgresBills:
    from artiway.payments.repository import PostgresBills

    return PostgresBills(service_database(), alerts())


@once
def reconciliation() -> ReconciliationService:
    from artiway.payments.reconciliation import ReconciliationService

    return ReconciliationService(
        wechat_pay(),
        bills(),
        _credit(),
        clock(),
        alarm_hour=settings().bill_alarm_hour,
        back_fill_days=settings().bill_back_fill_days,
    )
