"""Limits of jobs as live settings: of each tier (R-JOB-7), and of all HTTP calls together."""

from __future__ import annotations

from artiway.settings.model import Setting

_LIMITS = {
    "runs_at_once": ("runs of a tenant at once", 0, 100_000),
    "runs_per_minute": ("runs that a tenant starts per minute", 0, 1_000_000),
    "shortest_period_s": ("shortest period of a job, in seconds", 1, 86_400),
}
_TIERS = {
    "enterprise": (200, 6_000, 1),
    "vip": (50, 1_200, 10),
    "standard": (20, 300, 60),
    "free": (10, 120, 60),
}
JOB_LIMITS = {
    f"{tier}.{limit}": Setting(f"jobs.{tier}.{limit}", default, description, lowest, highest)
    for tier, defaults in _TIERS.items()
    for default, (limit, (description, lowest, highest)) in zip(defaults, _LIMITS.items(), strict=True)
}
CAPACITY = Setting("jobs.capacity", 1_000, "HTTP runs of all tenants at once", 0, 1_000_000)
BACKFILL_RUNS = Setting("limit.backfill_runs", 10_000, "runs of a backfill", 0, 100_000)
PER_TENANT = Setting("limit.jobs_per_tenant", 10_000, "jobs of a tenant", 0, 1_000_000)
SECRETS_PER_TENANT = Setting("limit.job_secrets_per_tenant", 100, "secrets of a tenant's jobs", 0, 10_000)
# A call with its secrets must fit into one message.
BODY_BYTES = Setting("limit.job_body_bytes", 65_536, "bytes of the body of an HTTP job", 0, 100_000)
