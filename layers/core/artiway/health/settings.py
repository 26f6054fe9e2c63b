"""Thresholds of the guard as live settings."""

from __future__ import annotations

from artiway.settings.model import Setting

OUTBOX_S = Setting("guard.outbox_s", 60, "age of the oldest unsent message in seconds", 1, 86_400)
WAITING = Setting("guard.waiting", 1_000, "nodes that wait in all lanes", 1, 10_000_000)
REDIS_MEMORY_PERCENT = Setting("guard.redis_memory_percent", 80, "memory of Redis in use", 1, 100)
REDIS_CONNECTIONS = Setting("guard.redis_connections", 1_000, "connections to Redis", 1, 100_000)
