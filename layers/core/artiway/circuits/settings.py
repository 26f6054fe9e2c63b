"""Live settings of circuits."""

from __future__ import annotations

from artiway.circuits.model import Rules
from artiway.settings.model import Setting, SettingValues

FAILURES = Setting(
    "circuit.failures", 5, "failures of an engine in a row that stop its step in the pool", minimum=1, maximum=1_000
)
PROBE_S = Setting("circuit.probe_s", 15, "seconds from the stop to the first probe", minimum=1, maximum=3_600)
PROBE_MAX_S = Setting(
    "circuit.probe_max_s", 300, "longest time in seconds between two probes; each failure doubles it", 1, 86_400
)
WAIT_S = Setting(
    "circuit.wait_s", 900, "seconds for which a node waits for a stopped step before its task fails", 1, 86_400
)
REFUSE_AFTER_S = Setting(
    "circuit.refuse_after_s",
    300,
    "seconds after which submissions that need a stopped step are refused until the next probe",
    minimum=0,
    maximum=86_400,
)


def rules(values: SettingValues) -> Rules:
    return Rules(
        failures=values.get(FAILURES),
        probe_s=values.get(PROBE_S),
        probe_max_s=values.get(PROBE_MAX_S),
        wait_s=values.get(WAIT_S),
        refuse_after_s=values.get(REFUSE_AFTER_S),
    )
