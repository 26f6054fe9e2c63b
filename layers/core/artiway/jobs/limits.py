"""The limits of a tenant's jobs: its own, or those of its tier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artiway.jobs.model import JobLimits, JobPriority
from artiway.jobs.settings import JOB_LIMITS
from artiway.settings.model import SettingValues


def limits_of(policy: Mapping[str, Any], values: SettingValues) -> JobLimits:
    """`policy` is the tenant's row of the query `tenant_policies`."""
    tier = policy["tier"]

    def limit(own: str, name: str) -> int:
        value = policy[own]
        return int(values.get(JOB_LIMITS[f"{tier}.{name}"]) if value is None else value)

    return JobLimits(
        runs_at_once=limit("job_concurrency", "runs_at_once"),
        runs_per_minute=limit("job_per_minute", "runs_per_minute"),
        shortest_period_s=limit("job_period_s", "shortest_period_s"),
        ceiling=JobPriority(policy["priority"]),
        weight=policy["weight"],
        is_active=policy["status"] == "ACTIVE",
    )
