"""Live settings of the guard of runs (R-JOB-8)."""

from __future__ import annotations

from artiway.jobs.guard.model import CircuitRules, GuardRules
from artiway.settings.model import Setting, SettingValues

LATENCY_S = Setting("run_guard.latency_s", 2.0, "start delay in seconds, 95th percentile, that is too long", 0.1, 600)
LATENCY_FOR_S = Setting("run_guard.latency_for_s", 300, "seconds of late runs before a lane is paused", 20, 86_400)
BACKLOG = Setting("run_guard.backlog", 200_000, "due runs that are too many", 1, 100_000_000)
BACKLOG_FOR_S = Setting("run_guard.backlog_for_s", 600, "seconds of too many runs before a lane is paused", 20, 86_400)
CALM_FOR_S = Setting(
    "run_guard.calm_for_s", 120, "seconds below half of both limits before a lane is resumed", 20, 86_400
)
FAILURE_PERCENT = Setting("run_guard.failure_percent", 3.0, "failed runs in percent that open a circuit", 0.1, 100)
FAILURE_FOR_S = Setting("run_guard.failure_for_s", 300, "seconds over which failed runs are counted", 20, 3_600)
LEAST_RUNS = Setting("run_guard.least_runs", 20, "ended runs that a circuit of a target needs to open", 1, 100_000)
OPEN_S = Setting("run_guard.open_s", 60, "seconds from opening to the first probe; each failure doubles it", 1, 3_600)


def guard_rules(values: SettingValues) -> GuardRules:
    return GuardRules(
        latency_s=values.get(LATENCY_S),
        latency_for_s=values.get(LATENCY_FOR_S),
        backlog=values.get(BACKLOG),
        backlog_for_s=values.get(BACKLOG_FOR_S),
        calm_for_s=values.get(CALM_FOR_S),
    )


def circuit_rules(values: SettingValues) -> CircuitRules:
    return CircuitRules(
        failure_percent=values.get(FAILURE_PERCENT),
        failure_for_s=values.get(FAILURE_FOR_S),
        least_runs=values.get(LEAST_RUNS),
        open_s=values.get(OPEN_S),
    )
