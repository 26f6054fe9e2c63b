"""Limits of orders as live settings."""

from __future__ import annotations

from artiway.payments.model import OpenLimits
from artiway.settings.model import Setting, SettingValues

ORDERS_PER_USER = Setting("limit.open_orders_per_user", 20, "open orders of a user", 1, 10_000)
ORDERS_PER_TENANT = Setting("limit.open_orders_per_tenant", 200, "open orders of a tenant", 1, 100_000)


def open_limits(values: SettingValues) -> OpenLimits:
    return OpenLimits(values.get(ORDERS_PER_USER), values.get(ORDERS_PER_TENANT))
