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
from artiway.bootstrap.definitions import backfills, definitions, job_fires, job_secrets, jobs, run_operations, runs
from artiway.bootstrap.delivery import artefact_objects, due_deliveries, outbound, task_feed, uploads, webhooks
from artiway.bootstrap.deployment import owner_database_url
from artiway.bootstrap.generations import (
    generation_feed,
    generation_operations,
    generation_store,
    generations,
    text_claims,
    text_consumer,
    text_models,
    text_sweeps,
    wake_lane,
)
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
    authorizer,
    cached_access,
    invitations,
    origin,
    people,
    resets,
    tenants,
    token_verifier,
)
from artiway.bootstrap.jobs import (
    backfill_release,
    caller,
    dispatch,
    fire_ahead,
    job_limits,
    job_secret_cipher,
    results,
    run_control,
    run_sweeper,
    submissions,
    trigger,
)
from artiway.bootstrap.live_settings import live_settings, service_setting_values, setting_values
from artiway.bootstrap.mail import mail
from artiway.bootstrap.once import forget_all
from artiway.bootstrap.outbox import outbox, relay, service_outbox
from artiway.bootstrap.payments import alerts, bills, callbacks, order_sweep, orders, reconciliation, wechat_pay
from artiway.bootstrap.points import grants, points, points_overview, trial, trial_offer
from artiway.bootstrap.providers import text_router, text_routes
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
    task_operations,
    task_store,
    tasks,
    why,
)
from artiway.bootstrap.text_streams import generation_events
from artiway.bootstrap.usage import usage
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
    "authorizer",
    "backfill_release",
    "backfills",
    "bills",
    "cache",
    "cached_access",
    "caches",
    "callbacks",
    "caller",
    "catalogue",
    "circuits",
    "clock",
    "database",
    "dead_letters",
    "definitions",
    "dictionaries",
    "dispatch",
    "due_deliveries",
    "fair_queues",
    "fire_ahead",
    "forget_all",
    "front_door",
    "generation_events",
    "generation_feed",
    "generation_operations",
    "generation_store",
    "generations",
    "geo",
    "grants",
    "guard",
    "health",
    "idempotency",
    "invariants",
    "invitations",
    "job_fires",
    "job_limits",
    "job_secret_cipher",
    "job_secrets",
    "jobs",
    "live_catalogue",
    "live_settings",
    "locks",
    "mail",
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
    "resets",
    "results",
    "retention",
    "run_control",
    "run_operations",
    "run_sweeper",
    "runs",
    "scheduler",
    "scheduling_store",
    "series",
    "service_database",
    "service_outbox",
    "service_setting_values",
    "setting_values",
    "settings",
    "submissions",
    "sweeper",
    "task_events",
    "task_feed",
    "task_operations",
    "task_store",
    "tasks",
    "tenants",
    "text_claims",
    "text_consumer",
    "text_models",
    "text_router",
    "text_routes",
    "text_sweeps",
    "token_verifier",
    "trial",
    "trial_offer",
    "trigger",
    "uploads",
    "usage",
    "wake_lane",
    "warm_up",
    "webhooks",
    "wechat_pay",
    "why",
    "workers",
]
