"""The kinds of failure. Each error carries a stable code AREA_STATUS_NAME; the edge reads the status out of it."""

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
    """It does not exist, or not for this tenant: the two look the same from outside."""

    code = "REQUEST_404_NOT_FOUND"


class Conflict(ArtiwayError):
    """The state of the thing does not allow the act."""

    code = "REQUEST_409_CONFLICT"


class Refused(ArtiwayError):
    """The request is understood and will not be carried out as it stands."""

    code = "REQUEST_422_INVALID"


class Unauthenticated(ArtiwayError):
    """Nobody, or nobody that we can verify, is asking."""

    code = "AUTH_401_TOKEN_INVALID"


class NotAllowed(ArtiwayError):
    """We know who is asking, and they may not."""

    code = "AUTH_403_FORBIDDEN"


class TooMany(ArtiwayError):
    """The same request may pass later."""

    code = "RATE_429_LIMITED"

    def __init__(self, message: str, *, retry_after_s: int, code: str | None = None, **details: Any) -> None:
        super().__init__(message, code=code, **details)
        self.retry_after_s = retry_after_s


class Unavailable(TooMany):
    """Something that we depend on is away."""

    code = "PLATFORM_503_UNAVAILABLE"
