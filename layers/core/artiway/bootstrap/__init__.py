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
    redis,
    redis_breaker,
    service_database,
    settings,
)
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
from artiway.bootstrap.once import forget_all
from artiway.bootstrap.outbox import outbox, relay, service_outbox
from artiway.bootstrap.payments import alerts, bills, callbacks, order_sweep, orders, reconciliation, wechat_pay
from artiway.bootstrap.points import grants, points, points_overview
from artiway.bootstrap.push import push
from artiway.bootstrap.recovery import dead_letters, invariants, purge, sweeper
from artiway.bootstrap.scheduling import fair_queues, operations, scheduler, scheduling_store
from artiway.bootstrap.tasks import (
    catalogue,
    node_store,
    nodes,
    progress,
    task_events,
    task_store,
    tasks,
    why,
)

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
    "callbacks",
    "catalogue",
    "clock",
    "database",
    "dead_letters",
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
    "locks",
    "node_store",
    "nodes",
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
    "purge",
    "push",
    "rate_limiter",
    "reconciliation",
    "redis",
    "redis_breaker",
    "relay",
    "scheduler",
    "scheduling_store",
    "service_database",
    "service_outbox",
    "settings",
    "sweeper",
    "task_events",
    "task_feed",
    "task_store",
    "tasks",
    "tenants",
    "token_verifier",
    "uploads",
    "webhooks",
    "wechat_pay",
    "why",
]
