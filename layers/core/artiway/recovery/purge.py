"""Deletes rows whose retention is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ExpiredRows(Protocol):
    def purge(self, *, limit: int) -> int:
        """Delete expired rows of all tenants, at most `limit` in one transaction. Returns how many were deleted."""


class PurgeService:
    """Deletes expired idempotency keys, audit entries, sessions and logins."""

    def __init__(self, stores: Mapping[str, ExpiredRows], *, batch: int) -> None:
        self._stores, self._batch = stores, batch

    def purge(self) -> dict[str, int]:
        """How many rows were deleted, by the name of the store."""
        return {name: store.purge(limit=self._batch) for name, store in self._stores.items()}
