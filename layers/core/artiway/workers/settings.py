"""What an operator can change about the work of workers. A running worker takes a change with its next heartbeat."""

from __future__ import annotations

from artiway.settings.model import Setting, SettingValues
from artiway.tasks.model import Terms

LEASE_SECONDS = Setting(
    "worker.lease_seconds", 30, "How long a worker holds a node without a heartbeat", minimum=6, maximum=600
)
BEAT_SECONDS = Setting(
    "worker.beat_seconds",
    10,
    "How often a worker renews its leases; a third of the lease where that is less",
    minimum=1,
    maximum=200,
)
TIME_LIMIT_SECONDS = Setting(
    "worker.time_limit_seconds", 600, "How long one attempt at a node may run", minimum=1, maximum=7_200
)
PROGRESS_INTERVAL_MS = Setting(
    "worker.progress_interval_ms",
    2_000,
    "How often a worker reports the progress of a node",
    minimum=100,
    maximum=60_000,
)


def terms(values: SettingValues) -> Terms:
    lease_s = values.get(LEASE_SECONDS)
    # Two heartbeats may be lost before the lease is.
    beat_s = min(float(values.get(BEAT_SECONDS)), lease_s / 3)
    return Terms(lease_s=lease_s, beat_s=beat_s, time_limit_s=values.get(TIME_LIMIT_SECONDS))
