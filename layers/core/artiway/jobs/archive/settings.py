"""Live settings of the archive of runs (R-JOB-9)."""

from __future__ import annotations

from artiway.settings.model import Setting

HOT_DAYS = Setting("run_archive.hot_days", 7, "days for which runs and logs stay in PostgreSQL", 1, 90)
KEEP_DAYS = Setting("run_archive.keep_days", 180, "days for which archived runs and logs are kept", 1, 399)
