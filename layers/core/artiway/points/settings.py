"""Trial points as live settings."""

from __future__ import annotations

from artiway.points.trial import TrialTerms
from artiway.settings.model import Setting, SettingValues

TRIAL_POINTS = Setting("trial.points", 50, "trial points of a new tenant; 0: there is no trial", 0, 1_000_000)
TRIALS_PER_ADDRESS = Setting("trial.per_address", 3, "trials from one address per window", 2, 10_000)
# No longer than a count of failed logins stays (retention.session_days).
TRIAL_WINDOW_S = Setting("trial.window_s", 86_400, "seconds in which trials of an address count", 60, 86_400)


def trial_terms(values: SettingValues) -> TrialTerms:
    return TrialTerms(values.get(TRIAL_POINTS), values.get(TRIALS_PER_ADDRESS), values.get(TRIAL_WINDOW_S))
