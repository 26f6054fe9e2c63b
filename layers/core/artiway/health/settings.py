"""Thresholds of the guard as live settings."""

from __future__ import annotations

from artiway.settings.model import Setting

OUTBOX_S = Setting("guard.outbox_s", 60, "age of the oldest unsent message in seconds", 1, 86_400)
WAITING = Setting("guard.waiting", 1_000, "nodes that wait in all lanes", 1, 10_000_000)
QUEUE_AGE_S = Setting("guard.queue_age_s", 900, "age of the oldest waiting node in seconds", 1, 86_400)
REDIS_MEMORY_PERCENT = Setting("guard.redis_memory_percent", 80, "memory of Redis in use", 1, 100)
REDIS_CONNECTIONS = Setting("guard.redis_connections", 1_000, "connections to Redis", 1, 100_000)
TRIGGER_LAG_S = Setting("guard.trigger_lag_s", 30, "seconds that a fire is over without a run or a note", 1, 86_400)
RUN_BACKLOG = Setting("guard.run_backlog", 200_000, "runs of jobs that are due and have not started", 1, 10_000_000)
RUN_FAILURES_PERCENT = Setting("guard.run_failures_percent", 3, "runs of five minutes that failed", 1, 100)
