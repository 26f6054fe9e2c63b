"""The kinds of failure. Each error has a stable code AREA_STATUS_NAME, which contains the HTTP status."""

from __future__ import annotations

from typing import Any


class ArtiwayError(Exception):
    """A failure that a caller can act on. Everything else is a bug."""

    code = "PLATFORM_500_INTERNAL"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if code is not None:
            self.code = code

    @property
    def status(self) -> int:
        return int(self.code.split("_")[1])


class NotFound(ArtiwayError):
    """It does not exist, or belongs to another tenant: the answer is the same."""

    code = "REQUEST_404_NOT_FOUND"


class Conflict(ArtiwayError):
    """The current state does not allow the change."""

    code = "REQUEST_409_CONFLICT"


class Refused(ArtiwayError):
    """The request is valid JSON, but its content is not acceptable."""

    code = "REQUEST_422_INVALID"


class Unauthenticated(ArtiwayError):
    """The caller has no valid token or key."""

    code = "AUTH_401_TOKEN_INVALID"


class NotAllowed(ArtiwayError):
    """The caller lacks a permission."""

    code = "AUTH_403_FORBIDDEN"


class TooMany(ArtiwayError):
    """The same request may pass later."""

    code = "RATE_429_LIMITED"

    def __init__(self, message: str, *, retry_after_s: int, code: str | None = None, **details: Any) -> None:
        super().__init__(message, code=code, **details)
        self.retry_after_s = retry_after_s


class Unavailable(TooMany):
    """A service that we depend on does not answer."""

    code = "PLATFORM_503_UNAVAILABLE"
