"""The only place where services meet adapters: one module per feature, providers only.

A provider makes its service on first use and keeps it, so importing a handler needs no environment.
"""

from artiway.bootstrap.audit import audit, audit_trail
from artiway.bootstrap.base import (
    cache,
    clock,
    database,
    locks,
    rate_limiter,
    reader_database,
    redis,
    redis_breaker,
    service_database,
    settings,
)
from artiway.bootstrap.caching import caches, dictionaries, warm_up
from artiway.bootstrap.circuits import circuits
from artiway.bootstrap.delivery import artefact_objects, due_deliveries, outbound, task_feed, uploads, webhooks
from artiway.bootstrap.deployment import owner_database_url
from artiway.bootstrap.geo import geo
from artiway.bootstrap.health import front_door, guard, health
from artiway.bootstrap.idempotency import idempotency
from artiway.bootstrap.identity import (
    access,
    access_check,
    accounts,
    administrators,
    api_keys,
    auth,
    cached_access,
    origin,
    people,
    tenants,
    token_verifier,
)
from artiway.bootstrap.live_settings import live_settings, service_setting_values, setting_values
from artiway.bootstrap.once import forget_all
from artiway.bootstrap.outbox import outbox, relay, service_outbox
from artiway.bootstrap.payments import alerts, bills, callbacks, order_sweep, orders, reconciliation, wechat_pay
from artiway.bootstrap.points import grants, points, points_overview
from artiway.bootstrap.push import push
from artiway.bootstrap.recovery import dead_letters, invariants, sweeper
from artiway.bootstrap.retention import retention
from artiway.bootstrap.scheduling import fair_queues, operations, scheduler, scheduling_store
from artiway.bootstrap.series import series
from artiway.bootstrap.tasks import (
    catalogue,
    live_catalogue,
    node_store,
    nodes,
    progress,
    task_events,
    task_store,
    tasks,
    why,
)
from artiway.bootstrap.workers import object_urls, workers

__all__ = [
    "access",
    "access_check",
    "accounts",
    "administrators",
    "alerts",
    "api_keys",
    "artefact_objects",
    "audit",
    "audit_trail",
    "auth",
    "bills",
    "cache",
    "cached_access",
    "caches",
    "callbacks",
    "catalogue",
    "circuits",
    "clock",
    "database",
    "dead_letters",
    "dictionaries",
    "due_deliveries",
    "fair_queues",
    "forget_all",
    "front_door",
    "geo",
    "grants",
    "guard",
    "health",
    "idempotency",
    "invariants",
    "live_catalogue",
    "live_settings",
    "locks",
    "node_store",
    "nodes",
    "object_urls",
    "operations",
    "order_sweep",
    "orders",
    "origin",
    "outbound",
    "outbox",
    "owner_database_url",
    "people",
    "points",
    "points_overview",
    "progress",
    "push",
    "rate_limiter",
    "reader_database",
    "reconciliation",
    "redis",
    "redis_breaker",
    "relay",
    "retention",
    "scheduler",
    "scheduling_store",
    "series",
    "service_database",
    "service_outbox",
    "service_setting_values",
    "setting_values",
    "settings",
    "sweeper",
    "task_events",
    "task_feed",
    "task_store",
    "tasks",
    "tenants",
    "token_verifier",
    "uploads",
    "warm_up",
    "webhooks",
    "wechat_pay",
    "why",
    "workers",
]
