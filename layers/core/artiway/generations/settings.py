"""Prices, limits and times of text generation as live settings."""

from __future__ import annotations

from artiway.generations import services
from artiway.generations.model import GuardLimits, Rules
from artiway.settings.model import Setting, SettingValues

# Prices and limits of each service, which `services.py` reads.
SERVICE_SETTINGS = {
    setting.key: setting
    for one in services.load().values()
    for setting in (one.prices.input, one.prices.output, one.limits.input, one.limits.usual, one.limits.most)
}

FREE_TOKENS = Setting(
    "text.free_tokens", 2_000, "tokens that a user without points may use in a day (UTC)", minimum=0, maximum=10**9
)
PARALLELISM = Setting(
    "text.parallelism", 10, "texts at once in a lane that has no parallelism of its own", minimum=0, maximum=1_000
)
USER_TEXTS = Setting("text.user_texts", 3, "texts of one user at once", minimum=1, maximum=1_000)
MODEL_TEXTS = {
    "paid": Setting("text.model_texts_paid", 50, "paid texts of one model at once", minimum=1, maximum=10_000),
    "free": Setting("text.model_texts_free", 10, "free texts of one model at once", minimum=1, maximum=10_000),
}
ATTEMPTS = Setting("text.attempts", 3, "failed attempts after which a text fails", minimum=1, maximum=10)
PROVIDER_WAIT_S = Setting(
    "text.provider_wait_s",
    600,
    "seconds for which a text waits for busy or absent providers",
    minimum=1,
    maximum=86_400,
)
LEASE_S = Setting("text.lease_s", 30, "seconds for which a worker holds a text without a heartbeat", 6, 600)
SNAPSHOT_S = Setting("text.snapshot_s", 5, "seconds between two snapshots of a running text", minimum=1, maximum=60)
BACKOFF_S = Setting("text.backoff_s", 2, "seconds until a refused or failed text is tried again", 1, 300)


def rules(values: SettingValues) -> Rules:
    return Rules(
        attempts=values.get(ATTEMPTS),
        provider_wait_s=values.get(PROVIDER_WAIT_S),
        lease_s=values.get(LEASE_S),
        snapshot_s=values.get(SNAPSHOT_S),
        backoff_s=values.get(BACKOFF_S),
    )


def guard_limits(values: SettingValues) -> GuardLimits:
    return GuardLimits(
        parallelism=values.get(PARALLELISM),
        user=values.get(USER_TEXTS),
        model={tier: values.get(setting) for tier, setting in MODEL_TEXTS.items()},
    )


def free_tokens(values: SettingValues) -> int:
    return values.get(FREE_TOKENS)
