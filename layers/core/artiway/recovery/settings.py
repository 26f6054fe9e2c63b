"""How much of all rows the invariants check each night."""

from __future__ import annotations

from artiway.settings.model import Setting

SLICE_ROWS = Setting(
    key="invariants.slice_rows",
    default=20_000,
    minimum=1,
    maximum=10_000_000,
    description="Rows of each large table that the nightly check of the invariants reads; the next night continues",
)
