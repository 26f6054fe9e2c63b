"""Time that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 3, 2, 4, 0, tzinfo=UTC)  # 12:00 in Shanghai


class FixedClock:
    def __init__(self, at: datetime = NOON) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at

    def set(self, at: datetime) -> None:
        self._at = at

    def advance(self, **parts: float) -> None:
        self._at += timedelta(**parts)
