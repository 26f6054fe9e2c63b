"""What a call can end with. Every error of the API has its status, its stable code and the id of the request."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """The API refused a request. `code` is stable (AREA_STATUS_NAME), `message` is for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        request_id: str = "",
        details: dict[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({code})")
        self.status, self.code, self.message = status, code, message
        self.request_id, self.details, self.retry_after_s = request_id, details or {}, retry_after_s


class NotAuthenticated(ApiError):
    """Log in again, or use another key."""


class InsufficientPoints(ApiError):
    """The balance is short: recharge, or ask for fewer results."""


class Forbidden(ApiError):
    """The caller lacks a permission, or the tenant is suspended."""


class NotFound(ApiError):
    """There is no such object in this tenant."""


class Conflict(ApiError):
    """The object is not in a state for this, or a limit is reached."""


class Invalid(ApiError):
    """The request is wrong; `details` names the fields."""


class TooMany(ApiError):
    """A limit of rate, depth or quota, for longer than the client retries."""


class Unavailable(ApiError):
    """The platform or a part of it is away, for longer than the client retries."""


class AnswerLost(Exception):
    """No answer: the platform cannot be reached, or the connection broke."""


_KINDS: dict[int, type[ApiError]] = {
    401: NotAuthenticated,
    402: InsufficientPoints,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_for(status: int, body: Any, retry_after_s: float | None) -> ApiError:
    """The error of an answer. A body of another shape comes from a proxy on the way."""
    found = body if isinstance(body, dict) else {}
    return _KINDS.get(status, ApiError)(
        status,
        str(found.get("code", f"HTTP_{status}")),
        str(found.get("message", "the answer was not one of the API's")),
        request_id=str(found.get("requestId", "")),
        details=found.get("details") if isinstance(found.get("details"), dict) else None,
        retry_after_s=retry_after_s,
    )
