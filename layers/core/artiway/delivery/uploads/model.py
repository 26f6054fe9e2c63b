"""Uploads: a declared picture, the ticket to upload it, and addresses of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from artiway.errors import Conflict, NotFound, Refused

CONTENT_TYPES = ("image/png", "image/jpeg", "image/webp")


class NoSuchInput(NotFound):
    code = "UPLOAD_404_NO_INPUT"

    def __init__(self) -> None:
        super().__init__("there is no such input")


class NotAPicture(Refused):
    """The upload is not the declared picture, or has a type or size that is not accepted."""

    code = "UPLOAD_422_NOT_A_PICTURE"


class NotUploaded(Refused):
    code = "UPLOAD_422_NOT_UPLOADED"


class TooManyUploads(Conflict):
    """The limit of uploads that no task has used is reached."""

    code = "UPLOAD_409_TOO_MANY"

    def __init__(self, owner: str, limit: int) -> None:
        message = f"this {owner} has {limit} uploads that no task uses; use them, or wait until they expire"
        super().__init__(message, limit=limit, of=owner)


@dataclass(frozen=True)
class OpenLimits:
    """The number of uploads that no task has used yet."""

    per_user: int
    per_tenant: int


@dataclass(frozen=True)
class Upload:
    """`width` and `height` are known after the first inspection."""

    input_id: UUID
    user_id: UUID
    key: str
    content_type: str
    bytes: int
    width: int | None
    height: int | None
    expires_at: datetime


@dataclass(frozen=True)
class Ticket:
    """How to upload: one request with exactly these headers, until `expires_at`."""

    input_id: UUID
    url: str
    method: str
    headers: Mapping[str, str]
    expires_at: datetime


class TaskNotEnded(Conflict):
    code = "TASK_409_NOT_ENDED"

    def __init__(self) -> None:
        super().__init__("the task has not ended; cancel it first")


class NoSuchResult(NotFound):
    def __init__(self) -> None:
        super().__init__("there is no such result")


@dataclass(frozen=True)
class Original:
    """An upload of a task. The address is None if the picture is not kept any more."""

    name: str
    input_id: UUID
    url: str | None
    content_type: str
    width: int | None
    height: int | None
    expires_at: datetime | None


@dataclass(frozen=True)
class Request:
    """What the submitter asked for, and which of its results were deleted."""

    params: Mapping[str, Any]
    count: int | None
    originals: Sequence[Original]
    deleted: Sequence[str]


@dataclass(frozen=True)
class Thumbnail:
    url: str
    width: int
    height: int


@dataclass(frozen=True)
class Result:
    """A delivered picture. Both addresses expire soon; a browser saves what it finds at `download_url`."""

    name: str
    url: str
    download_url: str
    content_type: str
    width: int
    height: int
    expires_at: datetime
