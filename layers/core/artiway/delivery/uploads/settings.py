"""Limits of uploads as live settings. The highest values are those that a worker accepts."""

from __future__ import annotations

from artiway.settings.model import Setting

BYTES = Setting("upload.bytes", 20_000_000, "bytes of an upload", 1, 25_000_000)
PIXELS = Setting("upload.pixels", 40_000_000, "pixels of an upload", 1, 50_000_000)
SIDE = Setting("upload.side", 12_000, "pixels of one side of an upload", 1, 16_384)
OPEN_PER_USER = Setting("limit.open_uploads_per_user", 500, "uploads of a user that no task has used", 1, 100_000)
OPEN_PER_TENANT = Setting(
    "limit.open_uploads_per_tenant", 2_000, "uploads of a tenant that no task has used", 1, 100_000
)
