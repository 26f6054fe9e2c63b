"""The price of HTTP nodes, and how many run at once, as live settings."""

from __future__ import annotations

from artiway.settings.model import Setting

HTTP_PRICE = Setting("price.flow.http", 1, "points for an HTTP node of a caller's flow", minimum=1, maximum=10_000)
CAPACITY = Setting("flows.calls_at_once", 500, "HTTP nodes of all tenants at once", 0, 1_000_000)
